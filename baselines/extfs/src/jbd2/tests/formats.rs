//! Logs of Linux and e2fsprogs: decoded, recovered, and encoded to the same bytes.

use super::super::format::{self, Kind, Superblock};
use super::*;
use sim::Kernel;

/// A log of Linux 6.18 in ordered mode, copied without an unmount. Its transactions make
/// symbolic links with contents like blocks of a log, and make and remove directories.
const LINUX: &[u8] = include_bytes!("logs/linux-v3.gz");

/// Blocks of the journal of [`LINUX`], as e2fsprogs 1.47 allocated them.
const LINUX_RUNS: [Run; 3] = [
    Run { start: 15, len: 10 },
    Run { start: 26, len: 15 },
    Run {
        start: 1066,
        len: 999,
    },
];

/// Logs of debugfs, each with its bits of incompatible features: copies of 3000 to 3002, then
/// revokes of 3001 and 3005, then copies of 3002, 3010 and 3003; each first copy is escaped.
const DEBUGFS: [(&[u8], u32); 4] = [
    (include_bytes!("logs/debugfs-plain.gz"), 0x1),
    (include_bytes!("logs/debugfs-v2.gz"), 0xb),
    (include_bytes!("logs/debugfs-v2narrow.gz"), 0x9),
    (include_bytes!("logs/debugfs-v3narrow.gz"), 0x11),
];

fn inspected(disk: &host::RamDisk, kernel: &Kernel, runs: &[Run]) -> Inspection {
    let (disk, runs) = (disk.clone(), runs.to_vec());
    kernel.block_on(async move { inspect(&disk, &runs).await.unwrap() })
}

#[test]
fn log_of_linux_inspected_matches_the_listing_of_debugfs() {
    let kernel = Kernel::new();
    let disk = disk_with(&kernel.sim(), 16_384, &LINUX_RUNS, &inflate(LINUX));
    let log = inspected(&disk, &kernel, &LINUX_RUNS);
    assert_eq!(
        (log.len, log.start, log.sequence, log.damaged),
        (1024, 1, 2, false)
    );
    let sequences: Vec<_> = log.transactions.iter().map(|t| t.sequence).collect();
    assert_eq!(sequences, (2..=14).collect::<Vec<_>>());
    let commits: Vec<_> = log.transactions.iter().map(|t| t.commit).collect();
    assert_eq!(
        commits,
        [9, 17, 25, 33, 49, 65, 80, 92, 106, 109, 118, 126, 130]
    );
    let copies: usize = log.transactions.iter().map(|t| t.copies.len()).sum();
    assert_eq!(copies, 101);
    assert_eq!(log.transactions[7].revoked, [2071, 2074, 2072, 2070, 2073]);
    let escaped = log.transactions.iter().flat_map(|t| &t.copies);
    let escaped: Vec<_> = escaped
        .filter(|c| c.escaped)
        .map(|c| (c.home, c.index))
        .collect();
    assert_eq!(escaped, [(2066, 8), (2067, 15), (2068, 23), (2069, 31)]);
}

#[test]
fn blocks_of_a_log_of_linux_encode_to_the_same_bytes() {
    let log = inflate(LINUX);
    let superblock = Superblock::parse(log[..BLOCK].try_into().unwrap()).unwrap();
    let form = superblock.form();
    let mut kinds = [0; 3];
    for block in log.chunks_exact(BLOCK) {
        let block: &[u8; BLOCK] = block.try_into().unwrap();
        let Some((kind, sequence)) = format::header(block) else {
            continue;
        };
        kinds[kind as usize] += 1;
        let ours = match kind {
            Kind::Descriptor => form.descriptor(sequence, &form.tags(block)),
            Kind::Revoke => form.revoke(sequence, &form.revoked(block)),
            Kind::Commit => {
                let (seconds, nanos) = format::committed_at(block);
                form.commit(sequence, (seconds, nanos), 0)
            }
        };
        assert!(*ours == *block, "{kind:?} {sequence}");
    }
    assert_eq!(kinds, [13, 13, 3]);
}

#[test]
fn superblock_of_linux_encoded_differs_in_the_revoke_feature_only() {
    let log = inflate(LINUX);
    let theirs: [u8; BLOCK] = log[..BLOCK].try_into().unwrap();
    let mut ours = *Superblock::parse(&theirs).unwrap().encode();
    assert_eq!(ours[0x2b] ^ theirs[0x2b], 1);
    ours[0x2b] ^= 1;
    ours[0xfc..0x100].copy_from_slice(&theirs[0xfc..0x100]);
    assert!(ours == theirs);
}

#[test]
fn log_of_linux_is_recovered_with_its_revokes() {
    let kernel = Kernel::new();
    let disk = disk_with(&kernel.sim(), 16_384, &LINUX_RUNS, &inflate(LINUX));
    let (sim, port) = (kernel.sim(), disk.clone());
    let config = JournalConfig::new(LINUX_RUNS.to_vec());
    let opened = kernel.block_on(async move { Jbd2::open(&sim, &port, config).await });
    let report = opened.unwrap().1;
    assert_eq!((report.transactions, report.damaged), (13, false));
    assert!(report.revoked >= 10, "{report:?}");
    // Links 1 and 2 exist; links 3 and 4 were removed, and their blocks are revoked.
    for (block, there) in [(2066, true), (2067, true), (2068, false), (2069, false)] {
        let is_link = block_of(&disk, block).starts_with(&[0xc0, 0x3b, 0x39, 0x98]);
        assert_eq!(is_link, there, "{block}");
    }
    let log = inspected(&disk, &kernel, &LINUX_RUNS);
    assert_eq!(
        (log.start, log.sequence, log.transactions.len()),
        (0, 16, 0)
    );
}

#[test]
fn logs_of_all_forms_are_recovered() {
    for (log, incompat) in DEBUGFS {
        let kernel = Kernel::new();
        let runs = [Run {
            start: 0,
            len: 1024,
        }];
        let disk = disk_with(&kernel.sim(), 4096, &runs, &inflate(log));
        assert_eq!(inspected(&disk, &kernel, &runs).incompat, incompat);
        let (sim, port) = (kernel.sim(), disk.clone());
        let config = JournalConfig::new(runs.to_vec());
        let opened = kernel.block_on(async move { Jbd2::open(&sim, &port, config).await });
        let report = opened.unwrap().1;
        assert_eq!(
            (report.transactions, report.blocks, report.revoked),
            (3, 4, 1)
        );
        let starts: Vec<_> = [3000, 3001, 3002, 3010, 3003]
            .map(|block| block_of(&disk, block)[0])
            .to_vec();
        assert_eq!(starts, [0xc0, 0, 0xc0, 1, 2], "{incompat:#x}");
    }
}
