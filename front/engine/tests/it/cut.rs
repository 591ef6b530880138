//! Power cuts of a drive in use, and injected faults.

use crate::keep::{config, made};
use engine::{Access, Device, DriveFile, Injected, Pace, Show};
use std::rc::Rc;
use units::KIB;

#[test]
fn power_cut_loses_only_writes_that_were_not_durable() {
    for protected in [false, true] {
        let mut config = config();
        config.controller.power_loss_protection = protected;
        let (_folder, path, _) = made(&config);
        let (engine, handle) = Device::start(&path, Pace::Free, Show::Drive).expect("powered");
        let wrote = handle.ask(|device: Rc<Device>| async move {
            device.write(0, &[1; 4096]).await.expect("written");
            device.flush().await.expect("durable");
            device.write(0, &[2; 4096]).await.expect("written");
            device.write(64 * KIB, &[3; 4096]).await.expect("written");
            device.cut();
            let late = device.write(128 * KIB, &[4; 4096]).await;
            (
                late.is_err(),
                device.flush().await.is_err(),
                device.read(0, 1).await.is_err(),
            )
        });
        assert_eq!(
            wrote,
            Ok((true, true, true)),
            "nothing is promised after it"
        );
        handle.stop();
        engine.join().expect("no panic").expect("nothing to save");
        let (engine, handle) = Device::start(&path, Pace::Free, Show::Drive).expect("powered");
        let found = handle.ask(|device: Rc<Device>| async move {
            let mut found = Vec::new();
            for at in [0, 64 * KIB, 128 * KIB] {
                found.push(device.read(at, 1).await.expect("it is readable")[0]);
            }
            (found, device.drive().smart().unsafe_shutdowns)
        });
        let (found, cuts) = found.expect("it runs");
        assert_eq!(cuts, 1);
        assert!(
            matches!(found[0], 1 | 2) && matches!(found[1], 0 | 3),
            "{found:?}"
        );
        if protected {
            assert_eq!(found, [2, 3, 0]);
        }
        handle.stop();
        engine.join().expect("no panic").expect("saved");
    }
}

#[test]
fn injected_faults_leave_contents_unchanged() {
    let (_folder, path, _) = made(&config());
    let (engine, handle) = Device::start(&path, Pace::Free, Show::Drive).expect("powered");
    let told = handle.ask(|device: Rc<Device>| async move {
        device.write(0, &[8; 8192]).await.expect("written");
        assert!(device.inject(Injected::Unreadable(4096..4097)));
        assert!(device.inject(Injected::Unwritable(0..1)));
        let read = |at| device.read(at, 512);
        assert!(read(0).await.is_ok() && read(4096).await.is_err());
        assert!(device.write(0, &[9; 512]).await.is_err());
        assert!(device.zero(0, 4096).await.is_err());
        assert!(device.discard(0, 4096).await.is_err());
        assert!(device.write_zeros(512, 512).await.is_ok());
        assert!(device.inject(Injected::ReadsFlip(2)));
        let two = [read(0).await.expect("read"), read(0).await.expect("read")];
        assert_eq!(
            [two[0][0], two[1][0]]
                .map(|byte| byte ^ 8)
                .iter()
                .sum::<u8>(),
            1
        );
        device.heal();
        assert_eq!(read(4096).await.expect("healed"), [8; 512]);
        let bytes = device.read(0, 1024).await.expect("read");
        (bytes[0], bytes[512])
    });
    assert_eq!(told, Ok((8, 0)));
    handle.stop();
    engine.join().expect("no panic").expect("saved");
    assert!(DriveFile::open(&path, Access::Look).is_ok());
}
