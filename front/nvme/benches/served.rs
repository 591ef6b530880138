//! Requests of 4 KiB per second over loopback, for a namespace in memory and for a simulated
//! drive with its latencies skipped.
//!
//! One thread per connection keeps a fixed number of commands in flight. Host and controller
//! share the processors, so the results cover both sides.

#[path = "../tests/it/plain.rs"]
mod plain;

use engine::{DriveFile, Engine, Handle, Pace, Service, Show};
use nvme::tcp::Target;
use nvme::tcp::pdu::{self, Format, Kind};
use nvme::{Allowed, Backend, DriveBackend, Identity, Namespace, Subsystem};
use plain::Plain;
use sim::Seed;
use ssd::{DriveMedia, Preset};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use units::{Bytes, MIB};

const NQN: &str = "nqn.2026-01.org.example:drive";

/// Duration of the measurement of each row.
const SPAN: Duration = Duration::from_secs(2);
/// Blocks that are read and written.
const BLOCKS: u64 = 4096;
const BLOCK: usize = 4096;

/// A command that says where its data are: behind it, or with the transport.
fn command(opcode: u8, cid: u16, len: usize, behind: bool) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[1]) = (opcode, 0x40);
    entry[2..4].copy_from_slice(&cid.to_le_bytes());
    entry[32..36].copy_from_slice(&(len as u32).to_le_bytes());
    entry[39] = if behind { 0x01 } else { 0x5a };
    entry
}

/// Appends a command capsule to the output.
fn put(bytes: &mut Vec<u8>, entry: [u8; 64], data: &[u8]) {
    let mut head = pdu::header(Kind::Command);
    head[8..].copy_from_slice(&entry);
    Format::default().append(bytes, head, data);
}

/// Carries out a command that only answers. Gives the first word of the answer.
fn call(socket: &mut TcpStream, entry: [u8; 64], data: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    put(&mut bytes, entry, data);
    socket.write_all(&bytes).expect("it is taken");
    let mut answer = [0; 24];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(
        u16::from_le_bytes([answer[22], answer[23]]) >> 1,
        0,
        "it works"
    );
    u16::from_le_bytes([answer[8], answer[9]])
}

/// A queue of a controller, or that for the admin commands of a new one. Gives the number
/// of the controller.
fn connect(address: SocketAddr, queue: u16, controller: u16) -> (TcpStream, u16) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_nodelay(true).expect("an option");
    socket
        .write_all(&pdu::header(Kind::OpenRequest))
        .expect("it is taken");
    socket.read_exact(&mut [0; 128]).expect("an answer");
    let mut entry = command(0x7f, 1, 1024, true);
    entry[4] = 1;
    entry[42..44].copy_from_slice(&queue.to_le_bytes());
    entry[44..46].copy_from_slice(&31_u16.to_le_bytes());
    let mut data = vec![0; 1024];
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + NQN.len()].copy_from_slice(NQN.as_bytes());
    data[512..512 + NQN.len()].copy_from_slice(NQN.as_bytes());
    let number = call(&mut socket, entry, &data);
    if queue == 0 {
        let mut enable = command(0x7f, 2, 0, false);
        enable[44] = 0x14;
        enable[48..52].copy_from_slice(&0x46_0061_u32.to_le_bytes());
        call(&mut socket, enable, &[]);
    }
    (socket, number)
}

/// A queue that always does the same.
struct Load {
    socket: TcpStream,
    writes: bool,
    next: u64,
}

impl Load {
    fn new(address: SocketAddr, controller: u16, queue: u16, writes: bool) -> Self {
        Self {
            socket: connect(address, queue, controller).0,
            writes,
            next: u64::from(queue) * 1237,
        }
    }

    /// Appends a command with that name.
    fn put(&mut self, bytes: &mut Vec<u8>, cid: u16) {
        self.next = self.next.wrapping_mul(25_214_903_917).wrapping_add(11);
        let opcode = if self.writes { 1 } else { 2 };
        let mut entry = command(opcode, cid, BLOCK, self.writes);
        entry[4] = 1;
        let block = (self.next >> 16) % BLOCKS;
        entry[40..48].copy_from_slice(&block.to_le_bytes());
        let data: &[u8] = if self.writes { &[7; BLOCK] } else { &[] };
        put(bytes, entry, data);
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
    let (_admin, controller) = connect(address, 0, u16::MAX);
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
    let target = Target::start(listener, handle).expect("files");
    for writes in [false, true] {
        for (connections, depth) in [(1, 1), (1, 31), (4, 31)] {
            row(name, target.address(), connections, depth, writes);
        }
    }
    target.stop();
    handle.stop();
}

fn identity() -> Identity {
    Identity {
        nqn: NQN.to_owned(),
        serial: "SERIAL".to_owned(),
        model: "A drive".to_owned(),
        allowed: Allowed::Anyone,
    }
}

fn main() {
    println!("drive    kind   connections  depth  requests/s");
    let build = |_: &_| {
        let memory = Namespace::new(Plain::new(BLOCKS * BLOCK as u64));
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
