//! Host cost of a 4 KiB request over a Unix socket, for simulated drives whose latencies are
//! skipped: requests per second, and CPU time of the drive's thread per request, which depends
//! less on other load of the machine.
//!
//! A drive is written once in order, then at random until its flash is used up and garbage
//! collection runs, so the steady state is measured.

use engine::{Device, DriveFile, Pace, Show};
use nbd::wire::{OPTION, REQUEST, option};
use nbd::{Address, Drive, Server};
use sim::Seed;
use ssd::{DriveMedia, Preset};
use std::fs::read_to_string;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use units::{Bytes, MIB};

const BLOCK: usize = 4096;
/// Requests that each client keeps in flight.
const DEPTH: u64 = 32;
/// Size of a drive in MiB, unless the environment variable `SIZE` sets another.
const SIZE: u64 = 256;
/// Duration of each row in ms, unless the environment variable `SPAN` sets another.
const SPAN: u64 = 2000;

fn knob(name: &str, otherwise: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(otherwise)
}

/// CPU time of the drive's thread so far, in ns.
fn spent() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux");
    let of = |task: std::fs::DirEntry| {
        let name = read_to_string(task.path().join("comm")).ok()?;
        let told = read_to_string(task.path().join("schedstat")).ok()?;
        let first = told.split(' ').next()?.parse::<u64>().ok()?;
        (name.trim() == "engine").then_some(first)
    };
    tasks.flatten().filter_map(of).sum()
}

/// A client that has finished the handshake, and the size of the drive in bytes.
fn connect(socket: &Path) -> (UnixStream, u64) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    let mut out = 3_u32.to_be_bytes().to_vec();
    out.extend(OPTION.to_be_bytes());
    out.extend(option::GO.to_be_bytes());
    // An empty export name and no information requests.
    out.extend(6_u32.to_be_bytes());
    out.extend([0; 6]);
    stream.write_all(&out).expect("taken");
    let mut size = 0;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).expect("a reply");
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data).expect("its data");
        match (word(12), &data[..]) {
            (1, _) => return (stream, size),
            (3, [0, 0, rest @ ..]) => {
                size = u64::from_be_bytes(*rest.first_chunk().expect("the size"));
            }
            _ => {}
        }
    }
}

/// A client that repeats one kind of request.
struct Load {
    stream: UnixStream,
    next: u64,
    blocks: u64,
    writes: bool,
}

impl Load {
    fn new(socket: &Path, number: u64, writes: bool) -> Self {
        let (stream, size) = connect(socket);
        Self {
            stream,
            next: number * 1237,
            blocks: size / BLOCK as u64,
            writes,
        }
    }

    /// Appends a request for the next block.
    fn put(&mut self, out: &mut Vec<u8>) {
        self.next = self
            .next
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(11);
        let block = (self.next >> 33) % self.blocks;
        self.put_at(out, block, BLOCK);
    }

    fn put_at(&self, out: &mut Vec<u8>, block: u64, len: usize) {
        let at = block * BLOCK as u64;
        out.extend(REQUEST.to_be_bytes());
        out.extend([0, 0, 0, u8::from(self.writes)]);
        out.extend(block.to_be_bytes());
        out.extend(at.to_be_bytes());
        out.extend((len as u32).to_be_bytes());
        if self.writes {
            let start = out.len();
            out.resize(start + len, self.next as u8);
            out[start..start + 8].copy_from_slice(&self.next.to_ne_bytes());
        }
    }

    /// Writes the whole drive in order.
    fn fill(&mut self) {
        let step = MIB as usize / BLOCK;
        let mut out = Vec::new();
        for block in (0..self.blocks).step_by(step) {
            out.clear();
            self.put_at(&mut out, block, MIB as usize);
            self.stream.write_all(&out).expect("taken");
            self.stream.read_exact(&mut [0; 16]).expect("answered");
        }
    }

    /// Keeps requests in flight until `end` or until `most` are sent; returns how many were
    /// answered.
    fn run(&mut self, end: Instant, most: u64) -> u64 {
        let answer = if self.writes { 16 } else { 16 + BLOCK };
        let (mut out, mut done) = (Vec::new(), 0);
        let mut input =
            BufReader::with_capacity(256 << 10, self.stream.try_clone().expect("a copy"));
        let mut one = vec![0; answer];
        (0..DEPTH).for_each(|_| self.put(&mut out));
        while done < most && Instant::now() < end {
            self.stream.write_all(&out).expect("taken");
            out.clear();
            loop {
                input.read_exact(&mut one).expect("an answer");
                assert_eq!(one[4..8], [0; 4], "it works");
                done += 1;
                self.put(&mut out);
                if input.buffer().len() < answer {
                    break;
                }
            }
        }
        done
    }
}

/// Measures and prints one row with `clients` concurrent clients.
fn row(name: &str, socket: &Path, clients: u64, writes: bool) {
    let loads: Vec<Load> = (0..clients)
        .map(|number| Load::new(socket, number, writes))
        .collect();
    let (start, before) = (Instant::now(), spent());
    let end = start + Duration::from_millis(knob("SPAN", SPAN));
    let threads = loads
        .into_iter()
        .map(|mut load| std::thread::spawn(move || load.run(end, u64::MAX)));
    let threads: Vec<_> = threads.collect();
    let done: u64 = threads
        .into_iter()
        .map(|thread| thread.join().expect("it runs"))
        .sum();
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let cost = (spent() - before) as f64 / done as f64 / 1e3;
    let kind = if writes { "write" } else { "read" };
    println!("{name:9} {kind:5} {clients:8} {rate:11.0} {cost:10.2}");
}

fn rows(name: &str, protected: bool, folder: &Path) {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.flash.keep_contents = true;
    config.controller.power_loss_protection = protected;
    let config = config.resized(Bytes(knob("SIZE", SIZE) * MIB));
    let (path, socket) = (folder.join(name), folder.join("socket"));
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    DriveFile::create(&path, &config, &media).expect("written");
    let started = Device::start(&path, Pace::Free, Show::Drive);
    let (engine, handle) = started.expect("a drive");
    let export = |desk: &engine::Desk<Device>| Drive::new(desk, "drive");
    let server = Server::start(&Address::Unix(socket.clone()), None, &handle, export);
    let server = server.expect("it listens");
    let mut load = Load::new(&socket, 0, true);
    load.fill();
    load.run(Instant::now() + Duration::from_secs(600), load.blocks / 2);
    drop(load);
    for writes in [false, true] {
        for clients in [1, 4] {
            row(name, &socket, clients, writes);
        }
    }
    server.close();
    handle.stop();
    engine.join().expect("it ends").expect("it is saved");
    std::fs::remove_file(path).expect("it was there");
}

fn main() {
    println!("drive     kind   clients  requests/s  us of each");
    let folder = tempfile::tempdir_in(std::env::var_os("FOLDER").unwrap_or(".".into()));
    let folder = folder.expect("a directory");
    rows("protected", true, folder.path());
    rows("plain", false, folder.path());
}
