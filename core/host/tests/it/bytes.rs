//! A drive that is mapped into memory: what lines cost, and when stores last.

use host::{BlockDevice, BlockPort, BytePort, HostConfig, Purpose, Who};
use sim::{Kernel, Seed, Sim};
use ssd::front::FrontConfig;
use ssd::{ByteError, Content, Drive, DriveConfig, DriveMedia, Preset};
use std::collections::BTreeSet;
use std::future::Future;
use units::{Bytes, Extent, KIB, MIB, Ns, Placement};

const LINE: usize = 64;

fn config(log: bool) -> DriveConfig {
    let mut config = (Preset::named("byte").unwrap().config)().resized(Bytes(64 * MIB));
    config.flash.keep_contents = true;
    let mut front = match log {
        true => FrontConfig::write_log(),
        false => FrontConfig::page_cache(),
    };
    if log {
        front.log.bytes = Bytes(256 * KIB);
    }
    config.front = Some(front);
    config
}

/// Does `work` on a new drive; gives what it gave, and the device as it is then.
fn on_drive<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    host: HostConfig,
    work: impl FnOnce(Sim, BlockDevice) -> F,
) -> (T, BlockDevice, Kernel) {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    let device = BlockDevice::new(&kernel.sim(), host, drive).unwrap();
    let done = kernel.block_on(work(kernel.sim(), device.clone()));
    (done, device, kernel)
}

async fn store(device: &BlockDevice, at: u64, value: u8, tx: u32) -> Result<(), ByteError> {
    device.store(at, &[value; LINE], tx, Who::default()).await
}

/// What the first bytes of these lines may be after a cut now.
fn after_cuts(device: &BlockDevice, config: &DriveConfig, lines: [u64; 2]) -> BTreeSet<[u8; 2]> {
    let mut rng = Seed(3).stream("arriving");
    let cut = |_| {
        let (media, arrived) = (device.drive().at_power_cut(), device.arriving(&mut rng));
        let kernel = Kernel::new();
        let (sim, config) = (kernel.sim(), config.clone());
        kernel.block_on(async move {
            let drive = Drive::power_on(&sim, &config, media, Seed(1))
                .await
                .unwrap();
            let device = BlockDevice::after_cut(&sim, HostConfig::default(), drive, arrived);
            let device = device.unwrap();
            device.recover().await.unwrap();
            let mut first = [0; 2];
            for (at, first) in lines.into_iter().zip(&mut first) {
                let mut line = [0; LINE];
                device.load(at, &mut line, Who::default()).await.unwrap();
                *first = line[0];
            }
            first
        })
    };
    (0..32).map(cut).collect()
}

#[test]
fn lines_cost_what_the_tables_say() {
    for (load, store_cost) in [(4_800, 600), (175, 175)] {
        let mut host = HostConfig::default();
        (host.bytes.load, host.bytes.store) = (Ns(load), Ns(store_cost));
        let (spans, ..) = on_drive(&config(true), host, move |sim, device| async move {
            let mut spans = Vec::new();
            let mut begin = sim.now();
            let mut lap = || {
                spans.push(sim.now().since(begin).0);
                begin = sim.now();
            };
            device
                .store(0, &[1; 4 * LINE], 0, Who::default())
                .await
                .unwrap();
            lap();
            device.verify().await.unwrap();
            lap();
            device
                .load(0, &mut [0; 2 * LINE], Who::default())
                .await
                .unwrap();
            lap();
            spans
        });
        // A look-up of a page is 89 ns, a line of DRAM 100 ns.
        let arrival = 89 + 4 * 100;
        assert_eq!(spans, [4 * store_cost, arrival + load, 2 * load + 89 + 200]);
    }
}

