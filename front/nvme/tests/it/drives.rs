//! NVMe/TCP on simulated drives of each interface, over sockets.

use crate::host::{Host, Reply, Sqe, identity};
use crate::wire::dial;
use engine::{DeviceEngine, DriveFile, Handle, Pace, Show};
use nvme::tcp::Target;
use nvme::{DriveBackend, Subsystem};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sim::Seed;
use ssd::{DriveConfig, DriveMedia, OpenRoom, Preset, Room, ZoneEvent, ZoneState, transition};
use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use tempfile::TempDir;
use units::{Bytes, MIB};

const BLOCK: usize = 4096;

pub(crate) fn config(preset: &str) -> DriveConfig {
    let mut config = (Preset::named(preset).expect("a preset").config)();
    config.flash.keep_contents = true;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 2;
    if let Some(zones) = &mut config.zones {
        zones.dies = 4;
    }
    config.resized(Bytes(64 * MIB))
}

/// A drive in a file, under power.
pub(crate) struct Power {
    folder: TempDir,
    running: Option<(DeviceEngine, Handle<Subsystem<DriveBackend>>, Target)>,
}

impl Power {
    pub(crate) fn new(config: &DriveConfig) -> Self {
        let folder = TempDir::new().expect("a directory");
        let mut power = Self {
            folder,
            running: None,
        };
        let media = DriveMedia::new(config, Seed(1)).expect("it can be built");
        DriveFile::create(&power.path(), config, &media).expect("written");
        power.on();
        power
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("d.flash")
    }

    fn on(&mut self) {
        let started = DriveBackend::start(&self.path(), Pace::Free, Show::Drive, identity());
        let (engine, handle) = started.expect("a drive");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = Target::start(listener, &handle).expect("files");
        self.running = Some((engine, handle, target));
    }

    fn off(&mut self) {
        let Some((engine, handle, target)) = self.running.take() else {
            return;
        };
        target.stop();
        handle.stop();
        engine.join().expect("it ends").expect("it is saved");
    }

    /// Handle of the subsystem, for hosts.
    pub(crate) fn handle(&self) -> &Handle<Subsystem<DriveBackend>> {
        &self.running.as_ref().expect("it has power").1
    }

    /// Restores power after a cut.
    pub(crate) fn cut(&mut self) {
        self.off();
        self.on();
    }

    /// A connected admin queue and I/O queue.
    pub(crate) fn host(&self) -> (Host<TcpStream>, Host<TcpStream>) {
        let (_, _, target) = self.running.as_ref().expect("it has power");
        let mut admin = Host::new(dial(target.address()));
        let controller = admin.begin();
        let io = crate::sockets::queue(target.address(), controller, 1);
        (admin, io)
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        self.off();
    }
}

pub(crate) fn word(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight"))
}

#[test]
fn drive_keeps_written_data_over_a_power_cycle() {
    let mut power = Power::new(&config("block"));
    let data: Vec<u8> = (0..300 * 1024).map(|n| (n % 253) as u8).collect();
    let id = {
        let (mut admin, mut io) = power.host();
        assert_eq!(io.call(Sqe::new(1).blocks(9, 75), &data, 0).status, 0);
        assert_eq!(io.call(Sqe::new(8).blocks(20, 10), &[], 0).status, 0);
        admin.call(Sqe::identify(0, 1), &[], 4096).data[104..120].to_vec()
    };
    power.off();
    power.on();
    let (mut admin, mut io) = power.host();
    let mut expected = data;
    expected[11 * BLOCK..21 * BLOCK].fill(0);
    let found = io.call(Sqe::new(2).blocks(9, 75), &[], expected.len()).data;
    assert!(found == expected);
    assert_eq!(
        admin.call(Sqe::identify(0, 1), &[], 4096).data[104..120],
        id
    );
    let smart = admin.call(Sqe::log(2, 512), &[], 512).data;
    assert_eq!(word(&smart, 112), 2, "power cycles");
    assert!(word(&smart, 48) > 0, "units written");
}

