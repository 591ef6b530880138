//! A drive of a terabyte in the memory of a laptop.

use sim::{Kernel, Seed};
use ssd::{Content, Drive, Precondition, Preset};
use std::process::Command;
use units::{Bytes, Extent, Origin, Placement};

pub(crate) const CAPACITY: u64 = 1_000_000_000_000 / 4096 * 4096;
const WRITES: u64 = 1_000_000;
const DEPTH: u64 = 256;

/// Peak resident memory of this process, in bytes.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a number of KiB")
        .parse::<u64>()
        .expect("a number")
        * 1024
}

/// Environment variable set in the child process that runs this test alone: peak memory is that of
/// the whole process.
const ALONE: &str = "FLASHLOOM_TEST_ALONE";

/// Runs `test`, which is the whole test of that name, in a process of its own.
pub(crate) fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let own = std::env::current_exe().expect("it runs");
    let mut alone = Command::new(own);
    alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let said = alone.output().expect("it starts");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.success() && text.contains("1 passed"),
        "{text}{error}"
    );
    eprint!("{error}");
}

#[test]
fn a_million_writes_to_an_aged_terabyte_fit_into_1_2_gb() {
    let name = "scale::a_million_writes_to_an_aged_terabyte_fit_into_1_2_gb";
    alone(name, write_a_million);
}

fn write_a_million() {
    let config = (Preset::named("block").expect("a preset").config)().resized(Bytes(CAPACITY));
    let kernel = Kernel::new();
    let media = Precondition::Aged
        .media(&config, Seed(1))
        .expect("a good drive");
    eprintln!("preconditioned: {} MB", peak() / 1_000_000);
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good drive");
    eprintln!("ready: {} MB", peak() / 1_000_000);
    let pages = u64::from(drive.layout().host_pages);
    for worker in 0..DEPTH {
        let drive = drive.clone();
        let mut rng = Seed(1).stream(&format!("worker {worker}"));
        kernel.sim().spawn_detached(async move {
            for _ in 0..WRITES.div_ceil(DEPTH) {
                let extent = Extent::new(rng.below(pages) * 8, 8);
                let (content, placement) = (Content::Nothing, Placement(0));
                let done = drive.write(extent, content, placement, Origin(0), false);
                done.await.expect("no fault is injected");
            }
        });
    }
    kernel.run();
    let ledger = drive.ledger();
    assert!(ledger.host_write_sectors / 8 >= WRITES);
    assert!(ledger.lines_collected > 0, "collection took part");
    eprintln!(
        "written: {} MB, memory {:?}, {} lines collected",
        peak() / 1_000_000,
        drive.memory(),
        ledger.lines_collected
    );
    assert!(peak() < 1_200_000_000, "{} bytes", peak());
}
