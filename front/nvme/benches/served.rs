//! Requests of 4 KiB a second over loopback, for a namespace in memory and for a simulated
//! drive whose times are skipped.
//!
//! One thread for each connection keeps so many commands under way. Whatever is measured
//! is both sides on the same processors.
#![allow(
    dead_code,
    reason = "the host of the tests can do more than this needs"
)]

#[path = "../tests/it/host.rs"]
mod host;
#[path = "../tests/it/memory.rs"]
mod memory;
#[path = "../tests/it/wire.rs"]
mod wire;

use engine::{DriveFile, Engine, Handle, Pace, Service, Show};
use host::{Host, Sqe, identity};
use memory::Memory;
use nvme::tcp::Target;
use nvme::tcp::pdu::{self, Kind};
use nvme::{Backend, DriveBackend, Namespace, Subsystem};
use sim::Seed;
use ssd::{DriveMedia, Preset};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use units::{Bytes, MIB};
use wire::dial;

/// How long each row takes.
const SPAN: Duration = Duration::from_secs(2);
/// Blocks that are read and written.
const BLOCKS: u64 = 4096;
const BLOCK: usize = 4096;

/// A queue that always does the same.
struct Load {
    socket: TcpStream,
    writes: bool,
    next: u64,
}

impl Load {
    fn new(address: SocketAddr, controller: u16, queue: u16, writes: bool) -> Self {
        let mut host = Host::new(dial(address));
        host.open(0, 0);
        assert_eq!(host.connect(queue, controller).status, 0);
        Self {
            socket: host.wire,
            writes,
            next: u64::from(queue) * 1237,
        }
    }

    /// Appends a command with that name.
    fn put(&mut self, bytes: &mut Vec<u8>, cid: u16) {
        self.next = self.next.wrapping_mul(25_214_903_917).wrapping_add(11);
        let opcode = if self.writes { 1 } else { 2 };
        let sqe = Sqe::new(opcode).blocks((self.next >> 16) % BLOCKS, 1);
        let kind = if self.writes { 0x01 } else { 0x5a };
        let sqe = sqe.put(2, &cid.to_le_bytes()).sgl(0, BLOCK as u32, kind);
        let mut head = pdu::header(Kind::Command);
        head[8..].copy_from_slice(&sqe.0);
        let data: &[u8] = if self.writes { &[7; BLOCK] } else { &[] };
        pdu::Format::default().append(bytes, head, data);
    }

    /// Keeps `depth` commands under way until `end`. How many were answered.
    fn run(&mut self, depth: u16, end: Instant) -> u64 {
        // Data come in one unit, and the answer in another.
        let answer = if self.writes { 24 } else { 24 + BLOCK + 24 };
        let (mut out, mut came, mut done) = (Vec::new(), Vec::new(), 0);
        let mut chunk = vec![0; 256 << 10];
        (0..depth).for_each(|cid| self.put(&mut out, cid));
        while Instant::now() < end {
            self.socket.write_all(&out).expect("it is taken");
            out.clear();
            let count = self.socket.read(&mut chunk).expect("an answer");
            assert!(count > 0, "it holds");
            came.extend_from_slice(&chunk[..count]);
            let whole = came.len() / answer;
            for one in came.chunks_exact(answer) {
                let tail = &one[answer - 4..];
                assert_eq!(u16::from_le_bytes([tail[2], tail[3]]) >> 1, 0, "it works");
                let cid = u16::from_le_bytes([tail[0], tail[1]]);
                self.put(&mut out, cid);
            }
            came.drain(..whole * answer);
            done += whole as u64;
        }
        done
    }
}

/// One row: so many connections, each with so many commands under way.
fn row(name: &str, address: SocketAddr, connections: u16, depth: u16, writes: bool) {
    let mut admin = Host::new(dial(address));
    let controller = admin.begin();
    let loads = 1..=connections;
    let loads: Vec<Load> = loads
        .map(|queue| Load::new(address, controller, queue, writes))
        .collect();
    let start = Instant::now();
    let threads = loads
        .into_iter()
        .map(|mut load| std::thread::spawn(move || load.run(depth, start + SPAN)));
    let threads: Vec<_> = threads.collect();
    let done: u64 = threads
        .into_iter()
        .map(|t| t.join().expect("it runs"))
        .sum();
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let kind = if writes { "write" } else { "read" };
    println!("{name:8} {kind:6} {connections:11} {depth:6} {rate:10.0}");
}

fn rows<B: Backend + Service>(name: &str, handle: &Handle<Subsystem<B>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::start(listener, handle.clone()).expect("a thread");
    for writes in [false, true] {
        for (connections, depth) in [(1, 1), (1, 31), (4, 31)] {
            row(name, target.address(), connections, depth, writes);
        }
    }
    target.stop();
    handle.stop();
}

fn main() {
    println!("drive    kind   connections  depth  requests/s");
    let build = |_: &_| {
        let memory = Namespace::new(Memory::new(BLOCKS * BLOCK as u64));
        Ok::<_, std::io::Error>(Subsystem::new(identity(), vec![memory]))
    };
    let (engine, handle) = Engine::start(Pace::Free, build, |_, _| ()).expect("a thread");
    rows("memory", &handle);
    engine.join().expect("it ends");

    let mut config = (Preset::named("block").expect("a preset").config)();
    config.flash.keep_contents = true;
    let config = config.resized(Bytes(64 * MIB));
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("d.flash");
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    DriveFile::create(&path, &config, &media).expect("written");
    let started = DriveBackend::start(&path, Pace::Free, Show::Drive, identity());
    let (engine, handle) = started.expect("a drive");
    rows("drive", &handle);
    engine.join().expect("it ends").expect("it is saved");
}
