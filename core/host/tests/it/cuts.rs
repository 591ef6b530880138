//! Power cuts at every event while a store waits for space in a full log.
//!
//! Each line is stored once, so its allowed contents are known at any instant: the line is
//! present if it was verified, and absent if its store had not begun.

use host::{BlockDevice, BytePort, HostConfig, Who};
use sim::{Kernel, Seed};
use ssd::front::FrontConfig;
use ssd::{Drive, DriveConfig, DriveMedia, Preset};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, KIB, MIB};

const LINE: usize = 64;
const PAGE: usize = 4_096;
/// Number of lines that the test stores.
const STORED: usize = 1_500;

/// A drive with a log of 256 lines, which is cleaned when it is full or a store finds no
/// space.
fn config(commits: u64) -> DriveConfig {
    let mut config = (Preset::named("byte").unwrap().config)().resized(Bytes(16 * MIB));
    config.flash.keep_contents = true;
    let mut front = FrontConfig::default();
    front.log.bytes = Bytes(20 * KIB);
    front.log.commits = Bytes(commits);
    front.log.clean_percent = 100;
    front.log.pages_in_work = 4;
    config.front = Some(front);
    config
}

/// Progress of the stores in lines: begun, and verified.
#[derive(Clone, Default)]
struct Progress {
    begun: Rc<Cell<usize>>,
    verified: Rc<Cell<usize>>,
}

/// Byte address of line `number`; lines are scattered over 32 pages.
fn place(number: usize) -> usize {
    number % 32 * PAGE + number / 32 * LINE
}

/// Stores line after line, and verifies after every ten.
async fn store(device: BlockDevice, progress: Progress, lines: usize) {
    for number in 0..lines {
        progress.begun.set(number + 1);
        let stored = device.store(place(number) as u64, &[1; LINE], 0, Who::default());
        stored.await.unwrap();
        if number % 10 == 9 {
            device.verify().await.unwrap();
            progress.verified.set(number + 1);
        }
    }
}

/// Cuts the power of `device` and powers on the drive again.
fn power_on(device: &BlockDevice, config: &DriveConfig, seed: u64) -> (Kernel, BlockDevice) {
    let mut rng = Seed(seed).stream("arriving");
    let (media, arrived) = (device.drive().at_power_cut(), device.arriving(&mut rng));
    let kernel = Kernel::new();
    let (sim, config) = (kernel.sim(), config.clone());
    let device = kernel.block_on(async move {
        let drive = Drive::power_on(&sim, &config, media, Seed(1)).await;
        BlockDevice::after_cut(&sim, HostConfig::default(), drive.unwrap(), arrived)
    });
    (kernel, device.unwrap())
}

/// Whether each of the first `lines` lines is present.
fn found(device: &BlockDevice, lines: usize) -> Vec<bool> {
    let pages: Vec<_> = (0..32).map(|page| device.drive().peek(page)).collect();
    let line = |number: usize| {
        let page = pages[place(number) / PAGE].as_ref();
        page.is_some_and(|page| page[0].to_bytes()[place(number) % PAGE] == 1)
    };
    (0..lines).map(line).collect()
}

/// Cuts the power, and cuts it again after `steps` events of recovery. Asserts that the
/// contents are allowed and that neither the second cut nor recovery changes them.
fn cut(device: &BlockDevice, config: &DriveConfig, progress: &Progress, steps: u64) {
    let (kernel, back) = power_on(device, config, steps);
    let left = found(&back, STORED);
    let (begun, verified) = (progress.begun.get(), progress.verified.get());
    assert!(left[..verified].iter().all(|&there| there), "{steps}");
    assert!(!left[begun..].iter().any(|&there| there), "{steps}");
    let recovering = back.clone();
    kernel.sim().spawn_detached(async move {
        let _ = recovering.recover().await;
    });
    for _ in 0..steps {
        kernel.step();
    }
    let (kernel, again) = power_on(&back, config, steps);
    assert_eq!(found(&again, STORED), left, "cut again");
    let recovering = again.clone();
    kernel.block_on(async move { recovering.recover().await.unwrap() });
    assert_eq!(found(&again, STORED), left, "recovered");
}

#[test]
//= bytefs 4.3
fn store_waiting_for_a_full_log_is_present_or_absent_after_a_cut() {
    for commits in [0, KIB] {
        let config = config(commits);
        let kernel = Kernel::new();
        let media = DriveMedia::new(&config, Seed(1)).unwrap();
        let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
        let device = BlockDevice::new(&kernel.sim(), HostConfig::default(), drive).unwrap();
        let progress = Progress::default();
        let storing = store(device.clone(), progress.clone(), STORED);
        kernel.sim().spawn_detached(storing);
        let (mut met, mut events) = (0, 0);
        while kernel.step() {
            events += 1;
            if device.drive().log_state().unwrap().stores_wait {
                met += 1;
                cut(&device, &config, &progress, events % 70);
            }
        }
        assert_eq!(progress.begun.get(), STORED, "all are stored");
        assert!(met > 50, "{met} cuts while a store waited");
        assert!(device.drive().ledger().bytes.cleanings > 0);
    }
}
