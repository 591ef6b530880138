//! The making of a used stack.

use super::Rest;
use crate::attached::Attached;
use crate::error::StackError;
use crate::files::{self, Drive, How, Origins};
use crate::hosts::{self, Behaviour, Host, Memory};
use crate::past::Used;
use crate::plan::{Plan, Progress};
use crate::run::{attach, close, write_out};
use crate::steady::Windows;
use host::BlockDevice;
use report::record::UsedPast;
use sim::{Kernel, Seed};
use ssd::DriveMedia;
use std::ops::ControlFlow;
use std::rc::Rc;
use units::Bytes;
use vfs::AnyBody;
use workload::files::ageing::{Ageing, Ager};

/// Windows after which the stack is taken as it is: our choice.
const MOST_WINDOWS: u32 = 16;
/// Number of events between two calls of the observer.
const EVENTS: u64 = 1 << 16;

/// A file system whose files age.
type Life = Rc<Drive<AnyBody, Ager>>;

/// Makes the file system of `plan`, whose drive is fitted to it, on `media`, and uses it.
pub(crate) fn make(
    plan: &Plan,
    used: Used,
    media: DriveMedia,
    heard: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Rest, StackError> {
    let behaviour = Behaviour {
        ages: true,
        ..plan.behaviour.clone()
    };
    let host = hosts::named(&plan.stack.host, &plan.stack.switches, &behaviour);
    let host = host.ok_or_else(|| StackError::Stack {
        stack: plan.stack.to_string(),
        reason: "expected a stack with a file system for the precondition used".to_owned(),
    })?;
    let (kernel, seed, size) = (Kernel::new(), Seed(plan.seed), used.bytes(&plan.drive));
    let (sim, ageing) = (kernel.sim(), Ageing { size, churn: None });
    let device = attach(plan, media, &kernel)?;
    let port = Attached::of(&sim, &device, &plan.stack, (host.memory(), Memory::Blank))?;
    let keep = plan.behaviour.keep;
    let mounted = files::mount(host, sim.clone(), port.clone(), How::Make { keep });
    let nameless = (ageing.open(seed), Origins::nameless());
    let (vfs, ager, origins) = files::prepare(&kernel, plan, &device, mounted, nameless)?;
    let life = Drive::start(&sim, &vfs, ager, origins, false);
    let windows = live(&kernel, &device, &life, heard)?;
    let failed = life.failure();
    let no_room = |error: StackError| StackError::Unfilled {
        stack: plan.stack.to_string(),
        used: used.to_string(),
        bytes: Bytes(size),
        drive: plan.drive.capacity,
        problem: error.to_string(),
        less: less(used.fill, life.meter().written, size),
    };
    failed.map_or(Ok(()), |error| Err(no_room(error)))?;
    files::unmount(&kernel, plan, (&vfs, &port))?;
    let closed = close(&kernel, &port)?;
    closed.map_err(|error| files::refused(&plan.stack.to_string(), &error))?;
    let memory = port.memory_at_power_cut(&mut seed.stream("memory at rest"));
    let facts = UsedPast {
        fill_percent: used.fill.into(),
        file_bytes: size,
        files: life.source.borrow().files(),
        written_bytes: life.meter().written,
        windows: windows.closed().into(),
        steady: windows.is_steady(),
        waf: windows.amplification().unwrap_or_default(),
    };
    Ok(Rest {
        media: write_out(&kernel, device.drive()),
        memory,
        used: Some(facts),
    })
}

/// A percentage below `fill` that a file system can hold that took `written` of `size` bytes.
fn less(fill: u8, written: u64, size: u64) -> u8 {
    let fill = u64::from(fill);
    // One in sixteen for the file system itself, and for cleaning.
    let held = written.min(size) * fill / size.max(1) * 15 / 16;
    held.min(fill * 7 / 8).max(1) as u8
}

/// Advances time until the files have aged. A window closes after a sync, when all that the
/// programs have written is on the drive.
fn live(
    kernel: &Kernel,
    device: &BlockDevice,
    life: &Life,
    heard: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Windows, StackError> {
    let sim = kernel.sim();
    let (mut windows, mut syncs) = (Windows::new(device), 0);
    let (mut next, mut is_filled) = (sim.events(), false);
    while !life.is_done() {
        if sim.events() >= next {
            next += EVENTS;
            let progress = Progress {
                past: Some(life.meter().written),
                windows: windows.closed(),
                amplification: windows.amplification(),
                ..Progress::default()
            };
            if heard(progress).is_break() {
                return Err(StackError::Stopped { ops: 0 });
            }
        }
        let synced = life.source.borrow().syncs();
        if synced > syncs {
            syncs = synced;
            let written = life.meter().written;
            match is_filled {
                true => windows.look_at(device, written),
                false => windows = Windows::from(device, written),
            }
            is_filled |= life.source.borrow().is_filled();
            if windows.is_steady() || windows.closed() >= MOST_WINDOWS {
                life.source.borrow_mut().finish();
            }
        }
        if !kernel.step() {
            return Err(StackError::Stuck {
                in_flight: life.in_flight(),
            });
        }
    }
    Ok(windows)
}
