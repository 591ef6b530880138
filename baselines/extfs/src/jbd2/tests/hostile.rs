//! Logs with damage, by chance or by design.

use super::*;
use sim::{Kernel, Rng, Seed};

fn open(disk: host::RamDisk, kernel: &Kernel, runs: Vec<Run>) -> Option<JournalError> {
    let sim = kernel.sim();
    kernel.block_on(async move {
        let _ = inspect(&disk, &runs).await;
        let opened = Jbd2::open(&sim, &disk, JournalConfig::new(runs)).await;
        opened.err()
    })
}

/// `log` with the feature bits for checksums cleared, so that recovery does not detect damage.
fn without_checksums(mut log: Vec<u8>) -> Vec<u8> {
    log[0x28..0x2c].copy_from_slice(&3_u32.to_be_bytes());
    log
}

fn damage(log: &mut [u8], rng: &mut Rng) {
    for _ in 0..=rng.below(6) {
        let block = rng.below(13) as usize * BLOCK;
        let inside = match rng.below(3) {
            0 => rng.below(BLOCK as u64),
            _ => rng.below(96),
        };
        let values = [0, 1, 5, 8, 0x7f, 0xff, rng.below(256) as u8];
        log[block + inside as usize] = values[rng.below(7) as usize];
    }
}

#[test]
fn recovery_of_a_damaged_log_does_not_panic_or_hang() {
    let logs: [&[u8]; 4] = [
        include_bytes!("logs/debugfs-plain.gz"),
        include_bytes!("logs/debugfs-v2.gz"),
        include_bytes!("logs/debugfs-v3narrow.gz"),
        include_bytes!("logs/linux-v3.gz"),
    ];
    let mut rng = Seed(7).stream("damage");
    for log in logs {
        let whole = inflate(log);
        for round in 0..1500 {
            let mut log = if round % 2 == 0 {
                whole.clone()
            } else {
                without_checksums(whole.clone())
            };
            damage(&mut log, &mut rng);
            let kernel = Kernel::new();
            let runs = vec![Run {
                start: 0,
                len: 1024,
            }];
            let disk = disk_with(&kernel.sim(), 4096, &runs, &log);
            open(disk, &kernel, runs);
        }
    }
}

/// A log full of descriptor blocks of one transaction has no end: the walk must bound
/// its number of blocks.
#[test]
fn walk_over_a_log_of_descriptors_ends() {
    let mut superblock = Superblock::new(256, [0; 16]);
    superblock.start = 5;
    let descriptor = superblock.form().descriptor(1, &[]);
    let mut log = superblock.encode().to_vec();
    for _ in 1..256 {
        log.extend_from_slice(&*descriptor);
    }
    let kernel = Kernel::new();
    let runs = vec![Run { start: 0, len: 256 }];
    let disk = disk_with(&kernel.sim(), 4096, &runs, &log);
    assert_eq!(open(disk, &kernel, runs), None);
}

fn refused(change: impl FnOnce(&mut Vec<u8>)) -> Option<JournalError> {
    let mut log = inflate(include_bytes!("logs/debugfs-plain.gz"));
    change(&mut log);
    let kernel = Kernel::new();
    let runs = vec![Run {
        start: 0,
        len: 1024,
    }];
    let disk = disk_with(&kernel.sim(), 4096, &runs, &log);
    open(disk, &kernel, runs)
}

#[test]
fn log_refused_has_an_error_with_its_reason() {
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|log| log[0] = 0), Some(JournalError::NotAJournal));
    assert_eq!(
        refused(|log| log[0x0e] = 4),
        Some(JournalError::BlockSize(1024))
    );
    assert_eq!(
        refused(|log| log[0x2b] = 0x41),
        Some(JournalError::Feature(0x40))
    );
    assert_eq!(
        refused(|log| log[0x2b] = 0x25),
        Some(JournalError::Foreign(0x24))
    );
    assert_eq!(
        refused(|log| log[0x2b] = 0x11),
        Some(JournalError::SuperblockSum)
    );
    assert_eq!(refused(|log| log[0x17] = 0), Some(JournalError::Shape));
    let short = JournalError::TooShort {
        has: 1024,
        needs: 1280,
    };
    assert_eq!(refused(|log| log[0x12] = 5), Some(short));
    // The home of the first copy is past the end of the medium, then inside the log.
    for high in [0xf0, 0] {
        let aimed = refused(|log| log[BLOCK + 14] = high);
        assert!(
            matches!(aimed, Some(JournalError::Target { .. })),
            "{aimed:?}"
        );
    }
}

#[test]
fn recovery_with_a_damaged_copy_fails_before_it_writes() {
    let mut log = inflate(include_bytes!("logs/debugfs-v3narrow.gz"));
    log[11 * BLOCK + 100] ^= 1;
    let kernel = Kernel::new();
    let runs = vec![Run {
        start: 0,
        len: 1024,
    }];
    let disk = disk_with(&kernel.sim(), 4096, &runs, &log);
    let error = open(disk.clone(), &kernel, runs);
    let wanted = JournalError::Copy {
        sequence: 3,
        block: 3003,
    };
    assert_eq!(error, Some(wanted));
    assert_eq!(disk.ledger().write_bytes(), 0);
}

#[test]
fn recovery_with_a_damaged_descriptor_ends_before_it() {
    let mut log = inflate(include_bytes!("logs/debugfs-v3narrow.gz"));
    log[8 * BLOCK + 50] ^= 1;
    let kernel = Kernel::new();
    let runs = vec![Run {
        start: 0,
        len: 1024,
    }];
    let disk = disk_with(&kernel.sim(), 4096, &runs, &log);
    let sim = kernel.sim();
    let config = JournalConfig::new(runs);
    let opened = kernel.block_on(async move { Jbd2::open(&sim, &disk, config).await });
    let report = opened.unwrap().1;
    assert_eq!((report.transactions, report.damaged), (2, true));
}