#[test]
fn writes_with_fua_and_512_byte_blocks_are_read_back() {
    let power = Power::new(&config("block"));
    let (mut admin, mut io) = power.host();
    assert_eq!(
        admin
            .call(Sqe::new(0x80).nsid(1).dword(10, 0), &[], 0)
            .status,
        0
    );
    let size = word(&admin.call(Sqe::identify(0, 1), &[], 4096).data, 0);
    assert_eq!(size, 64 * MIB / 512);
    let write = Sqe::new(1).blocks(3, 3).dword(12, 1 << 30 | 2);
    assert_eq!(io.call(write, &[6; 1536], 0).status, 0);
    let found = io.call(Sqe::new(2).blocks(2, 8), &[], 4096).data;
    assert_eq!(found, [&[0; 512][..], &[6; 1536], &[0; 2048]].concat());
    assert_eq!(io.call(Sqe::new(0).nsid(1), &[], 0).status, 0);
}

/// Operation of a host on a zone.
#[derive(Clone, Copy, Debug)]
enum Step {
    Manage(u8),
    Write(u8, i8),
    Append(u8),
}

/// Expected state of a zone.
#[derive(Clone, Copy)]
struct Zone {
    state: ZoneState,
    written: u64,
}

const ROOMY: Room = Room {
    active: true,
    open: OpenRoom::Free,
};

/// Number of a zone state in the specification.
//= zns 3.4.2
fn code(state: ZoneState) -> u8 {
    match state {
        ZoneState::Empty => 1,
        ZoneState::ImplicitlyOpen => 2,
        ZoneState::ExplicitlyOpen => 3,
        ZoneState::Closed => 4,
        ZoneState::ReadOnly => 13,
        ZoneState::Full => 14,
        ZoneState::Offline => 15,
    }
}

const BOUNDARY: u16 = 0x1b8;
const FULL: u16 = 0x1b9;
const INVALID_WRITE: u16 = 0x1bc;
const TRANSITION: u16 = 0x1bf;

impl Zone {
    fn step(&mut self, event: ZoneEvent) -> Result<(), u16> {
        let step = transition(self.state, event, ROOMY);
        let step = step.map_err(|status| match status {
            ssd::ZoneStatus::ZoneIsFull => FULL,
            ssd::ZoneStatus::InvalidTransition => TRANSITION,
            other => panic!("unexpected {other}"),
        })?;
        self.state = step.to;
        Ok(())
    }

    fn write(&mut self, at: Option<u64>, blocks: u64, capacity: u64) -> Result<u64, u16> {
        if self.state == ZoneState::Full {
            return Err(FULL);
        }
        let begin = at.unwrap_or(self.written);
        if begin != self.written {
            return Err(INVALID_WRITE);
        }
        if begin + blocks > capacity {
            return Err(BOUNDARY);
        }
        self.step(ZoneEvent::Write)?;
        self.written += blocks;
        if self.written == capacity {
            self.step(ZoneEvent::Filled)?;
        }
        Ok(begin)
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, Step)>> {
    let step = prop_oneof![
        3 => (1..5_u8).prop_map(Step::Manage),
        3 => (1..60_u8, -1..4_i8).prop_map(|(n, off)| Step::Write(n, (off == -1).into())),
        2 => (1..60_u8).prop_map(Step::Append),
    ];
    prop::collection::vec((0..3_u8, step), 1..50)
}

//= zns 3.4.3
#[test]
fn zones_follow_the_zone_state_model() {
    let power = Power::new(&config("zns"));
    let (mut admin, mut io) = power.host();
    let set = admin
        .call(Sqe::identify(5, 1).dword(11, 2 << 24), &[], 4096)
        .data;
    let size = word(&set, 2816 + 16);
    let first = report(&mut io, 0, 0);
    let capacity = word(&first, 64 + 8);
    assert!(0 < capacity && capacity <= size);
    let mut runner = TestRunner::new(Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    });
    let io = RefCell::new(io);
    let go = |steps: Vec<(u8, Step)>| {
        let io = &mut *io.borrow_mut();
        let reset = Sqe::new(0x79).nsid(1).dword(13, 1 << 8 | 4);
        assert_eq!(io.call(reset, &[], 0).status, 0);
        let fresh = Zone {
            state: ZoneState::Empty,
            written: 0,
        };
        let mut zones = [fresh; 3];
        for (number, step) in steps {
            let zone = &mut zones[usize::from(number)];
            let start = u64::from(number) * size;
            let (found, expected) = carry_out(io, zone, step, start, capacity);
            prop_assert_eq!(found, expected, "{:?} on zone {}", step, number);
        }
        let told = report(io, 0, 0);
        for (number, zone) in zones.iter().enumerate() {
            let told = &told[64 * (number + 1)..];
            prop_assert_eq!(told[1] >> 4, code(zone.state));
            let pointer = number as u64 * size + zone.written;
            let is_full = zone.state == ZoneState::Full;
            prop_assert_eq!(word(told, 24), if is_full { u64::MAX } else { pointer });
        }
        Ok(())
    };
    let outcome = runner.run(&steps(), go);
    outcome.expect("the drive and its rules agree");
}

