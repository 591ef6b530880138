//! Logs of this crate, judged by e2fsprogs. Where its programs are not installed, the
//! test prints so and passes.

use super::*;
use sim::{Kernel, Seed};
use std::path::Path;
use std::process::Command;

/// Runs a program of e2fsprogs; returns its exit code and output, `None` if it is not installed.
pub(super) fn ask(program: &str, arguments: &[&str], image: &Path) -> Option<(i32, String)> {
    let here = [format!("/usr/sbin/{program}"), program.to_owned()];
    let outputs = here.iter().filter_map(|program| {
        let mut command = Command::new(program);
        command.args(arguments).arg(image).output().ok()
    });
    let output = outputs.into_iter().next()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.code()?, said))
}

/// Parses the blocks of the journal from extents like `(0-9):9-18, (10-24):20-34`.
fn runs_in(stat: &str) -> Vec<Run> {
    let extents = stat.lines().skip_while(|line| !line.starts_with("EXTENTS"));
    let parts = extents.skip(1).flat_map(|line| line.split(", "));
    parts
        .filter_map(|part| {
            let (start, end) = part.split_once(':')?.1.split_once('-')?;
            let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
            Some(Run {
                start,
                len: end + 1 - start,
            })
        })
        .collect()
}

/// Sets `needs_recovery` in the superblock of ext4.
fn ask_for_recovery(image: &mut [u8]) {
    let superblock = &mut image[1024..2048];
    superblock[0x60] |= 4;
    let sum = !crc32c::crc32c_append(0, &superblock[..0x3fc]);
    superblock[0x3fc..].copy_from_slice(&sum.to_le_bytes());
}

/// First of the 200 free blocks that transactions change.
const FIRST: u64 = 5000;

async fn work(journal: Jbd2, transactions: u64, seed: u64) {
    let mut rng = Seed(seed).stream("changes");
    for round in 1..=transactions {
        let count = 1 + rng.below(12);
        let tx = journal.begin(count as usize).await.unwrap();
        for _ in 0..count {
            let block = FIRST + rng.below(200);
            if rng.below(8) == 0 {
                journal.forget(&tx, block);
                continue;
            }
            let buffer = journal.create(&tx, block, Purpose::Directory);
            let magic = [0xc0, 0x3b, 0x39, 0x98];
            let head = if rng.below(3) == 0 { magic } else { [1; 4] };
            journal.write(&tx, &buffer, 0, &head);
            journal.write(&tx, &buffer, 4, &round.to_le_bytes());
        }
        journal.end(tx).await.unwrap();
        if rng.below(2) == 0 {
            journal.force_all().await.unwrap();
        }
    }
}

/// An image of ext4 with a log of this crate, and the runs of the log; `None` without e2fsprogs.
fn image_with_log(seed: u64, transactions: u64, path: &Path) -> Option<(Vec<u8>, Vec<Run>)> {
    std::fs::write(path, vec![0; 32 << 20]).unwrap();
    let options = ["-q", "-t", "ext4", "-b", "4096", "-J", "size=4"];
    let made = ask("mke2fs", &options, path)?;
    assert_eq!(made.0, 0);
    let runs = runs_in(&ask("debugfs", &["-R", "stat <8>"], path)?.1);
    let kernel = Kernel::new();
    let disk = host::RamDisk::from_image(&kernel.sim(), &std::fs::read(path).unwrap());
    let (sim, port, config) = (kernel.sim(), disk.clone(), JournalConfig::new(runs.clone()));
    kernel.block_on(async move {
        let (journal, report) = Jbd2::open(&sim, &port, config).await.unwrap();
        assert!(report.was_clean);
        work(journal, transactions, seed).await;
    });
    let left = disk.after_cut(&mut Seed(seed).stream("cut"));
    let cut = host::RamDisk::holding(&kernel.sim(), disk.size(), left);
    let mut image = cut.to_image();
    ask_for_recovery(&mut image);
    Some((image, runs))
}

fn recovered(image: &[u8], runs: &[Run]) -> (Vec<u8>, Inspection, Recovery) {
    let kernel = Kernel::new();
    let disk = host::RamDisk::from_image(&kernel.sim(), image);
    let (sim, port, runs) = (kernel.sim(), disk.clone(), runs.to_vec());
    let (log, report) = kernel.block_on(async move {
        let log = inspect(&port, &runs).await.unwrap();
        let opened = Jbd2::open(&sim, &port, JournalConfig::new(runs)).await;
        (log, opened.unwrap().1)
    });
    (disk.to_image(), log, report)
}

#[test]
fn logs_recovered_here_and_by_e2fsck_have_the_same_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for (seed, transactions) in [(1, 10), (2, 60), (3, 400), (4, 700)] {
        let Some((image, runs)) = image_with_log(seed, transactions, &path) else {
            eprintln!("e2fsprogs is not installed: nobody was asked");
            return;
        };
        std::fs::write(&path, &image).unwrap();
        let (ours, log, report) = recovered(&image, &runs);
        assert!(report.transactions > 2 && report.blocks > 10, "{report:?}");
        let dump = ask("debugfs", &["-R", "logdump -a"], &path).unwrap().1;
        let committed = dump.matches("type 2 (commit block)").count();
        assert_eq!(committed, log.transactions.len(), "{dump}");
        let (code, said) = ask("e2fsck", &["-fy"], &path).unwrap();
        assert!(code <= 1 && said.contains("recovering journal"), "{said}");
        let theirs = std::fs::read(&path).unwrap();
        let changed = FIRST as usize * BLOCK..(FIRST as usize + 200) * BLOCK;
        assert!(ours[changed.clone()] == theirs[changed], "seed {seed}");
        assert!(!said.to_lowercase().contains("corrupt"), "{said}");
    }
}
