//! Events of a run in the trace event format, which Perfetto and Chrome's viewer open.
//!
//! Each die, each channel and each reclaim group is a track of slices, which do not overlap; each
//! command is an asynchronous slice; the write buffer, the free superblocks and the commands in
//! flight are counters.

use super::requests::{parts, told};
use host::TracedCommand;
use nand::{Place, Served};
use ssd::{Drive, Relocation, Trace};
use std::io::{self, Write};
use units::{Ns, SECTOR};

/// Number of each process, which groups tracks.
const HOST: u32 = 1;
const FIRMWARE: u32 = 2;
const DIES: u32 = 3;
const CHANNELS: u32 = 4;

/// Names of the parts of the time in the drive.
const PARTS: [&str; 7] = [
    "firmware_ns",
    "map_ns",
    "buffer_ns",
    "die_wait_ns",
    "die_ns",
    "channel_wait_ns",
    "channel_ns",
];

/// Document of events under way.
pub(super) struct Events<W> {
    out: W,
    /// Commands so far, the last one's number.
    commands: u64,
    /// Values of the counters in the last event of each.
    counted: [Option<u32>; 3],
}

/// A time in microseconds, as the format has it.
struct Micros(Ns);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0.0 / 1000, self.0.0 % 1000)
    }
}

impl<W: Write> Events<W> {
    pub(super) const fn new(out: W) -> Self {
        Self {
            out,
            commands: 0,
            counted: [None; 3],
        }
    }

    /// Opens the document, and names its tracks.
    pub(super) fn begin(&mut self, drive: &Drive) -> io::Result<()> {
        let geometry = &drive.layout().geometry;
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        self.name("process_name", HOST, 0, "commands")?;
        self.name("process_name", FIRMWARE, 0, "firmware")?;
        self.name("process_name", DIES, 0, "dies")?;
        self.name("process_name", CHANNELS, 0, "channels")?;
        for group in 0..drive.layout().groups {
            self.name(
                "thread_name",
                FIRMWARE,
                group,
                &format!("relocation {group}"),
            )?;
        }
        for die in 0..geometry.dies() {
            let channel = die % geometry.channels;
            let name = format!("die {die} (channel {channel})");
            self.name("thread_name", DIES, die, &name)?;
        }
        for channel in 0..geometry.channels {
            self.name(
                "thread_name",
                CHANNELS,
                channel,
                &format!("channel {channel}"),
            )?;
        }
        Ok(())
    }

    /// Names a process or a thread. Names need no escapes.
    //= trace-event 4
    fn name(&mut self, kind: &str, process: u32, thread: u32, name: &str) -> io::Result<()> {
        let comma = if process == HOST { "" } else { "," };
        write!(
            self.out,
            "{comma}\n{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{\"name\":\"{name}\"}}}}"
        )
    }

    /// Writes commands and a trace of `drive`, with times from `origin` on.
    pub(super) fn write(
        &mut self,
        (commands, trace): (&[TracedCommand], &Trace),
        drive: &Drive,
        origin: Ns,
    ) -> io::Result<()> {
        for command in commands {
            self.command(command, origin)?;
            self.counters(command, origin)?;
        }
        for served in &trace.served {
            self.served(served, drive, origin)?;
        }
        for relocation in &trace.relocations {
            self.relocation(relocation, origin)?;
        }
        Ok(())
    }

