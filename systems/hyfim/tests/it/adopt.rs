//! Takeover of a drive whose mapping was elsewhere.

use crate::support::{Left, Rig, hyfim_config, read, tiny};
use host::{BlockPort, PageChange, PmError, SwapPort, Who};
use hyfim::{HyFim, HyfimError};
use sim::{Cut, Kernel, Seed};
use ssd::Content;
use units::{Extent, Placement};

/// Writes a pattern to the first 40 sectors and flushes.
async fn write(port: &impl BlockPort, pattern: u64) {
    for sector in 0..40_u64 {
        let content = Content::Fill(pattern + sector % 3);
        let at = Extent::new(sector * 8, 8);
        let write = port.write(at, content, Placement(0), Who::default(), false);
        write.await.expect("there is room");
    }
    port.flush().await.expect("there is room");
}

/// A drive with its mapping in volatile memory, beside persistent memory with an outdated mapping.
fn stale() -> Left {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    let on = rig.clone();
    kernel.block_on(async move {
        let (system, _) = on.mount().await.expect("a new drive");
        write(&system, 100).await;
        system.publish(&[], &[]).await.expect("there is room");
    });
    let left = rig.cut(&mut Seed(1).stream("none"));
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    let on = rig.clone();
    kernel.block_on(async move { write(&on.plain().await, 200).await });
    rig.cut(&mut Seed(1).stream("none"))
}

#[test]
fn cut_during_takeover_loses_nothing() {
    let (config, first) = (tiny(), stale());
    let (mut before, mut begun, mut after) = (0, 0, 0);
    for event in 0.. {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, first.clone());
        let on = rig.clone();
        kernel.sim().spawn_detached(async move {
            let (sim, config) = (&on.sim, hyfim_config());
            let taken = HyFim::adopt(sim, on.port(), &on.pm, config).await;
            drop(taken.expect("there is room"));
            // A few events after the takeover.
            on.pm.fence().await;
            on.pm.fence().await;
        });
        let mut rng = Seed(event).stream("memory");
        let Cut::Off(left) = kernel.run_to_cut(event, || rig.cut(&mut rng)) else {
            break;
        };
        // The memory counts as untouched until its first word is gone.
        if left.memory == first.memory {
            before += 1;
            continue;
        }
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let is_there = kernel.block_on(async move {
            let mounted = rig.mount_left().await.map(drop);
            let is_there = mounted.is_ok();
            let refused = Err(HyfimError::Memory(PmError::Blank));
            assert!(is_there || mounted == refused, "event {event}: {mounted:?}");
            let (system, _) = rig.mount().await.expect("what a cut left");
            system.check();
            for sector in 0..40 {
                let held = read(&system, sector, 1).await[0];
                assert_eq!(u32::from(held), 200 + sector % 3, "event {event}");
            }
            is_there
        });
        begun += u32::from(!is_there);
        after += u32::from(is_there);
    }
    assert!(
        before > 0 && begun > 10 && after > 0,
        "{before} {begun} {after}"
    );
}

/// Contents of a node with `value` in bytes 4 to 7 and generation 0.
fn node(value: u8) -> Vec<u8> {
    let mut bytes = vec![1; 4 * 4096];
    bytes[4..8].fill(value);
    bytes[80..88].fill(0);
    bytes
}

fn change(first: u64, value: u8, part: std::ops::Range<usize>) -> PageChange {
    PageChange {
        first,
        contents: crate::support::payloads(&node(value)),
        stamp: Some((80, 0)),
        parts: vec![part],
        who: Who::default(),
    }
}

//= hyfim 3.4
#[test]
fn unreadable_node_at_recovery_is_damaged_alone() {
    let config = tiny();
    let left = {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::new(&config));
        let on = rig.clone();
        kernel.block_on(async move {
            let (system, _) = on.mount().await.expect("a new drive");
            for first in [320, 330] {
                let bytes = node(1);
                let content = Content::Bytes(&bytes);
                let at = Extent::new(first * 8, 32);
                let write = system.write(at, content, Placement(0), Who::default(), true);
                write.await.expect("there is room");
            }
            // A part of the first node changes, and the whole first sector of the second.
            let changes = [change(320, 2, 4..8), change(330, 2, 0..4096)];
            system.publish(&[], &changes).await.expect("there is room");
        });
        rig.cut(&mut Seed(1).stream("none"))
    };
    let mut unreadable = config.clone();
    unreadable.faults.read_retries = 1_000_000;
    let left = {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &unreadable, left);
        let on = rig.clone();
        kernel.block_on(async move {
            let (_, recovered) = on.mount().await.expect("it is told, not refused");
            assert_eq!((recovered.changes, recovered.lost), (1, 4 + 3));
        });
        rig.cut(&mut Seed(1).stream("none"))
    };
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let (system, recovered) = rig.mount().await.expect("what was left");
        assert_eq!(recovered.lost, 0);
        let mut torn = vec![0; 4 * 4096];
        torn[4..8].fill(2);
        assert!(read(&system, 320, 4).await == torn, "not as it was before");
        torn[..4096].copy_from_slice(&node(2)[..4096]);
        assert!(read(&system, 330, 4).await == torn);
        system.check();
    });
}

/// Records of an earlier queue, at the positions behind current ones, are not taken for current.
#[test]
fn records_of_an_earlier_queue_are_gone() {
    let config = tiny();
    let mut left = Left::new(&config);
    for life in [1, 2] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let on = rig.clone();
        kernel.block_on(async move {
            let (sim, config) = (&on.sim, hyfim_config());
            let taken = HyFim::adopt(sim, on.port(), &on.pm, config).await;
            let system = taken.expect("there is room");
            // All records have the same length, and none is written back.
            for first in (320..).step_by(4).take(3 - life) {
                let change = change(first, life as u8, 4..8);
                system.publish(&[], &[change]).await.expect("there is room");
            }
        });
        left = rig.cut(&mut Seed(1).stream("none"));
    }
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let (system, recovered) = rig.mount().await.expect("what was left");
        assert_eq!(recovered.changes, 1);
        assert_eq!(read(&system, 320, 1).await[4], 2);
        assert_eq!(read(&system, 324, 1).await[4], 0, "it is of the first time");
    });
}
