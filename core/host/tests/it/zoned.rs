//! Tests of the zoned port behind queues and link.

use host::{BlockDevice, BlockPort, HostConfig, Linear, Purpose, Who, ZonedDevice, ZonedPort};
use sim::{Kernel, Seed, Sim};
use ssd::{
    Content, Drive, DriveConfig, DriveMedia, IoError, Preset, ZoneAction, ZoneState, ZoneStatus,
};
use units::{Bytes, Extent, Lba, MIB, Placement};

fn config() -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    let mut config = (preset.config)().resized(Bytes(64 * MIB));
    config.flash.keep_contents = true;
    config
}

fn attached(sim: &Sim) -> ZonedDevice {
    let media = DriveMedia::new(&config(), Seed(1)).expect("it can be built");
    let drive = Drive::ready(sim, &config(), media, Seed(1)).expect("as above");
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("the default can be");
    ZonedDevice::new(&device).expect("a zoned drive")
}

#[test]
fn a_command_crosses_the_link_and_is_booked_if_it_succeeds() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = attached(&sim);
    kernel.block_on(async move {
        let who = Who::default();
        let limits = port.limits();
        let at = port.append(3, 16, Content::Fill(7), who, false).await;
        assert_eq!(at, Ok(Lba(3 * limits.size)));
        let again = Extent::new(3 * limits.size, 8);
        let refused = port.write(again, Content::Fill(8), who, true).await;
        assert_eq!(refused, Err(ZoneStatus::ZoneInvalidWrite));
        let next = Extent::new(3 * limits.size + 16, 8);
        port.write(next, Content::Fill(8), who, true)
            .await
            .expect("at the write pointer");
        port.copy(&[again, next], Lba(0))
            .await
            .expect("to an empty zone");
        let begin = sim.now();
        port.read(Extent::new(0, 16), &mut (), who)
            .await
            .expect("it is there");
        let (own, parts) = (sim.now().since(begin), HostConfig::default().parts(0, 8192));
        assert!(
            own > parts.sum(),
            "a read takes what the host takes, and the drive's part"
        );
        port.flush().await.expect("no fault is injected");
        let zones = port.report(0, 4).await.expect("there are four");
        assert_eq!(zones[3].written(), 24);
        assert_eq!(zones[0].state, ZoneState::ImplicitlyOpen);
        assert_eq!(port.in_use().implicitly_open, [0, 3]);
        port.manage(0, ZoneAction::Finish)
            .await
            .expect("it is open");
        assert_eq!(port.zone(0).map(|zone| zone.state), Some(ZoneState::Full));
        let ledger = port.device().ledger();
        let data = ledger.purpose(Purpose::Data);
        assert_eq!(
            (data.write.block, data.read.block),
            (24 * 512, 8192),
            "a copy stays inside"
        );
        assert_eq!(ledger.flushes, 1);
    });
}

#[test]
fn linear_zones_are_written_in_order_and_reset_by_a_rewrite() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = attached(&sim);
    kernel.block_on(async move {
        let linear = Linear::new(&sim, port.clone());
        let (limits, who) = (port.limits(), Who::default());
        let write = async |start, sectors: u64| {
            let extent = Extent::new(start, sectors as u32);
            let content = Content::Fill(start);
            linear
                .write(extent, content, Placement(0), who, false)
                .await
        };
        let all = limits.capacity * u64::from(limits.zones);
        assert_eq!(linear.capacity().0, all * 512);
        let half = limits.capacity / 2;
        // The write ends in the second zone.
        let whole = limits.capacity + half;
        write(0, whole).await.expect("in order");
        assert_eq!(port.zone(0).map(|zone| zone.state), Some(ZoneState::Full));
        assert_eq!(port.zone(1).map(|zone| zone.written()), Some(half));
        assert_eq!(
            write(whole + 8, 8).await,
            Err(IoError::Zone(ZoneStatus::ZoneInvalidWrite))
        );
        let extent = Extent::new(0, whole as u32);
        linear
            .read(extent, &mut (), who)
            .await
            .expect("it is there");
        write(0, 8).await.expect("the first zone anew");
        assert_eq!(port.zone(0).map(|zone| zone.written()), Some(8));
        let extent = Extent::new(8, (2 * limits.capacity) as u32);
        linear.trim(extent).await.expect("one is whole");
        assert_eq!(port.zone(0).map(|zone| zone.written()), Some(8));
        assert_eq!(port.zone(1).map(|zone| zone.state), Some(ZoneState::Empty));
        linear.flush().await.expect("no fault is injected");
    });
}

#[test]
fn request_over_two_zones_reads_back_whole_and_fills_the_first() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = attached(&sim);
    kernel.block_on(async move {
        let (limits, who) = (port.limits(), Who::default());
        // With this grain, at most three quarters of a zone's capacity are used.
        let grain = limits.capacity / 4 * 3;
        let linear = Linear::in_grains(&sim, port.clone(), Bytes(grain * 512));
        let room = linear.packing().room();
        assert_eq!(room, grain);
        let bytes: Vec<u8> = (0..32_u32 * 512).map(|at| (at / 512) as u8).collect();
        let before = Extent::new(0, (room - 16) as u32);
        let nothing = Content::Nothing;
        let place = Placement(0);
        let write = linear.write(before, nothing, place, who, false);
        write.await.expect("in order");
        let across = Extent::new(room - 16, 32);
        let write = linear.write(across, Content::Bytes(&bytes), place, who, false);
        write.await.expect("in order");
        let state = |zone| port.zone(zone).map(|zone| zone.state);
        assert_eq!(state(0), Some(ZoneState::Full), "it is not active any more");
        assert_eq!(state(1), Some(ZoneState::ImplicitlyOpen));
        let mut read = vec![0; bytes.len()];
        let mut sink = read.as_mut_slice();
        linear
            .read(across, &mut sink, who)
            .await
            .expect("it is there");
        assert_eq!(read, bytes);
    });
}