fn outcome(reply: &Reply) -> Result<u64, u16> {
    match reply.status {
        0 => Ok(reply.result),
        status => Err(status),
    }
}

/// Executes a step; returns its result and the one that the model expects.
fn carry_out(
    io: &mut Host<TcpStream>,
    zone: &mut Zone,
    step: Step,
    start: u64,
    capacity: u64,
) -> (Result<u64, u16>, Result<u64, u16>) {
    match step {
        Step::Manage(action) => {
            let sqe = Sqe::new(0x79).nsid(1).put(40, &start.to_le_bytes());
            let found = io.call(sqe.dword(13, action.into()), &[], 0);
            let event = match action {
                1 => ZoneEvent::Close,
                2 => ZoneEvent::Finish,
                3 => ZoneEvent::Open,
                _ => ZoneEvent::Reset,
            };
            let done = zone.step(event).map(|()| 0);
            if done.is_ok() && action == 4 {
                zone.written = 0;
            }
            (outcome(&found), done)
        }
        Step::Write(blocks, off) => {
            let at = zone.written + u64::from(off.unsigned_abs());
            let sqe = Sqe::new(1).blocks(start + at, blocks.into());
            let found = io.call(sqe, &vec![1; usize::from(blocks) * BLOCK], 0);
            let expected = if at >= capacity && zone.state != ZoneState::Full {
                Err(BOUNDARY)
            } else {
                zone.write(Some(at), blocks.into(), capacity).map(|_| 0)
            };
            (outcome(&found), expected)
        }
        Step::Append(blocks) => {
            let sqe = Sqe::new(0x7d).blocks(start, blocks.into());
            let found = io.call(sqe, &vec![2; usize::from(blocks) * BLOCK], 0);
            let placed = zone.write(None, blocks.into(), capacity);
            (outcome(&found), placed.map(|at| start + at))
        }
    }
}

/// Zone descriptors from a block on, only of zones in the given state.
pub(crate) fn report(io: &mut Host<TcpStream>, first: u64, filter: u32) -> Vec<u8> {
    let sqe = Sqe::new(0x7a).nsid(1).put(40, &first.to_le_bytes());
    let sqe = sqe.dword(12, 1023).dword(13, filter << 8);
    let reply = io.call(sqe, &[], 4096);
    assert_eq!(reply.status, 0);
    reply.data
}

//= zns 3.4.2
#[test]
fn zone_report_starts_at_a_block_and_filters_by_state() {
    let power = Power::new(&config("zns"));
    let (mut admin, mut io) = power.host();
    let set = admin
        .call(Sqe::identify(5, 1).dword(11, 2 << 24), &[], 4096)
        .data;
    let size = word(&set, 2816 + 16);
    let all = word(&report(&mut io, 0, 0), 0);
    for zone in [1, 3] {
        let sqe = Sqe::new(0x79).nsid(1).put(40, &(zone * size).to_le_bytes());
        assert_eq!(io.call(sqe.dword(13, 3), &[], 0).status, 0);
    }
    let open = report(&mut io, 0, 3);
    assert_eq!(
        (word(&open, 0), word(&open, 64 + 16), word(&open, 128 + 16)),
        (2, size, 3 * size)
    );
    let behind = report(&mut io, 2 * size + 5, 0);
    assert_eq!(
        (word(&behind, 0), word(&behind, 64 + 16)),
        (all - 2, 2 * size)
    );
    // Room for one descriptor: the count covers all zones, or with "partial" those returned.
    for (partial, count) in [(0, all), (1 << 16, 1)] {
        let sqe = Sqe::new(0x7a).nsid(1).dword(12, 31).dword(13, partial);
        assert_eq!(word(&io.call(sqe, &[], 128).data, 0), count);
    }
    let beyond = Sqe::new(0x7a).nsid(1).put(40, &(all * size).to_le_bytes());
    assert_eq!(io.call(beyond.dword(12, 31), &[], 128).status, 0x80);
    assert_eq!(
        io.call(Sqe::new(0x79).nsid(1).dword(10, 1).dword(13, 3), &[], 0)
            .status,
        0x02
    );
}

