//! The zoned port behind queues and link.

use host::{BlockDevice, HostConfig, Linear, Purpose, Who, ZonedDevice, ZonedPort};
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Preset, ZoneAction, ZoneState, ZoneStatus};
use units::{Bytes, Extent, Lba, MIB};

fn config() -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    (preset.config)().resized(Bytes(64 * MIB))
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
fn zones_without_gaps_are_written_in_order_and_over_again() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = attached(&sim);
    kernel.block_on(async move {
        let linear = Linear::new(&sim, port.clone());
        let (limits, who) = (port.limits(), Who::default());
        assert_eq!(linear.sectors(), limits.capacity * u64::from(limits.zones));
        let half = limits.capacity / 2;
        // Ends in the second zone.
        let whole = Extent::new(0, (limits.capacity + half) as u32);
        linear.write(whole, who, false).await.expect("in order");
        assert_eq!(port.zone(0).map(|zone| zone.state), Some(ZoneState::Full));
        assert_eq!(port.zone(1).map(|zone| zone.written()), Some(half));
        let gap = Extent::new(limits.capacity + half + 8, 8);
        assert_eq!(
            linear.write(gap, who, false).await,
            Err(ZoneStatus::ZoneInvalidWrite)
        );
        linear.read(whole, who).await.expect("it is there");
        linear
            .write(Extent::new(0, 8), who, true)
            .await
            .expect("the first zone anew");
        assert_eq!(port.zone(0).map(|zone| zone.written()), Some(8));
        linear
            .trim(Extent::new(8, (2 * limits.capacity) as u32))
            .await
            .expect("one is whole");
        assert_eq!(port.zone(0).map(|zone| zone.written()), Some(8));
        assert_eq!(port.zone(1).map(|zone| zone.state), Some(ZoneState::Empty));
        linear.flush().await.expect("no fault is injected");
    });
}
