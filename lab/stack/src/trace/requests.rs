//! Commands of a run as CSV: a row for each, in the order of their ends.
//!
//! Invariant: the parts of a row add up to its latency.

use host::TracedCommand;
use ssd::Waited;
use std::io::{self, Write};
use units::{Ns, SECTOR};

/// Names of the columns.
const COLUMNS: &str = "number,command,offset_bytes,size_bytes,origin,purpose,queue,begin_ns,\
    latency_ns,submit_ns,firmware_ns,map_ns,buffer_ns,die_wait_ns,die_ns,channel_wait_ns,\
    channel_ns,other_ns,complete_ns,behind,result";

/// Table of the commands of a run.
pub(super) struct Requests<W> {
    out: W,
    /// Number of rows so far.
    rows: u64,
}

impl<W: Write> Requests<W> {
    pub(super) const fn new(out: W) -> Self {
        Self { out, rows: 0 }
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        writeln!(self.out, "{COLUMNS}")
    }

    /// Writes `commands`, whose times count from `origin`.
    pub(super) fn write(&mut self, commands: &[TracedCommand], origin: Ns) -> io::Result<()> {
        for command in commands {
            self.row(command, origin)?;
            self.rows += 1;
        }
        Ok(())
    }

    fn row(&mut self, command: &TracedCommand, origin: Ns) -> io::Result<()> {
        let out = &mut self.out;
        let (extent, who) = (command.extent, command.who);
        write!(
            out,
            "{},{},{},{},{},{},{},{},{}",
            self.rows,
            command.name,
            extent.start.0 * SECTOR,
            extent.bytes(),
            who.origin.0,
            who.purpose.name(),
            command.queue,
            command.begin.since(origin).0,
            command.end.since(command.begin).0,
        )?;
        let Parts {
            submit,
            other,
            complete,
        } = parts(command);
        write!(out, ",{}", submit.0)?;
        match &command.waited {
            Some(waited) => {
                for part in told(waited) {
                    write!(out, ",{}", part.0)?;
                }
            }
            None => write!(out, ",,,,,,,")?,
        }
        let behind = command.waited.and_then(|waited| waited.flash.behind);
        let behind = behind.map_or("", |work| work.name());
        let result = if command.is_ok { "ok" } else { "failed" };
        writeln!(out, ",{},{},{behind},{result}", other.0, complete.0)
    }

    pub(super) fn finish(self) -> W {
        self.out
    }
}

/// Parts of the time of a command beside those that the drive tells apart.
pub(super) struct Parts {
    pub(super) submit: Ns,
    pub(super) other: Ns,
    pub(super) complete: Ns,
}

pub(super) fn parts(command: &TracedCommand) -> Parts {
    let told = command.waited.as_ref().map_or([Ns::ZERO; 7], told);
    let told = Ns(told.iter().map(|ns| ns.0).sum());
    Parts {
        submit: command.arrival.since(command.begin),
        other: command.executed.since(command.arrival).since(told),
        complete: command.end.since(command.executed),
    }
}

/// Parts of the time in the drive, in the order of the columns.
pub(super) const fn told(waited: &Waited) -> [Ns; 7] {
    let flash = &waited.flash;
    [
        waited.firmware,
        waited.map,
        waited.buffer,
        flash.die_wait,
        flash.die,
        flash.channel_wait,
        flash.channel,
    ]
}