#[test]
fn conventional_zones_have_a_separate_namespace() {
    let zoned = config("zns").with_conventional(1).expect("it fits");
    let power = Power::new(&zoned);
    let (mut admin, mut io) = power.host();
    let blocks =
        |admin: &mut Host<_>, nsid| word(&admin.call(Sqe::identify(0, nsid), &[], 4096).data, 0);
    let size = zoned.zones.expect("zones").size.0 / BLOCK as u64;
    assert_eq!(blocks(&mut admin, 1), size);
    let sets = [1, 2].map(|nsid| {
        *admin.call(Sqe::identify(3, nsid), &[], 4096).data[..64]
            .windows(5)
            .find(|window| window[..4] == [4, 1, 0, 0])
            .expect("a command set")
            .last()
            .expect("five")
    });
    assert_eq!(sets, [0, 2]);
    // Namespace 1 (conventional) is written anywhere, namespace 2 from its first zone's start.
    for (nsid, first) in [(1, 5), (2, 0)] {
        let at = Sqe::new(1).blocks(first, 1).nsid(nsid);
        assert_eq!(io.call(at, &[nsid as u8; BLOCK], 0).status, 0);
        let read = Sqe::new(2).blocks(first, 1).nsid(nsid);
        assert_eq!(io.call(read, &[], BLOCK).data, [nsid as u8; BLOCK]);
    }
    // Write Uncorrectable works on conventional blocks, not in zones.
    for (nsid, said, found) in [(1, 0, [0, 0x281, 0]), (2, 0x01, [0; 3])] {
        let spoil = Sqe::new(4).blocks(6, 1).nsid(nsid);
        assert_eq!(io.call(spoil, &[], 0).status, said);
        let mut read = |at| {
            io.call(Sqe::new(2).blocks(at, 1).nsid(nsid), &[], BLOCK)
                .status
        };
        assert_eq!([5, 6, 7].map(&mut read), found);
    }
    let report = Sqe::new(0x7a).nsid(2).dword(12, 31);
    let told = io.call(report, &[], 128).data;
    assert_eq!((word(&told, 64 + 16), word(&told, 64 + 24)), (0, 1));
    assert_eq!(io.call(report.nsid(1), &[], 128).status, 0x01);
}

/// Remaining blocks of a handle's reclaim unit.
fn writable(io: &mut Host<TcpStream>, handle: usize) -> u64 {
    let status = Sqe::new(0x12).nsid(1).dword(10, 1).dword(11, 67);
    word(&io.call(status, &[], 272).data, 16 + handle * 32 + 8)
}

//= nvme-2.1 8.1.10
#[test]
fn placement_handles_are_reported_written_through_and_updated() {
    let power = Power::new(&config("fdp"));
    let (mut admin, mut io) = power.host();
    let group = |page, len| Sqe::log(page, len).dword(11, 1 << 16);
    let configs = admin.call(group(0x20, 128), &[], 128).data;
    assert_eq!(
        (configs[16 + 2] >> 7, configs[16 + 8]),
        (1, 8),
        "valid, eight handles"
    );
    let usage = admin.call(group(0x21, 72), &[], 72).data;
    assert_eq!((usage[0], usage[8], usage[64]), (8, 1, 1));
    assert_eq!(
        admin
            .call(Sqe::new(0xa).dword(10, 0x1d).dword(11, 1), &[], 0)
            .result,
        1
    );
    let units = io
        .call(Sqe::new(0x12).nsid(1).dword(10, 1).dword(11, 67), &[], 272)
        .data;
    assert_eq!((units[14], units[16 + 7 * 32]), (8, 7));
    let write = |first, placement: u32| {
        let sqe = Sqe::new(1).blocks(first, 16).dword(12, 2 << 20 | 15);
        sqe.dword(13, placement << 16)
    };
    let all = word(&units, 16 + 3 * 32 + 8);
    assert_eq!(all * BLOCK as u64, word(&configs, 32), "a whole unit");
    assert_eq!(io.call(write(0, 3), &[1; 16 * BLOCK], 0).status, 0);
    assert_eq!(
        (writable(&mut io, 3), writable(&mut io, 2)),
        (all - 16, all)
    );
    let update = Sqe::new(0x1d).nsid(1).dword(10, 1);
    assert_eq!(io.call(update, &3_u16.to_le_bytes(), 0).status, 0);
    assert_eq!(writable(&mut io, 3), all, "another unit");
    assert_eq!(io.call(update, &9_u16.to_le_bytes(), 0).status, 0x2a);
    assert_eq!(
        io.call(write(16, 77), &[2; 16 * BLOCK], 0).status,
        0,
        "it goes to the default"
    );
    let events = group(0x23, 256).dword(10, 63 << 16 | 1 << 8 | 0x23);
    let events = admin.call(events, &[], 256).data;
    assert_eq!(
        (events[0], events[64], events[128]),
        (2, 0, 3),
        "left early, no such handle"
    );
    assert_eq!((events[64 + 2], events[128 + 2]), (3, 77));
    let written = admin.call(group(0x22, 64), &[], 64).data;
    assert_eq!(word(&written, 0), 32 * BLOCK as u64);
}

