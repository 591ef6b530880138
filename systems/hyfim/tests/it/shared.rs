//! Contents that become shared with a snapshot while they are being replaced.

use crate::support::tiny;
use cowfs::{CowFs, MkfsOptions, MountOptions};
use host::{
    BlockDevice, BlockPort, Computing, HostConfig, PageChange, Pm, PmConfig, PmMedia, RawDevice,
    SwapPort, Who,
};
use hostftl::FtlConfig;
use hyfim::{HyFim, HyfimConfig, Intra};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveMedia, IoError, Sink};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Extent, MIB, Ns, Placement};
use vfs::model::cache;
use vfs::{Access, Clock, Compute, Errno, Fd, OpenFlags, Process, Source, Timestamp, Vfs};

type Port = HyFim<RawDevice>;
pub(crate) type Fs = CowFs<Intra>;

const BLOCKS: u64 = 16_384;
/// Size of the file in bytes.
const LEN: u64 = 512 << 10;

/// HyFiM with an adjustable delay after staging.
#[derive(Clone)]
pub(crate) struct Slow {
    sim: Sim,
    port: Port,
    wait: Rc<Cell<Ns>>,
}

impl Slow {
    /// Sectors exchanged since the mount.
    pub(crate) fn exchanged(&self) -> u64 {
        self.port.stats().exchanged
    }
}

impl BlockPort for Slow {
    host::pass_block!([|own| &own.port] capacity, handles, read, write, trim, flush, compute);
}

impl SwapPort for Slow {
    host::pass_swaps!([|own| &own.port] has_swaps, most_changes, unstage, publish);

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        let staged = self.port.stage(first, all, who).await;
        if self.wait.get() > Ns::ZERO {
            self.sim.sleep(self.wait.get()).await;
        }
        staged
    }
}

/// HyFiM on a new drive, with a file system on it.
pub(crate) async fn made(sim: &Sim) -> Slow {
    let mut config = tiny();
    config.geometry.blocks_per_plane = 340;
    config.capacity = Bytes(BLOCKS * 4096);
    let hyfim = HyfimConfig {
        journal: Bytes(MIB),
        ..HyfimConfig::new(FtlConfig {
            // A small buffer, so that staging takes long.
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
    Slow {
        sim: sim.clone(),
        port,
        wait: Rc::default(),
    }
}

pub(crate) async fn mounted(sim: &Sim, port: &Slow) -> Vfs<Fs> {
    let options = MountOptions::default();
    let mounted = hyfim::mount_files(sim, port, options).await;
    let (body, _) = mounted.expect("it is sound");
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body, cache(false), clock, compute)
}

fn of(pattern: u64) -> Source<'static> {
    Source::Fill { pattern, len: LEN }
}

/// A mounted file system with a durable file of one pattern.
async fn begun(sim: &Sim) -> (Slow, Vfs<Fs>, Process<Fs>, Fd) {
    let port = made(sim).await;
    let vfs = mounted(sim, &port).await;
    let p = Process::new(&vfs, Access::root());
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = p.open(b"/file", flags, 0o644).await.unwrap();
    p.pwrite(fd, 0, of(1)).await.unwrap();
    p.sync().await.unwrap();
    (port, vfs, p, fd)
}

/// Pattern of a file; panics if it holds a mixture.
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

/// Takes snapshots at many moments of a forced overwrite.
//= hyfim 3.2
#[test]
fn snapshot_during_a_forced_overwrite_keeps_its_contents() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let (port, vfs, p, fd) = begun(&sim).await;
        let seen = Rc::new(RefCell::new(Vec::new()));
        for turn in 0..60_u64 {
            // A shared extent is copied by the first write, and replaced by the next.
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
            // A snapshot waits for a replacement in flight or excludes it.
            let is_new = held == Ok(10 * turn + 4);
            let expected = 10 * turn + if is_new { 4 } else { 3 };
            assert_eq!(
                (held, kept),
                (Ok(expected), Ok(expected)),
                "snapshot {turn}"
            );
            old += u32::from(!is_new);
            new += u32::from(is_new);
        }
        assert!(old > 3 && new > 3, "{old} {new}");
        p.exit().await;
        vfs.unmount().await.unwrap();
        vfs.check();
    });
}

/// Reads a snapshot while the contents of its file are staged and the checksums are still old: the
/// read waits, and returns the contents of the snapshot.
//= hyfim 3.2
#[test]
fn snapshot_read_during_staging_returns_old_contents() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let (port, vfs, p, fd) = begun(&sim).await;
        p.pwrite(fd, 0, of(2)).await.unwrap();
        port.wait.set(Ns::ms(50));
        let (clock, body, until) = (sim.clone(), vfs.clone(), sim.now() + Ns::ms(50));
        let reading = sim.spawn(async move {
            clock.sleep(Ns::ms(10)).await;
            let made = body.body().snapshot(b"s", false, Timestamp::default());
            made.await.expect("there is room");
            assert!(clock.now() < until, "what was staged has its sums");
            let p = Process::new(&body, Access::root());
            let held = pattern(&p, "/s/file").await;
            p.exit().await;
            held
        });
        let begun = sim.now();
        p.fsync(fd).await.unwrap();
        assert!(sim.now() >= begun + Ns::ms(50));
        assert_eq!(reading.await, Ok(1), "what the snapshot has");
        assert_eq!(pattern(&p, "/file").await, Ok(2));
        p.exit().await;
        vfs.unmount().await.unwrap();
        vfs.check();
    });
}
