//! Tests: making a file system on a used drive.

use super::{Behaviour, Host, Memory, drive_for, named};
use crate::attached::Attached;
use crate::files::ready;
use crate::name::{STACKS, StackName};
use crate::plan::{Ending, Plan};
use host::{BlockPort, Who};
use nand::{Payload, UNIT};
use sim::Kernel;
use ssd::{Content, Policies, Precondition};
use units::{Bytes, Extent, MIB, Placement, SECTOR};

/// Sectors of one mapped unit.
const SECTORS: u32 = (UNIT as u64 / SECTOR) as u32;
/// Pattern of used sectors.
const USED: u64 = 0x5ca1_ab1e;

pub(super) fn plan(stack: &StackName) -> Plan {
    let drive = crate::drive::resolve(&stack.drive, Some(Bytes(256 * MIB)));
    let mut plan = Plan {
        label: String::new(),
        drive: drive.expect("it can be built"),
        stack: stack.clone(),
        precondition: Precondition::Full,
        used: None,
        workload: "touch".to_owned(),
        seed: 1,
        sample: None,
        host: host::HostConfig::default(),
        page_cache: vfs::CacheConfig::default(),
        behaviour: Behaviour::default(),
        ending: Ending::default(),
        until: crate::plan::Until::default(),
        policies: Policies::default(),
    };
    plan.drive = drive_for(stack, &plan.drive).expect("it is a file system");
    plan
}

/// Makes a file system on a fully written drive. Returns the used units that remain, all units, and
/// the units that making it wrote.
fn left_in_use(stack: &StackName) -> (u64, u64, u64) {
    let mut plan = plan(stack);
    let raw = plan.drive.raw.is_some();
    if raw {
        plan.precondition = Precondition::Fresh;
    }
    let kernel = Kernel::new();
    let media = crate::run::media(&plan).expect("it can be built");
    let device = crate::run::attach(&plan, media, &kernel).expect("as above");
    let host = named(&stack.host, &stack.switches, &plan.behaviour).expect("it is one");
    let beside = (host.memory(), Memory::Blank);
    let port = Attached::of(&kernel.sim(), &device, stack, beside).expect("it fits");
    let (sim, drive) = (kernel.sim(), device.drive().clone());
    kernel.block_on(async move {
        let units = match raw {
            true => port.capacity().0 / UNIT as u64,
            false => drive.capacity().0 / UNIT as u64,
        };
        let at = |unit: u64| Extent::new(unit * u64::from(SECTORS), SECTORS);
        if raw {
            // The history of such a drive is in its host's writes.
            port.open().await.expect("it can be mounted");
            for unit in 0..units {
                let content = Content::Fill(USED);
                let write = port.write(at(unit), content, Placement(0), Who::default(), false);
                write.await.expect("there is room");
            }
            port.flush().await.expect("there is room");
        }
        let before = port.device().ledger().write_bytes();
        ready(&port, Some(host.deallocates()))
            .await
            .expect("it can be made");
        let made = host.format(&sim, &port, vfs::Timestamp::default()).await;
        made.expect("it can be made");
        let written = (port.device().ledger().write_bytes() - before).div_ceil(UNIT as u64);
        let mut in_use = 0;
        for unit in 0..units {
            if !raw {
                in_use += u64::from(drive.is_mapped(unit as u32));
                continue;
            }
            let mut held = [Payload::Zero];
            let sink = &mut &mut held[..];
            let read = port.read(at(unit), sink, Who::default()).await;
            read.expect("it can be read");
            in_use += u64::from(held[0] == Payload::Fill(USED));
        }
        (in_use, units, written)
    })
}

/// A file system that leaves the drive as it was takes away flash that garbage collection has under
/// the others.
#[test]
fn mkfs_deallocates_a_drive_that_was_full() {
    for stack in STACKS {
        let stack: StackName = stack.name.parse().expect("it is in the table");
        let Some(host) = named(&stack.host, &stack.switches, &Behaviour::default()) else {
            continue;
        };
        let (in_use, units, written) = left_in_use(&stack);
        match host.deallocates() {
            true => assert!(
                in_use <= written,
                "{stack}: {in_use} of {units}, {written} written"
            ),
            false => assert_eq!(in_use, units, "{stack}"),
        }
    }
}
