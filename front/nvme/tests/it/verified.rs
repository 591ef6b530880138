//! A load that checks every read, over each transport; and a control that must fail: a drive
//! that flips a bit now and then.

use crate::guest::{DATA, Guest, prp};
use crate::host::{Host, Sqe};
use crate::memory::Memory;
use crate::slot;
use crate::sockets;
use crate::wire::dial;
use std::net::TcpStream;

/// Blocks of the drive.
const BLOCKS: u64 = 256;
/// Steps of a load.
const STEPS: u64 = 3000;

fn honest() -> Memory {
    Memory::new(BLOCKS * 4096)
}

/// Changes a bit in every 500th read.
fn lying() -> Memory {
    honest().lying(500)
}

/// A queue of a driver.
trait Queue {
    fn write(&mut self, first: u64, data: &[u8]);
    fn read(&mut self, first: u64, len: usize) -> Vec<u8>;
}

struct Tcp(Host<TcpStream>);

impl Queue for Tcp {
    fn write(&mut self, first: u64, data: &[u8]) {
        let sqe = Sqe::new(1).blocks(first, (data.len() / 4096) as u32);
        assert_eq!(self.0.call(sqe, data, 0).status, 0);
    }

    fn read(&mut self, first: u64, len: usize) -> Vec<u8> {
        let sqe = Sqe::new(2).blocks(first, (len / 4096) as u32);
        let reply = self.0.call(sqe, &[], len);
        assert_eq!(reply.status, 0);
        reply.data
    }
}

struct Pcie(Guest, u16);

impl Pcie {
    /// Executes a command with `len` bytes of data one page behind [`DATA`]; its PRP list is at
    /// [`DATA`].
    fn call(&mut self, sqe: Sqe, len: usize) {
        let first = DATA + 0x1000;
        let pages: Vec<u64> = (1..len as u64 / 4096)
            .map(|page| first + page * 4096)
            .collect();
        let second = match &pages[..] {
            [] => 0,
            [only] => *only,
            all => {
                let list: Vec<u8> = all.iter().flat_map(|at| at.to_le_bytes()).collect();
                self.0.store(DATA, &list);
                DATA
            }
        };
        assert_eq!(self.0.call(self.1, prp(sqe, first, second)).status, 0);
    }
}

impl Queue for Pcie {
    fn write(&mut self, first: u64, data: &[u8]) {
        self.0.store(DATA + 0x1000, data);
        self.call(
            Sqe::new(1).blocks(first, (data.len() / 4096) as u32),
            data.len(),
        );
    }

    fn read(&mut self, first: u64, len: usize) -> Vec<u8> {
        self.call(Sqe::new(2).blocks(first, (len / 4096) as u32), len);
        self.0.load(DATA + 0x1000, len)
    }
}

/// Runs the load; returns the number of reads with wrong data.
fn wrong_reads(queue: &mut impl Queue) -> u64 {
    let mut versions = [0_u64; BLOCKS as usize];
    let mut random = slot::numbers(7);
    let mut draw = |below: u64| random.next().expect("endless") % below;
    let content = |block: u64, version: u64| match version {
        0 => vec![0; 4096],
        _ => (block << 32 | version).to_le_bytes().repeat(512),
    };
    let mut wrong = 0;
    for step in 1..=STEPS {
        let count = draw(8) + 1;
        let first = draw(BLOCKS - count);
        let blocks = first..first + count;
        if draw(2) == 0 {
            let data: Vec<u8> = blocks
                .clone()
                .flat_map(|block| content(block, step))
                .collect();
            queue.write(first, &data);
            blocks.for_each(|block| versions[block as usize] = step);
        } else {
            let known = blocks.flat_map(|block| content(block, versions[block as usize]));
            let found = queue.read(first, count as usize * 4096);
            wrong += u64::from(!known.eq(found));
        }
    }
    wrong
}

fn over_tcp(drive: fn() -> Memory) -> u64 {
    let served = sockets::serve_drive(drive);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    wrong_reads(&mut Tcp(sockets::queue(served.address, controller, 1)))
}

fn in_a_slot(drive: fn() -> Memory) -> u64 {
    let slot = slot::serve_drive(drive);
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(16);
    wrong_reads(&mut Pcie(guest, queue))
}

#[test]
fn every_read_over_tcp_returns_the_written_data() {
    assert_eq!(over_tcp(honest), 0);
}

#[test]
fn every_read_over_vfio_user_returns_the_written_data() {
    assert_eq!(in_a_slot(honest), 0);
}

#[test]
fn bit_flips_in_reads_are_detected() {
    assert!(over_tcp(lying) > 0 && in_a_slot(lying) > 0);
}
