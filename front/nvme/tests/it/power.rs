//! A drive that loses its power, or of which a part fails, while hosts use it.

use crate::drives::{Power, config, word};
use crate::host::{Host, Sqe};
use engine::Injected;
use nvme::{Backend, Manner, ROOM, Status};
use std::future::poll_fn;
use std::net::TcpStream;
use std::pin::pin;
use std::task::Poll;
use units::Ns;

const BLOCK: u64 = 4096;

/// A cut is no error that a host hears of: its connection breaks, with commands under way.
#[test]
fn power_cut_drops_connections_without_completions() {
    for protected in [false, true] {
        let mut config = config("block");
        config.controller.power_loss_protection = protected;
        let mut power = Power::new(&config);
        let (_admin, mut io) = power.host();
        let write = |at: u64| Sqe::new(1).blocks(at, 2);
        assert_eq!(io.call(write(0), &[1; 8192], 0).status, 0);
        let device = power.handle().part(nvme::Subsystem::device);
        let cut = device.ask(|device| async move { device.cut() });
        cut.expect("it runs");
        for at in 0..20 {
            io.post(write(at), &[2; 8192], 0);
        }
        assert_eq!(io.unit(), None, "protected: {protected}");
        power.cut();
        let (_admin, mut io) = power.host();
        let read = io.call(Sqe::new(2).blocks(0, 2), &[], 8192);
        assert_eq!(read.status, 0);
        assert!(!protected || read.data == [1; 8192]);
    }
}

#[test]
fn injected_faults_are_reported_to_hosts() {
    for preset in ["block", "zns"] {
        let power = Power::new(&config(preset));
        let (_admin, mut io) = power.host();
        let mut write = |at: u64| io.call(Sqe::new(1).blocks(at, 1), &[8; 4096], 0).status;
        assert_eq!([write(0), write(1)], [0, 0]);
        inject(&power, Injected::Unwritable(2 * BLOCK..3 * BLOCK));
        inject(&power, Injected::Unreadable(BLOCK..BLOCK + 1));
        assert_eq!(write(2), Status::WriteFault.code().1 | 0x200);
        let append = Sqe::new(0x7d).blocks(0, 1);
        if preset == "zns" {
            assert_eq!(io.call(append, &[9; 4096], 0).status, 0x280);
        }
        let mut read = |at: u64, n: u32| {
            let len = n as usize * 4096;
            io.call(Sqe::new(2).blocks(at, n), &[], len)
        };
        assert_eq!(read(0, 1).data, [8; 4096]);
        assert_eq!(read(0, 2).status, 0x281);
        inject(&power, Injected::ReadsFlip(1));
        assert_eq!(read(0, 1).data[..2], [9, 8]);
        let device = power.handle().part(nvme::Subsystem::device);
        let healed = device.ask(|device| async move { device.heal() });
        healed.expect("it runs");
        assert_eq!(read(0, 2).data, [8; 8192]);
        if preset == "zns" {
            assert_eq!(io.call(append, &[9; 4096], 0).status, 0);
        }
    }
}

fn inject(power: &Power, fault: Injected) {
    let device = power.handle().part(nvme::Subsystem::device);
    let injected = device.ask(|device| async move { device.inject(fault) });
    assert_eq!(injected, Ok(true));
}

/// A partial write of a sector by another front is a read-modify-write. It must merge into the
/// current contents, not into those before a concurrent write.
#[test]
fn partial_writes_of_two_fronts_keep_each_others_data() {
    let power = Power::new(&config("block"));
    let wrong = power.handle().ask(|subsystem| async move {
        let device = subsystem.device();
        let sim = device.sim().clone();
        let mut wrong = Vec::new();
        for round in 0..100_u8 {
            device.write(0, &[200; 4096]).await.expect("written");
            device.drive().flush().await.expect("on the flash");
            let (own, beside) = (std::rc::Rc::clone(&device), std::rc::Rc::clone(&subsystem));
            let parts = sim.spawn(async move { own.write(1, &[201; 3]).await });
            let clock = sim.clone();
            let whole = sim.spawn(async move {
                clock.sleep(Ns(u64::from(round) * 1_000)).await;
                let backend = beside.namespaces()[0].backend();
                backend.write(0, &[round; 4096], Manner::default()).await
            });
            parts.await.expect("written");
            whole.await.expect("written");
            let found = device.read(0, 8).await.expect("read");
            if found[0] != round || found[7] != round {
                wrong.push((round, found));
            }
        }
        wrong
    });
    assert_eq!(wrong, Ok(vec![]));
}

/// Memory that commands need besides their data has one limit for all of them.
#[test]
fn commands_that_hold_memory_wait_for_each_other() {
    let power = Power::new(&config("block"));
    let waited = power.handle().ask(|subsystem| async move {
        let backend = subsystem.namespaces()[0].backend();
        let all = backend.room(2 * ROOM).await;
        let mut more = pin!(backend.room(1));
        let waits = poll_fn(|context| Poll::Ready(more.as_mut().poll(context).is_pending())).await;
        drop(all);
        (waits, more.await.is_some())
    });
    assert_eq!(waited, Ok((true, true)));
}

/// Two namespaces of one drive have one history.
#[test]
fn namespaces_of_one_drive_share_its_counters() {
    let config = config("zns").with_conventional(1).expect("it fits");
    let power = Power::new(&config);
    let (mut admin, mut io) = power.host();
    for _ in 0..7 {
        assert_eq!(io.call(Sqe::new(1).blocks(0, 1), &[1; 4096], 0).status, 0);
    }
    let mut commands = |nsid: u32| {
        let log = admin.call(Sqe::log(2, 512).nsid(nsid), &[], 512);
        assert_eq!(log.status, 0);
        word(&log.data, 80)
    };
    assert_eq!([commands(u32::MAX), commands(1)], [7, 7]);
}

/// A verify of blocks without data reads nothing, but still fails for injected errors.
//= nvme-nvm 3.2.5
#[test]
fn deallocated_blocks_are_verified_without_reads() {
    let power = Power::new(&config("block"));
    let (mut admin, mut io) = power.host();
    let block = 700_u64;
    let write = Sqe::new(1).blocks(block, 1);
    assert_eq!(io.call(write, &[8; 4096], 0).status, 0);
    let mut verified = |io: &mut Host<TcpStream>| {
        let mut reads = || word(&admin.call(Sqe::log(2, 512), &[], 512).data, 64);
        let before = reads();
        let status = io.call(Sqe::new(0x0c).blocks(1, 4096), &[], 0).status;
        (status, reads() - before)
    };
    assert_eq!(verified(&mut io), (0, 1), "the MiB that holds something");
    inject(&power, Injected::Unreadable(9 << 20..(9 << 20) + 1));
    assert_eq!(verified(&mut io), (0x281, 1));
}
