//! Tests of two drives of different kinds under one host.

use host::{BlockDevice, HostConfig, Who, ZonedDevice, ZonedPort};
use nand::Payload;
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveMedia, Preset};
use units::{Bytes, Extent, MIB, Ns, Placement};

fn drive(kernel: &Kernel, name: &str) -> Drive {
    let preset = Preset::named(name).expect("a preset");
    let mut config = (preset.config)().resized(Bytes(64 * MIB));
    config.flash.keep_contents = true;
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("as above")
}

/// A conventional and a zoned drive on the same cores.
fn pair(kernel: &Kernel, host: HostConfig) -> (BlockDevice, BlockDevice) {
    let blocks = BlockDevice::new(&kernel.sim(), host, drive(kernel, "block"));
    let blocks = blocks.expect("the host can be");
    let zones = blocks.beside(drive(kernel, "zns"));
    (blocks, zones)
}

/// Data go from blocks to a zone and are read back, in one simulation.
#[test]
fn data_move_between_drives_of_two_kinds() {
    let kernel = Kernel::new();
    let (blocks, device) = pair(&kernel, HostConfig::default());
    let zones = ZonedDevice::new(&device).expect("it has zones");
    let (from, sectors) = (blocks.queue(0), 64 * 8);
    let extent = Extent::new(4096, sectors);
    kernel.block_on(async move {
        let who = Who::default();
        let bytes: Vec<u8> = (0..extent.bytes()).map(|at| (at % 251) as u8).collect();
        let content = Content::Bytes(&bytes);
        let written = from.write(extent, content, Placement(0), who, false);
        written.await.expect("it fits");
        let mut moved = vec![Payload::Zero; 64];
        let read = from.read(extent, &mut moved.as_mut_slice(), who).await;
        read.expect("it was written");
        let zone = zones.limits().conventional;
        let appended = zones.append(zone, sectors, Content::Sectors(&moved), who, false);
        let at = appended.await.expect("the zone is empty");
        let mut back = vec![0; bytes.len()];
        let mut sink = back.as_mut_slice();
        let read = zones.read(Extent::new(at.0, sectors), &mut sink, who);
        read.await.expect("it was appended");
        assert_eq!(back, bytes);
    });
    assert_eq!(blocks.ledger().write_bytes(), extent.bytes());
    assert_eq!(device.ledger().write_bytes(), extent.bytes());
    blocks.drive().check();
    device.drive().check();
}

/// Commands to both drives share the cores and nothing else.
#[test]
fn drives_share_cores_alone() {
    let mut host = HostConfig::default();
    host.cpu.cores = 1;
    let time = |both: bool| {
        let kernel = Kernel::new();
        let (blocks, zones) = pair(&kernel, host);
        let devices = [blocks.clone(), zones.clone()];
        for device in devices.iter().take(1 + usize::from(both)) {
            for worker in 0..32 {
                let queue = device.queue(worker);
                kernel.sim().spawn_detached(async move {
                    for _ in 0..50 {
                        let (extent, mut sink) = (Extent::new(0, 8), ());
                        let read = queue.read(extent, &mut sink, Who::default());
                        read.await.expect("it fits");
                    }
                });
            }
        }
        kernel.run();
        (kernel.sim().now(), blocks.busy(), zones.busy())
    };
    // 1,380 + 1,990 ns for each of 1,600 reads.
    let each = Ns(1_600 * 3_370);
    let (alone, blocks, _) = time(false);
    assert_eq!(blocks.cores, [each]);
    let (both, blocks, zones) = time(true);
    assert_eq!(blocks.cores, zones.cores, "they are the same cores");
    assert_eq!(blocks.cores, [Ns(2 * each.0)]);
    assert_eq!(blocks.to_host, zones.to_host, "each has its own link");
    assert!(both.0 > alone.0 * 19 / 10, "{alone} {both}");
}