#[test]
fn a_drive_without_a_volatile_cache_is_sent_no_flush() {
    for bytes in [true, false] {
        let mut config = config(false);
        if !bytes {
            config.front = None;
        }
        let work = |sim: Sim, device: BlockDevice| async move {
            let begin = sim.now();
            BlockPort::flush(&device).await.unwrap();
            sim.now().since(begin)
        };
        let (span, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        let flushes = (device.ledger().flushes, device.drive().ledger().flushes);
        assert_eq!(span == Ns::ZERO, bytes);
        assert_eq!(flushes, (u64::from(!bytes), u64::from(!bytes)));
    }
}

#[test]
fn a_store_lasts_once_it_is_verified_and_not_before() {
    for log in [true, false] {
        let config = config(log);
        let work = |_, device: BlockDevice| async move {
            store(&device, 0, 1, 0).await.unwrap();
            store(&device, 8_192, 1, 0).await.unwrap();
            device.verify().await.unwrap();
            store(&device, 0, 2, 0).await.unwrap();
            store(&device, 8_192, 2, 0).await.unwrap();
        };
        let (_, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        let seen = after_cuts(&device, &config, [0, 8_192]);
        assert_eq!(seen, [[1, 1], [1, 2], [2, 1], [2, 2]].into(), "log: {log}");
    }
}

#[test]
fn a_load_or_a_command_pushes_what_was_stored_before() {
    for load in [true, false] {
        let config = config(true);
        let work = move |_, device: BlockDevice| async move {
            store(&device, 0, 1, 0).await.unwrap();
            store(&device, 64, 1, 0).await.unwrap();
            let who = Who::default();
            if load {
                device.load(8_192, &mut [0; LINE], who).await.unwrap();
            } else {
                let extent = Extent::new(0, 8);
                let mut page = [0; 4_096];
                let mut sink = &mut page[..];
                device.read(extent, &mut sink, who).await.unwrap();
                assert_eq!((page[0], page[64], page[128]), (1, 1, 0));
            }
        };
        let (_, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        assert_eq!(after_cuts(&device, &config, [0, 64]), [[1, 1]].into());
    }
}

#[test]
fn a_transaction_lasts_when_it_has_committed_and_as_a_whole() {
    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        store(&device, 0, 7, 9).await.unwrap();
        store(&device, 64, 7, 9).await.unwrap();
    };
    let (_, device, kernel) = on_drive(&config, HostConfig::default(), work);
    assert_eq!(after_cuts(&device, &config, [0, 64]), [[0, 0]].into());
    let committed = device.clone();
    kernel.block_on(async move { committed.commit(9).await.unwrap() });
    assert_eq!(after_cuts(&device, &config, [0, 64]), [[7, 7]].into());
}

#[test]
fn blocks_count_for_the_lines_in_them_and_traffic_is_told_apart() {
    let config = config(true);
    let who = Who {
        purpose: Purpose::Inode,
        ..Who::default()
    };
    let work = move |_, device: BlockDevice| async move {
        store(&device, 0, 5, 0).await.unwrap();
        let fill = Content::Fill(u64::from_le_bytes([3; 8]));
        let block = device.write(Extent::new(0, 8), fill, Placement(0), who, false);
        block.await.unwrap();
        device.store(64, &[4; LINE], 0, who).await.unwrap();
        let mut lines = [0; 3 * LINE];
        device.load(0, &mut lines, who).await.unwrap();
        [lines[0], lines[64], lines[128]]
    };
    let (lines, device, _kernel) = on_drive(&config, HostConfig::default(), work);
    assert_eq!(lines, [3, 4, 3]);
    let traffic = device.ledger().purpose(Purpose::Inode);
    assert_eq!((traffic.write.byte, traffic.write.block), (64, 4_096));
    assert_eq!((traffic.read.byte, traffic.read.block), (192, 0));
}

#[test]
fn what_the_drive_cannot_take_is_refused_at_once() {
    let refused = |log: bool, at: u64, len: usize, tx: u32| {
        let work = move |_, device: BlockDevice| async move {
            let bytes = vec![0; len];
            device.store(at, &bytes, tx, Who::default()).await
        };
        let (result, ..) = on_drive(&config(log), HostConfig::default(), work);
        result.unwrap_err().to_string()
    };
    let unaligned = refused(true, 32, 64, 0);
    assert_eq!(unaligned, "64 bytes at 32 are not whole lines of 64 bytes");
    assert!(refused(true, 64 * MIB, 64, 0).contains("past the end"));
    assert!(refused(false, 0, 64, 1).contains("no transactions"));
}
