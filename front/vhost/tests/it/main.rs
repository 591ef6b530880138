//! The server with a simulated drive, against a machine that the tests play.

mod machine;

use engine::{Device, DeviceEngine, DriveFile, Handle, Pace, Show};
use machine::{Machine, NUM, pair, words};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use sim::Seed;
use ssd::{DriveMedia, Preset};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use units::{Bytes, MIB};
use vhost::Server;
use vhost::wire::{NEED_REPLY, say, want};

/// A served drive of 16 MiB.
struct Place {
    folder: TempDir,
    device: Handle<Device>,
    engine: Option<DeviceEngine>,
    server: Option<Server>,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let preset = (Preset::named("block").expect("a preset").config)();
        let mut config = preset.resized(Bytes(16 * MIB));
        config.flash.keep_contents = true;
        // Without power loss protection, an acknowledged write may be lost until a flush.
        config.controller.power_loss_protection = false;
        let media = DriveMedia::new(&config, Seed(1)).expect("a drive");
        let file = folder.path().join("d.flash");
        DriveFile::create(&file, &config, &media).expect("made");
        let (engine, device) = Device::start(&file, Pace::Free, Show::Drive).expect("powered");
        let server = Server::start(&folder.path().join("v.sock"), &device).expect("it listens");
        Self {
            folder,
            device,
            engine: Some(engine),
            server: Some(server),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("v.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server.take().into_iter().for_each(Server::close);
        self.device.stop();
        let engine = self.engine.take().expect("it ran");
        engine.join().expect("no panic").expect("saved");
    }
}

#[test]
fn machine_reads_its_writes_and_the_configuration() {
    let place = Place::new();
    let mut machine = Machine::running(&place.path(), 1);
    let config = machine.config();
    assert_eq!(config[..8], (16 * MIB / 512).to_le_bytes());
    assert_eq!(config[34..36], 8_u16.to_le_bytes());
    let data: Vec<u8> = (0..20_000)
        .map(|at| (at % 251) as u8)
        .take(39 * 512)
        .collect();
    assert_eq!(machine.call(0, want::OUT, 7, &data, 0), (0, vec![]));
    assert_eq!(machine.call(0, want::FLUSH, 0, b"", 0).0, 0);
    assert_eq!(
        machine.call(0, want::IN, 7, b"", 39 * 512),
        (0, data.clone())
    );
    let (status, name) = machine.call(0, want::GET_ID, 0, b"", 20);
    assert_eq!((status, &name[..9]), (0, &b"flashloom"[..]));
    // A discard deallocates the whole pages of its range and leaves the rest.
    let range = |sector: u64, count: u32, flags: u32| {
        let mut range = words(&[sector]);
        range.extend(count.to_le_bytes());
        range.extend(flags.to_le_bytes());
        range
    };
    assert_eq!(machine.call(0, want::DISCARD, 0, &range(7, 12, 0), 0).0, 0);
    let mut expected = data;
    expected[512..512 + 4096].fill(0);
    assert_eq!(machine.call(0, want::IN, 7, b"", 39 * 512).1, expected);
    for (sector, flags) in [(20, 0), (30, 1)] {
        let zeros = range(sector, 3, flags);
        assert_eq!(machine.call(0, want::WRITE_ZEROES, 0, &zeros, 0).0, 0);
        let from = (sector as usize - 7) * 512;
        expected[from..from + 3 * 512].fill(0);
    }
    assert_eq!(machine.call(0, want::IN, 7, b"", 39 * 512).1, expected);
    let end = 16 * MIB / 512;
    assert_eq!(machine.call(0, want::IN, end, b"", 512).0, 1);
    assert_eq!(machine.call(0, want::OUT, u64::MAX, &[1; 512], 0).0, 1);
    assert_eq!(machine.call(0, want::DISCARD, 0, &range(0, 8, 1), 0).0, 2);
    assert_eq!(
        machine
            .call(0, want::DISCARD, 0, &range(0, u32::MAX, 0), 0)
            .0,
        1
    );
    assert_eq!(machine.call(0, 99, 0, b"", 0).0, 2);
}

#[test]
fn queues_stop_and_go_on_where_they_were() {
    let place = Place::new();
    let mut machine = Machine::running(&place.path(), 3);
    for round in 0..u16::from(NUM as u8) * 2 {
        for queue in 0..3 {
            let data = vec![round as u8 + queue as u8; 4096];
            let sector = u64::from(queue) * 8;
            assert_eq!(machine.call(queue, want::OUT, sector, &data, 0).0, 0);
        }
    }
    assert_eq!(machine.stop(1), NUM * 2);
    // The other queues still run, and the stopped queue resumes at its index.
    assert_eq!(machine.call(0, want::IN, 8, b"", 1).1, [NUM as u8 * 2]);
    machine.share();
    machine.start(1, NUM * 2);
    assert_eq!(machine.call(1, want::IN, 16, b"", 1).1, [NUM as u8 * 2 + 1]);
    assert_eq!(machine.stop(1), NUM * 2 + 1);
    assert_eq!(machine.stop(5), 0, "one that never ran");
}

#[test]
fn a_machine_that_talks_nonsense_is_hung_up_on_and_the_next_one_is_served() {
    let place = Place::new();
    for (kind, payload) in [
        (77, vec![]),
        (say::SET_VRING_NUM, pair(99, 1)),
        (say::SET_MEM_TABLE, words(&[u64::MAX; 5])),
        (say::SET_MEM_TABLE, words(&[1, u64::MAX, 2, 0, 0])),
        (say::SET_VRING_KICK, words(&[0])),
        (say::GET_CONFIG, vec![0xff; 12]),
        (say::GET_CONFIG, vec![]),
    ] {
        let machine = Machine::connect(&place.path());
        machine.tell(kind, &payload);
        let end = (&machine.socket).read(&mut [0; 600]);
        assert!(
            matches!(end, Ok(0) | Err(_)) || payload.is_empty(),
            "{kind}: {end:?}"
        );
    }
    let machine = Machine::connect(&place.path());
    machine.send(say::SET_FEATURES, NEED_REPLY, &[0; 4096], &[]);
    assert_eq!((&machine.socket).read(&mut [0]).unwrap_or(0), 0, "too long");
    // A second machine is dropped, and the first one is still served.
    let mut machine = Machine::running(&place.path(), 1);
    let other = Machine::connect(&place.path());
    assert_eq!((&other.socket).read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(machine.call(0, want::FLUSH, 0, b"", 0).0, 0);
}

/// The machine sees the connection close instead of waiting for an answer for ever.
#[test]
fn chains_that_make_no_sense_end_their_session_and_nothing_else() {
    let data = Machine::data(0);
    let chains: [&[(u64, u32, u16, u16)]; 8] = [
        &[(data, 16, 1, 0)],                          // a circle
        &[(data, 16, 1, 999)],                        // the next one is not there
        &[(data, 16, 0, 0)],                          // no place for a status
        &[(u64::MAX - 3, 16, 1, 1), (data, 1, 2, 0)], // no such memory
        &[(data, 8, 1, 1), (data, 1, 2, 0)],          // too short to be a request
        &[(data, u32::MAX, 1, 1), (data, 1, 2, 0)],   // too long
        &[(data, 1, 3, 1), (data, 16, 0, 0)],         // read behind what is written
        &[(data, 32, 4, 0)],                          // a table in which all are in circles
    ];
    let place = Place::new();
    for (number, chain) in chains.iter().enumerate() {
        let mut machine = Machine::running(&place.path(), 2);
        if number == 7 {
            machine.put(
                0,
                data - 0x4000_0000,
                &words(&[data, 16 | 5 << 32, data, 1 << 32]),
            );
        }
        for (slot, &part) in chain.iter().enumerate() {
            machine.descriptor(0, slot as u16, part);
        }
        assert_eq!(machine.call(1, want::FLUSH, 0, b"", 0).0, 0, "{number}");
        machine.offer(0, 0);
        assert!(machine.is_hung_up_on(), "{number}");
    }
}

/// A kick pipe whose other end is closed stays readable for ever.
#[test]
fn closed_kick_pipe_ends_its_session() {
    let place = Place::new();
    let mut machine = Machine::running(&place.path(), 1);
    assert_eq!(machine.call(0, want::FLUSH, 0, b"", 0).0, 0);
    assert_eq!(machine.stop(0), 1);
    let (kick, kicks) = std::io::pipe().expect("a pipe");
    machine.send(say::SET_VRING_KICK, 0, &words(&[0]), &[kick.as_fd()]);
    assert_eq!(machine.config().len(), 60, "it goes on");
    drop(kicks);
    assert!(machine.is_hung_up_on());
    let mut next = Machine::running(&place.path(), 1);
    assert_eq!(next.call(0, want::FLUSH, 0, b"", 0).0, 0);
}

/// Blocks the drive's thread until the returned sender is dropped.
fn hold(place: &Place) -> std::sync::mpsc::Sender<()> {
    let (held, released) = std::sync::mpsc::channel();
    let (tell, told) = std::sync::mpsc::channel();
    place.device.open(move |_| {
        tell.send(()).expect("heard");
        // The receive ends when the sender is dropped.
        let _ = released.recv();
    });
    told.recv().expect("it runs");
    held
}

#[test]
fn requests_beyond_the_memory_budget_stay_in_the_queue() {
    let (place, data) = (Place::new(), Machine::data(0));
    let mut machine = Machine::running(&place.path(), 2);
    // A write of 26 MiB, whose descriptors name the same 2 MiB of memory again and again.
    machine.put(0, data - 0x4000_0000, &words(&[want::OUT.into(), 0]));
    machine.descriptor(0, 0, (data, 16, 1, 1));
    for slot in 1..14 {
        machine.descriptor(0, slot, (0x4000_0000, 2 << 20, 1, slot + 1));
    }
    machine.descriptor(0, 14, (data + 64, 1, 2, 0));
    // An answered request proves that all messages so far are handled, so kicks come first below.
    assert_eq!(machine.call(1, want::FLUSH, 0, b"", 0).0, 0);
    let held = hold(&place);
    for _ in 0..8 {
        machine.offer(0, 0);
    }
    machine.tell(say::GET_VRING_BASE, &pair(0, 0));
    drop(held);
    let answer = machine.answer(say::GET_VRING_BASE);
    assert_eq!(answer[4..6], [2, 0], "64 MiB are the most");
    for _ in 0..2 {
        assert_eq!(machine.used(0).0, 0);
    }
    // The other requests are taken when there is room again.
    machine.start(0, 2);
    for _ in 2..8 {
        assert_eq!(machine.used(0).0, 0);
    }
    assert_eq!(machine.call(1, want::FLUSH, 0, b"", 0).0, 0);
}

#[test]
fn files_that_could_be_waited_for_are_refused() {
    let place = Place::new();
    let file = std::fs::File::open("/proc/self/status").expect("a file");
    for (kind, payload) in [
        (say::SET_MEM_TABLE, words(&[1, 0, 4096, 0, 0])),
        (say::SET_VRING_CALL, words(&[0])),
        (say::SET_VRING_KICK, words(&[0])),
    ] {
        let machine = Machine::connect(&place.path());
        machine.send(kind, 0, &payload, &[file.as_fd()]);
        let end = (&machine.socket).read(&mut [0]).unwrap_or(0);
        assert_eq!(end, 0, "{kind}");
    }
}

/// If the driver cannot flush, an acknowledged write survives the death of the process.
#[test]
fn a_machine_that_cannot_flush_need_not() {
    let place = Place::new();
    for flushes in [false, true] {
        let mut machine = Machine::running(&place.path(), 1);
        if flushes {
            machine.tell(say::SET_FEATURES, &words(&[1 << 32 | 1 << 30 | 1 << 9]));
            let base = machine.stop(0);
            machine.start(0, base);
        }
        let data = [7 + u8::from(flushes); 4096];
        let sector = 8 * u64::from(flushes);
        assert_eq!(machine.call(0, want::OUT, sector, &data, 0).0, 0);
        let left = place.folder.path().join("left.flash");
        std::fs::copy(place.folder.path().join("d.flash"), &left).expect("copied");
        let (engine, device) = Device::start(&left, Pace::Free, Show::Drive).expect("powered");
        let read = device.ask(move |device: std::rc::Rc<Device>| async move {
            device.read(sector * 512, 4096).await.expect("read")
        });
        let kept = read.expect("it runs") == data;
        assert_eq!(
            kept, !flushes,
            "who can flush and does not has it in the cache"
        );
        device.stop();
        engine.join().expect("no panic").expect("saved");
    }
}

/// A connection that arrives when the process has no free descriptors is accepted and closed.
/// Otherwise the listener would stay readable for ever, and the client would wait. The test runs
/// in a process of its own, which uses all its descriptors up.
#[test]
fn who_comes_when_there_are_no_more_files_is_hung_up_on() {
    const ALONE: &str = "FLASHLOOM_TEST_WITHOUT_FILES";
    if std::env::var_os(ALONE).is_none() {
        let own = std::env::current_exe().expect("it runs");
        let name = "who_comes_when_there_are_no_more_files_is_hung_up_on";
        let few = r#"ulimit -n 128 && exec "$0" --exact "$1""#;
        let mut alone = Command::new("sh");
        alone.arg("-c").arg(few).arg(own).arg(name).env(ALONE, "1");
        let ended = alone.status();
        assert!(ended.expect("it begins").success());
        return;
    }
    let place = Place::new();
    let served = Machine::running(&place.path(), 1);
    let kind = SocketType::STREAM;
    let late = socket(AddressFamily::UNIX, kind, None).expect("a socket");
    let all: Vec<_> = std::iter::from_fn(|| late.try_clone().ok()).collect();
    connect(&late, &SocketAddrUnix::new(place.path()).expect("a path")).expect("it listens");
    let mut late = UnixStream::from(late);
    late.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("patience");
    assert_eq!(late.read(&mut [0]).expect("the end"), 0);
    drop(all);
    assert_eq!(served.config().len(), 60);
}
