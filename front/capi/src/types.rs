//! Structures of `include/flashloom.h`, and their translation.

use crate::refused::Refused;
use ssd::IoError;
use stack::device::{Command, Completion, Counters, Device};
use std::cell::Cell;
use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use units::{Extent, Origin, Placement};
use workload::Op;

/// A drive of a C program, `struct flashloom_device` of the header.
pub struct FlashloomDevice {
    pub(crate) device: Device,
    /// Whether a call is running, or has panicked.
    pub(crate) is_broken: Cell<bool>,
}

impl FlashloomDevice {
    pub(crate) fn boxed(device: Device) -> *mut Self {
        let is_broken = Cell::new(false);
        Box::into_raw(Box::new(Self { device, is_broken }))
    }
}

/// A command, `struct flashloom_command` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FlashloomCommand {
    /// Kind of the command: its number in the header.
    pub op: u32,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// First sector of the command.
    pub sector: u64,
    /// Queue pair of the host; the largest number for that which has been idle longest.
    pub queue: u32,
    /// Bits: 1 for force unit access.
    pub flags: u32,
    /// Placement handle of a write.
    pub handle: u16,
    /// Origin of the command.
    pub origin: u16,
    /// Reserved for later versions; 0.
    pub reserved: u32,
}

/// A completion, `struct flashloom_completion` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FlashloomCompletion {
    /// Number of the command.
    pub id: u64,
    /// Time of the submission in ns.
    pub submitted_ns: u64,
    /// Time of the completion in ns.
    pub completed_ns: u64,
    /// First sector of an append, else the largest number.
    pub sector: u64,
    /// Status, 0 for success.
    pub status: u32,
    /// Reserved for later versions; 0.
    pub reserved: u32,
}

/// Counters, `struct flashloom_counters` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FlashloomCounters {
    /// Bytes that the host has read.
    pub host_read_bytes: u64,
    /// Bytes that the host has written.
    pub host_write_bytes: u64,
    /// Bytes that the host has deallocated.
    pub trim_bytes: u64,
    /// Number of flushes completed.
    pub flushes: u64,
    /// Flash pages read, for whatever cause.
    pub nand_read_pages: u64,
    /// Flash pages programmed, for whatever cause.
    pub nand_program_pages: u64,
    /// Flash blocks erased since then.
    pub nand_erase_blocks: u64,
    /// Bytes of a flash page.
    pub nand_page_bytes: u64,
    /// Superblocks that garbage collection has emptied.
    pub gc_lines: u64,
    /// Write amplification of the drive.
    pub waf: f64,
}

const _: () = {
    assert!(size_of::<FlashloomCommand>() == 32);
    assert!(offset_of!(FlashloomCommand, sector) == 8);
    assert!(offset_of!(FlashloomCommand, handle) == 24);
    assert!(size_of::<FlashloomCompletion>() == 40);
    assert!(offset_of!(FlashloomCompletion, status) == 32);
    assert!(size_of::<FlashloomCounters>() == 80);
    assert!(offset_of!(FlashloomCounters, waf) == 72);
};

/// Kinds of commands by their numbers in the header.
pub(crate) const OPS: [Op; 9] = [
    Op::Read,
    Op::Write,
    Op::Trim,
    Op::Flush,
    Op::Append,
    Op::ZoneReset,
    Op::ZoneFinish,
    Op::ZoneOpen,
    Op::ZoneClose,
];

/// A command for the queue pair that has been idle longest.
const ANY_QUEUE: u32 = u32::MAX;

/// Flag of a command that completes only when its data are durable.
const FUA: u32 = 1;

/// Names of statuses by their numbers.
const STATUSES: [&CStr; 6] = [
    c"success",
    c"sectors past the end of the drive",
    c"unrecovered read error",
    c"unknown placement handle",
    c"drive out of spare blocks, read-only",
    c"rejected or failed by a zone",
];

pub(crate) fn status(number: u32) -> &'static CStr {
    let named = STATUSES.get(number as usize).copied();
    named.unwrap_or(c"unknown status")
}

/// The command that a C program asks for.
pub(crate) fn command(asked: &FlashloomCommand) -> Result<Command, Refused> {
    let Some(&op) = OPS.get(asked.op as usize) else {
        let most = OPS.len() - 1;
        let op = asked.op;
        return Err(Refused(format!("op: {op} given, expected 0 to {most}")));
    };
    if asked.flags & !FUA != 0 || asked.reserved != 0 {
        let why = "command: expected reserved fields and unused flags to be 0";
        return Err(Refused(why.to_owned()));
    }
    Ok(Command {
        op,
        extent: Extent::new(asked.sector, asked.sectors),
        placement: Placement(asked.handle),
        fua: asked.flags & FUA != 0,
        origin: Origin(asked.origin),
        queue: (asked.queue != ANY_QUEUE).then_some(asked.queue),
    })
}

pub(crate) fn completion(done: &Completion) -> FlashloomCompletion {
    FlashloomCompletion {
        id: done.id,
        submitted_ns: done.submitted.0,
        completed_ns: done.completed.0,
        sector: done.address.unwrap_or(u64::MAX),
        status: match done.result {
            Ok(()) => 0,
            Err(IoError::OutOfRange { .. }) => 1,
            Err(IoError::Media(_)) => 2,
            Err(IoError::Placement(..)) => 3,
            Err(IoError::ReadOnly) => 4,
            Err(IoError::Zone(_)) => 5,
        },
        reserved: 0,
    }
}

pub(crate) const fn counters(counted: &Counters) -> FlashloomCounters {
    FlashloomCounters {
        host_read_bytes: counted.host_read_bytes,
        host_write_bytes: counted.host_write_bytes,
        trim_bytes: counted.trim_bytes,
        flushes: counted.flushes,
        nand_read_pages: counted.nand_read_pages,
        nand_program_pages: counted.nand_program_pages,
        nand_erase_blocks: counted.nand_erase_blocks,
        nand_page_bytes: counted.nand_page_bytes,
        gc_lines: counted.gc_lines,
        waf: counted.waf,
    }
}