    //= trace-event 2
    fn command(&mut self, command: &TracedCommand, origin: Ns) -> io::Result<()> {
        let (number, name) = (self.commands, command.name);
        self.commands += 1;
        let (begin, end) = (command.begin.since(origin), command.end.since(origin));
        write!(
            self.out,
            ",\n{{\"ph\":\"b\",\"cat\":\"command\",\"id\":{number},\"name\":\"{name}\",\
             \"pid\":{HOST},\"tid\":{},\"ts\":{},\"args\":{{\"offset_bytes\":{},\
             \"size_bytes\":{},\"origin\":{},\"purpose\":\"{}\"",
            command.queue,
            Micros(begin),
            command.extent.start.0 * SECTOR,
            command.extent.bytes(),
            command.who.origin.0,
            command.who.purpose.name(),
        )?;
        let rest = parts(command);
        write!(self.out, ",\"submit_ns\":{}", rest.submit.0)?;
        if let Some(waited) = &command.waited {
            for (name, part) in PARTS.iter().zip(told(waited)) {
                write!(self.out, ",\"{name}\":{}", part.0)?;
            }
            if let Some(behind) = waited.flash.behind {
                write!(self.out, ",\"behind\":\"{}\"", behind.name())?;
            }
        }
        write!(
            self.out,
            ",\"other_ns\":{},\"complete_ns\":{},\"ok\":{}}}}},\n{{\"ph\":\"e\",\
             \"cat\":\"command\",\"id\":{number},\"name\":\"{name}\",\"pid\":{HOST},\"tid\":{},\
             \"ts\":{}}}",
            rest.other.0,
            rest.complete.0,
            command.is_ok,
            command.queue,
            Micros(end),
        )
    }

    //= trace-event 3
    fn counters(&mut self, command: &TracedCommand, origin: Ns) -> io::Result<()> {
        let counters = [
            (HOST, "commands in flight", command.in_flight),
            (FIRMWARE, "write buffer (pages)", command.buffered_pages),
            (FIRMWARE, "free superblocks", command.free_superblocks),
        ];
        let time = Micros(command.end.since(origin));
        for (last, (process, name, value)) in self.counted.iter_mut().zip(counters) {
            if last.replace(value) != Some(value) {
                write!(
                    self.out,
                    ",\n{{\"ph\":\"C\",\"name\":\"{name}\",\"pid\":{process},\"ts\":{time},\
                     \"args\":{{\"value\":{value}}}}}"
                )?;
            }
        }
        Ok(())
    }

    fn served(&mut self, served: &Served, drive: &Drive, origin: Ns) -> io::Result<()> {
        let (process, thread) = match served.place {
            Place::Die(die) => (DIES, die),
            Place::Channel(channel) => (CHANNELS, channel),
        };
        self.slice(
            (process, thread),
            served.work.name(),
            (served.begin, served.end),
            origin,
        )?;
        let (row, planes) = (&served.row, served.row.planes.count_ones());
        let block = row.blocks().next().map_or(0, |block| block.block);
        write!(
            self.out,
            ",\"args\":{{\"die\":{},\"block\":{block},\"page\":{},\"planes\":{planes}",
            row.die, row.page
        )?;
        if let Some(of) = served.label.and_then(|label| drive.use_of(label)) {
            write!(self.out, ",\"for\":\"{of}\"")?;
        }
        write!(self.out, "}}}}")
    }

    fn relocation(&mut self, relocation: &Relocation, origin: Ns) -> io::Result<()> {
        let Relocation {
            line,
            group,
            cause,
            valid,
            begin,
            end,
        } = *relocation;
        self.slice((FIRMWARE, group), cause.name(), (begin, end), origin)?;
        write!(
            self.out,
            ",\"args\":{{\"superblock\":{line},\"valid_pages\":{valid}}}}}"
        )
    }

    /// Opens a slice of a track, up to its arguments. A service that began before the run is shown
    /// from the begin of the run on.
    //= trace-event 1
    fn slice(
        &mut self,
        (process, thread): (u32, u32),
        name: &str,
        (begin, end): (Ns, Ns),
        origin: Ns,
    ) -> io::Result<()> {
        let begin = begin.max(origin);
        write!(
            self.out,
            ",\n{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\
             \"ts\":{},\"dur\":{}",
            Micros(begin.since(origin)),
            Micros(end.since(begin)),
        )
    }

    /// Closes the document of the run.
    pub(super) fn finish(mut self) -> io::Result<W> {
        write!(self.out, "\n]}}\n")?;
        Ok(self.out)
    }
}
