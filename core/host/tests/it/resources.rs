//! Tests of the resources that commands wait for, and of the ledger.

use host::{BlockDevice, HostConfig, Purpose, Who};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveMedia, Preset};
use units::{Bytes, Extent, MIB, Ns, Origin, Placement};

fn device(kernel: &Kernel, host: HostConfig) -> BlockDevice {
    let preset = Preset::named("block").expect("a preset");
    let config = (preset.config)().resized(Bytes(64 * MIB));
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("as above");
    BlockDevice::new(&kernel.sim(), host, drive).expect("the host can be")
}

/// Reads addresses that were never written, so that only the host limits throughput.
fn reads(host: HostConfig, workers: usize, each: u64) -> (Ns, BlockDevice) {
    let kernel = Kernel::new();
    let device = device(&kernel, host);
    for worker in 0..workers {
        let queue = device.queue(worker);
        kernel.sim().spawn_detached(async move {
            for _ in 0..each {
                let read = queue.read(Extent::new(0, 8), &mut (), Who::default()).await;
                read.expect("it fits");
            }
        });
    }
    kernel.run();
    (kernel.sim().now(), device)
}

#[test]
fn a_saturated_core_is_the_limit() {
    let mut host = HostConfig::default();
    host.cpu.cores = 1;
    let (time, device) = reads(host, 64, 100);
    // 1,380 + 1,990 ns for each of 6,400 reads.
    let least = Ns(6_400 * 3_370);
    assert!(time >= least && time.0 < least.0 * 102 / 100, "{time}");
    assert_eq!(device.busy().cores, [least]);
}

#[test]
fn a_queue_of_one_lets_one_command_through_at_a_time() {
    let mut host = HostConfig::default();
    host.queues.pairs = 1;
    host.queues.depth = 1;
    let alone = reads(host, 1, 1).0;
    let (time, _) = reads(host, 8, 10);
    // A command starts while the core processes the completion of the previous one, and
    // both need that core.
    let turn = alone - host.parts(0, 0).complete;
    assert!(time >= Ns(80 * turn.0), "{time} {turn}");
}

#[test]
fn traffic_is_counted_by_purpose_and_origin_when_it_succeeds() {
    let kernel = Kernel::new();
    let device = device(&kernel, HostConfig::default());
    let queue = device.queue(3);
    kernel.sim().spawn_detached(async move {
        let who = Who {
            origin: Origin(7),
            purpose: Purpose::Journal,
        };
        let at = |start| Extent::new(start, 16);
        let write = |start| queue.write(at(start), Content::Nothing, Placement(0), who, true);
        write(0).await.expect("it fits");
        write(u64::from(u32::MAX))
            .await
            .expect_err("it lies past the end");
        queue
            .read(at(0), &mut (), Who::default())
            .await
            .expect("it fits");
        queue.trim(at(0)).await.expect("it fits");
        queue.flush().await.expect("it can");
    });
    kernel.run();
    let ledger = device.ledger();
    assert_eq!((ledger.read_bytes(), ledger.write_bytes()), (8_192, 8_192));
    assert_eq!((ledger.trimmed, ledger.flushes), (8_192, 1));
    assert_eq!(ledger.purpose(Purpose::Journal).write.block, 8_192);
    assert_eq!(ledger.purpose(Purpose::Data).read.block, 8_192);
    assert_eq!(ledger.origins()[7].write.block, 8_192);
    assert_eq!(ledger.origins()[0].read.block, 8_192);
}

#[test]
fn impossible_hosts_name_the_knob() {
    let says = |change: fn(&mut HostConfig)| {
        let mut host = HostConfig::default();
        change(&mut host);
        host.checked().unwrap_err().to_string()
    };
    assert_eq!(
        says(|h| h.cpu.cores = 0),
        "host.cpu.cores: 0 given, 1 to 65535 expected"
    );
    assert!(says(|h| h.link.generation = 6).contains("3, 4 or 5"));
    assert!(says(|h| h.link.lanes = 3).contains("host.link.lanes"));
    assert!(says(|h| h.link.max_payload = 100).contains("power of two"));
    assert!(says(|h| h.queues.depth = 0).contains("host.queues.depth"));
}
