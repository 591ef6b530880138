//! The journal, tested over disks in memory.

mod behaviour;
mod cut;
mod errors;
mod formats;
mod hostile;
mod judge;
mod probe;
mod stack;

use super::*;
use std::io::Read;
use units::Bytes;

/// Blocks that start where a log does in the tests that make their own.
const LOG: u64 = 1000;

/// Bytes of a compressed log.
fn inflate(log: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(log);
    decoder.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A disk of `blocks` blocks that holds `log` in `runs`.
fn disk_with(sim: &Sim, blocks: u64, runs: &[Run], log: &[u8]) -> host::RamDisk {
    let places = runs.iter().flat_map(|run| run.start..run.start + run.len);
    let copies = log.chunks_exact(BLOCK).map(|block| {
        let block: &[u8; BLOCK] = block.try_into().unwrap();
        log::payload(block)
    });
    let contents = places.zip(copies).collect();
    host::RamDisk::holding(sim, Bytes(blocks * BLOCK as u64), contents)
}

/// A disk with an empty journal of `blocks` blocks, and where that is.
fn new_disk(sim: &Sim, blocks: u32) -> (host::RamDisk, JournalConfig) {
    let runs = vec![
        Run {
            start: LOG,
            len: 16,
        },
        Run {
            start: LOG + 20,
            len: u64::from(blocks) - 16,
        },
    ];
    let superblock = format(blocks, *b"a journal's uuid");
    let disk = disk_with(sim, 4096, &runs, &*superblock);
    (disk, JournalConfig::new(runs))
}

/// Block `block` of a disk.
fn block_of(disk: &host::RamDisk, block: u64) -> [u8; BLOCK] {
    let image = disk.to_image();
    let at = block as usize * BLOCK;
    image[at..at + BLOCK].try_into().unwrap()
}

/// A page for `write_data`.
fn page(pattern: u64) -> vfs::DirtyPage {
    vfs::DirtyPage {
        index: 0,
        now: Payload::Fill(pattern),
        before: None,
    }
}
