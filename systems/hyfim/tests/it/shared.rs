//! Contents that somebody comes to share while they are being replaced.

use crate::support::tiny;
use cowfs::{CowFs, MkfsOptions, MountOptions, mount_with};
use host::{BlockDevice, HostConfig, Pm, PmConfig, PmMedia, RawDevice};
use hostftl::FtlConfig;
use hyfim::{HyFim, HyfimConfig, Intra};
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveMedia};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, MIB, Ns};
use vfs::model::cache;
use vfs::{Access, Clock, Compute, Errno, OpenFlags, Process, Source, Timestamp, Vfs};

type Port = HyFim<RawDevice>;
type Fs = CowFs<Intra<Port>>;

const BLOCKS: u64 = 16_384;
/// Bytes of the file.
const LEN: u64 = 512 << 10;

/// HyFiM on a new drive, with a file system on it.
async fn made(sim: &Sim) -> Port {
    let mut config = tiny();
    config.geometry.blocks_per_plane = 340;
    config.capacity = Bytes(BLOCKS * 4096);
    let hyfim = HyfimConfig {
        journal: Bytes(MIB),
        ..HyfimConfig::new(FtlConfig {
            // So that new contents are long on their way.
            buffer: Bytes(16 * 4096),
            ..FtlConfig::new(config.capacity)
        })
    };
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    let drive = Drive::ready(sim, &config, media, Seed(1)).expect("as above");
    let pm = Pm::new(sim, PmConfig::default(), PmMedia::new(hyfim.memory()), None);
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("it can be");
    let raw = RawDevice::new(&device).expect("it is raw");
    let port = HyFim::adopt(sim, raw, &pm, hyfim).await;
    let port = port.expect("there is room");
    let formatted = cowfs::format(&port, &MkfsOptions::new(BLOCKS)).await;
    formatted.expect("there is room");
    port
}

async fn mounted(sim: &Sim, port: &Port) -> Vfs<Fs> {
    let options = MountOptions::default();
    let mounted = mount_with(sim, Intra::new(port.clone()), options).await;
    let (body, _) = mounted.expect("it is sound");
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body, cache(false), clock, compute)
}

fn of(pattern: u64) -> Source<'static> {
    Source::Fill { pattern, len: LEN }
}

/// The pattern of all of a file.
async fn pattern(p: &Process<Fs>, path: &str) -> Result<u64, Errno> {
    let fd = p.open(path.as_bytes(), OpenFlags::READ, 0).await?;
    let bytes = p.read_bytes(fd, 0, LEN as usize).await;
    p.close(fd).await?;
    let bytes = bytes?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
    let first = word(&bytes[..8]);
    assert!(
        bytes.chunks_exact(8).all(|held| word(held) == first),
        "{path}"
    );
    Ok(first)
}

/// A snapshot is made while a forced overwrite is on its way, at every time of it.
//= hyfim 3.2
#[test]
fn a_snapshot_that_comes_between_keeps_what_it_has() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = made(&sim).await;
        let vfs = mounted(&sim, &port).await;
        let p = Process::new(&vfs, Access::root());
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = p.open(b"/file", flags, 0o644).await.unwrap();
        p.pwrite(fd, 0, of(1)).await.unwrap();
        p.sync().await.unwrap();
        let seen = Rc::new(RefCell::new(Vec::new()));
        for turn in 0..60_u64 {
            // What was shared is copied once, and then replaced again.
            for pattern in [10 * turn + 2, 10 * turn + 3] {
                p.pwrite(fd, 0, of(pattern)).await.unwrap();
                p.fsync(fd).await.unwrap();
            }
            p.pwrite(fd, 0, of(10 * turn + 4)).await.unwrap();
            let (clock, body, told) = (sim.clone(), vfs.clone(), Rc::clone(&seen));
            let making = sim.spawn(async move {
                clock.sleep(Ns::us(turn * 100)).await;
                let name = format!("s{turn}");
                let at = Timestamp::default();
                let made = body.body().snapshot(name.as_bytes(), false, at).await;
                made.expect("there is room");
                let p = Process::new(&body, Access::root());
                let held = pattern(&p, &format!("/{name}/file")).await;
                told.borrow_mut().push((turn, held));
                p.exit().await;
            });
            p.fsync(fd).await.unwrap();
            making.await;
        }
        p.exit().await;
        vfs.unmount().await.unwrap();
        let vfs = mounted(&sim, &port).await;
        let p = Process::new(&vfs, Access::root());
        let (mut old, mut new) = (0, 0);
        for (turn, held) in seen.take() {
            let kept = pattern(&p, &format!("/s{turn}/file")).await;
            // What could not be read then was on its way in, after the snapshot.
            let is_new = held == Ok(10 * turn + 4);
            let expected = 10 * turn + if is_new { 4 } else { 3 };
            assert_eq!(kept, Ok(expected), "snapshot {turn}, which had {held:?}");
            old += u32::from(!is_new);
            new += u32::from(is_new);
        }
        assert!(old > 3 && new > 3, "{old} {new}");
        p.exit().await;
        vfs.unmount().await.unwrap();
        vfs.check();
    });
}
