//! Tests that the latency on an idle machine is the sum of its parts.

use host::{BlockDevice, Completion, HostConfig, Parts, QueuePair, Who};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveConfig, Precondition, Preset};
use std::future::Future;
use units::{Extent, MIB, Ns, Placement};

/// A full drive, so that every read reaches the flash.
fn drive() -> DriveConfig {
    let preset = Preset::named("block").expect("a preset");
    (preset.config)().resized(units::Bytes(64 * MIB))
}

/// The latency of one command on an idle machine.
fn latency<F: Future<Output = ()> + 'static>(
    host: HostConfig,
    command: impl Fn(QueuePair) -> F + 'static,
) -> Ns {
    let kernel = Kernel::new();
    let media = Precondition::Full
        .media(&drive(), Seed(1))
        .expect("it can be built");
    let drive = Drive::ready(&kernel.sim(), &drive(), media, Seed(1)).expect("as above");
    let device = BlockDevice::new(&kernel.sim(), host, drive).expect("the default can be");
    let sim = kernel.sim();
    kernel.block_on(async move {
        let begin = sim.now();
        command(device.queue(0)).await;
        sim.now().since(begin)
    })
}

fn hosts() -> [HostConfig; 2] {
    let mut polled = HostConfig::default();
    polled.cpu.completion = Completion::Polling;
    [HostConfig::default(), polled]
}

/// The host's parts one by one, from the tables of the modules.
fn parts(host: &HostConfig, data_to_drive: Ns, data_to_host: Ns) -> Ns {
    let polled = host.cpu.completion == Completion::Polling;
    let (submit, notice, complete) = if polled {
        (200, 100, 188)
    } else {
        (1_380, 500, 1_990)
    };
    // Doorbell and fetch of 64 + 20 bytes; completion of 16 + 24 bytes.
    let (doorbell, round_trip) = (450, 900);
    let (entry, completion) = (11, 6);
    let before = Ns(submit + doorbell + round_trip + entry) + data_to_drive;
    before + data_to_host + Ns(completion + 450 + notice + complete)
}

const FIRMWARE: Ns = Ns(3_000);
const DRAM: Ns = Ns(500);

#[test]
fn a_read_is_the_sum_of_its_parts() {
    for host in hosts() {
        let read = |queue: QueuePair| async move {
            let extent = Extent::new(800, 8);
            queue
                .read(extent, &mut (), Who::default())
                .await
                .expect("it is written");
        };
        // tR, command cycles, 4 KiB at 1,200 MB/s.
        let flash = Ns::us(50) + Ns(200) + Ns(3_414);
        // 4096 + 16 × 24 bytes at 7,876,923,076 a second.
        let wire = Ns(569);
        assert_eq!(
            latency(host, read),
            parts(&host, Ns::ZERO, wire) + FIRMWARE + DRAM + flash
        );
    }
}

#[test]
fn a_write_is_the_sum_of_its_parts() {
    for host in hosts() {
        let write = |queue: QueuePair| async move {
            let (extent, who) = (Extent::new(800, 8), Who::default());
            let written = queue
                .write(extent, Content::Nothing, Placement(0), who, false)
                .await;
            written.expect("it fits");
        };
        // The drive fetches the data, 4096 + 16 × 20 bytes, and buffers them.
        let wire = Ns(900) + Ns(561);
        assert_eq!(
            latency(host, write),
            parts(&host, wire, Ns::ZERO) + FIRMWARE + DRAM
        );
    }
}

#[test]
fn a_trim_and_a_flush_are_the_sum_of_their_parts() {
    for host in hosts() {
        let flush = |queue: QueuePair| async move { queue.flush().await.expect("it can") };
        assert_eq!(
            latency(host, flush),
            parts(&host, Ns::ZERO, Ns::ZERO) + FIRMWARE
        );
        let trim = |queue: QueuePair| async move {
            queue.trim(Extent::new(0, 8)).await.expect("it fits");
        };
        // One range of 16 + 20 bytes.
        let range = Ns(900) + Ns(5);
        assert_eq!(
            latency(host, trim),
            parts(&host, range, Ns::ZERO) + FIRMWARE
        );
    }
}

#[test]
fn sum_of_the_listed_parts_is_the_latency() {
    let host = HostConfig::default();
    let listed: Parts = host.parts(4096, 0);
    assert_eq!(listed.sum(), parts(&host, Ns(1_461), Ns::ZERO));
}