//= nvme-2.1 8.1.8.3
#[test]
fn streams_open_on_write_and_close_on_release() {
    let power = Power::new(&config("streams"));
    let (mut admin, mut io) = power.host();
    let receive = |operation: u32, len: u32| {
        let sqe = Sqe::new(0x1a).nsid(1).dword(10, len / 4 - 1);
        sqe.dword(11, 1 << 8 | operation)
    };
    let limits = admin.call(receive(1, 32), &[], 32).data;
    assert_eq!(
        (limits[0], limits[2]),
        (7, 7),
        "besides the default one, all free"
    );
    for stream in [500, 7, 500] {
        let sqe = Sqe::new(1)
            .blocks(0, 1)
            .dword(12, 1 << 20)
            .dword(13, stream << 16);
        assert_eq!(io.call(sqe, &[1; BLOCK], 0).status, 0);
    }
    let open = admin.call(receive(2, 8), &[], 8).data;
    assert_eq!(open, [2, 0, 7, 0, 244, 1, 0, 0]);
    let release = Sqe::new(0x19).nsid(1).dword(11, 500 << 16 | 1 << 8 | 1);
    assert_eq!(admin.call(release, &[], 0).status, 0);
    assert_eq!(admin.call(receive(2, 4), &[], 4).data, [1, 0, 7, 0]);
    let smart = admin.call(Sqe::identify(1, 0), &[], 4096).data;
    assert_eq!(smart[256] >> 5 & 1, 1, "directives are announced");
}

//= bytefs 4.4
#[test]
fn stored_bytes_are_loaded_and_committed() {
    let mut emulator = config("bytefs-emulator");
    emulator.flash.keep_contents = true;
    let power = Power::new(&emulator);
    let (_admin, mut io) = power.host();
    let at = |opcode: u8, byte: u64, len: u32, tx: u32| {
        let sqe = Sqe::new(opcode).nsid(1).put(40, &byte.to_le_bytes());
        sqe.dword(12, len).dword(13, tx)
    };
    assert_eq!(io.call(at(0x81, 128, 64, 0), &[5; 64], 0).status, 0);
    assert_eq!(io.call(at(0x81, 192, 64, 9), &[6; 64], 0).status, 0);
    assert_eq!(io.call(at(0x84, 0, 0, 9), &[], 0).status, 0);
    assert_eq!(
        io.call(at(0x84, 0, 0, 9), &[], 0).status,
        0x02,
        "it has committed"
    );
    let found = io.call(at(0x82, 64, 256, 0), &[], 256).data;
    assert_eq!(found, [&[0; 64][..], &[5; 64], &[6; 64], &[0; 64]].concat());
    assert_eq!(
        io.call(at(0x81, 1, 64, 0), &[5; 64], 0).status,
        0x02,
        "not a line"
    );
    assert_eq!(io.call(at(0x88, 0, 0, 0), &[], 0).status, 0);
    assert_eq!(
        io.call(at(0x88, 0, 0, 0), &[], 0).status,
        0x02,
        "that was done"
    );
    let block = io.call(Sqe::new(2).blocks(0, 1), &[], BLOCK).data;
    assert_eq!(block[128..192], [5; 64]);
}
