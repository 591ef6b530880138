//! Tests of the raw port behind queues and link.

use host::{BlockDevice, HostConfig, Purpose, RawDevice, RawMark, RawPort, Who};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::{Cause, ChunkState, Drive, DriveConfig, DriveMedia, Place, Ppa, Preset, ReadCause};
use units::{Bytes, MIB, Ns};

fn config() -> DriveConfig {
    let preset = Preset::named("ocssd").expect("a preset");
    let mut config = (preset.config)().resized(Bytes(64 * MIB));
    config.flash.keep_contents = true;
    config
}

fn attached(sim: &Sim) -> RawDevice {
    let media = DriveMedia::new(&config(), Seed(1)).expect("it can be built");
    let drive = Drive::ready(sim, &config(), media, Seed(1)).expect("as above");
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("the default can be");
    RawDevice::new(&device).expect("an open-channel drive")
}

#[test]
fn command_crosses_the_link_and_host_traffic_is_booked() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = attached(&sim);
    kernel.block_on(async move {
        let (geometry, who) = (port.geometry(), Who::default());
        let unit = geometry.write_min;
        let at: Vec<Ppa> = (0..unit)
            .map(|block| {
                geometry.ppa(Place {
                    block,
                    ..geometry.chunk_place(5)
                })
            })
            .collect();
        let mark = |cause| RawMark { cause, who };
        let mut marks = vec![mark(Cause::Host); unit as usize];
        marks[0] = mark(Cause::Gc);
        marks[1] = mark(Cause::Padding);
        let payload = vec![Payload::Fill(3); unit as usize];
        let meta = vec![[7; 16]; unit as usize];
        let begin = sim.now();
        port.write(&at, &payload, &meta, &marks)
            .await
            .expect("it is free");
        // The transfer has the list of addresses besides blocks and metadata.
        let bytes = u64::from(unit) * (4096 + 16 + 8);
        let parts = HostConfig::default().parts(bytes, 0);
        let timing = config().timing().expect("a part");
        let flash = timing.command
            + Ns::transfer(u64::from(unit) * 4096, timing.bus_bytes_per_s)
            + timing.program;
        let controller = config().controller;
        let own = controller.command + Ns(controller.dram_per_unit.0 * u64::from(unit));
        assert_eq!(sim.now().since(begin), parts.sum() + own + flash);
        let read = port
            .read(&at[..2], ReadCause::Host, who)
            .await
            .expect("it is written");
        assert!(
            read.iter()
                .all(|b| b.payload == Payload::Fill(3) && b.meta == [7; 16])
        );
        let _ = port
            .read(&at[2..3], ReadCause::Gc, who)
            .await
            .expect("as above");
        let told = port.report(5, 1).await.expect("there is one");
        assert_eq!(
            (told[0].state, told[0].write_pointer),
            (ChunkState::Closed, unit)
        );
        assert!(port.report(geometry.all_chunks(), 1).await.is_err());
        assert!(port.write(&at, &payload, &meta, &marks).await.is_err());
        let ledger = port.device().ledger();
        let data = ledger.purpose(Purpose::Data);
        let host = u64::from(unit - 2) * 4096;
        assert_eq!((data.write.block, data.read.block), (host, 2 * 4096));
    });
}

#[test]
fn drive_with_a_mapping_has_no_raw_port() {
    let kernel = Kernel::new();
    let config = (Preset::named("block").expect("a preset").config)().resized(Bytes(64 * MIB));
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("as above");
    let device = BlockDevice::new(&kernel.sim(), HostConfig::default(), drive);
    assert!(RawDevice::new(&device.expect("the default can be")).is_none());
}
