//! F2FS on zones that lose what was not flushed, each by itself, and that fail.

use crate::bench::eager;
use host::{RamZones, ZonesAtRest};
use lfs::{Image, LfsFs, MkfsOptions, MountOptions, Recovery, Zoned};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::ZoneLimits;
use units::Bytes;
use vfs::{Access, Clock, Compute, OpenFlags, Process, Source, Vfs};

type Fs = LfsFs<Zoned<RamZones>>;

/// Sectors of a zone, which is one segment.
const ZONE: u64 = 512 * 8;

/// Zones that are written in order: those of the logs, and room.
const SEQUENTIAL: u32 = 48;

fn limits() -> ZoneLimits {
    let bytes = Bytes(ZONE * units::SECTOR);
    let conventional = lfs::conventional_zones(bytes, bytes, SEQUENTIAL);
    ZoneLimits {
        zones: conventional + SEQUENTIAL,
        conventional,
        size: ZONE,
        capacity: ZONE,
        block: 8,
        ..ZoneLimits::NONE
    }
}

/// Zones at rest.
struct AtRest<'a>(&'a ZonesAtRest);

impl Image for AtRest<'_> {
    fn blocks(&self) -> u64 {
        lfs::packing(self.0.limits).sectors() / 8
    }

    fn read(&self, block: u64, out: &mut lfs::Block) -> bool {
        if block >= self.blocks() {
            return false;
        }
        let (_, sector) = lfs::packing(self.0.limits).place(block * 8);
        self.0.payload(sector).copy_to(0, out)
    }
}

/// Runs `work` on these zones, and gives them.
fn on<W: Future<Output = ()>>(
    at_rest: ZonesAtRest,
    work: impl FnOnce(Sim, RamZones) -> W + 'static,
) -> RamZones {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = RamZones::holding(&sim, at_rest);
    let kept = port.clone();
    kernel.block_on(async move { work(sim, port).await });
    kept
}

/// What is there if the power goes when nothing is under way, with all that was written.
fn rested(port: &RamZones) -> ZonesAtRest {
    port.after_cut(&mut Seed(0).stream("rest"), |_, _, behind| behind)
}

/// Zones with an empty file system.
fn made() -> ZonesAtRest {
    let port = on(ZonesAtRest::new(limits()), async |sim, port| {
        let made = lfs::format_zones(&sim, &port, &MkfsOptions::new(0)).await;
        made.expect("there is room");
    });
    rested(&port)
}

async fn mounted(sim: &Sim, port: &RamZones) -> (Vfs<Fs>, Recovery) {
    let mounted = lfs::mount_zones(sim, port, MountOptions::default()).await;
    let (body, recovery) = mounted.unwrap();
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    (Vfs::mount(sim, body, eager(), clock, compute), recovery)
}

/// Makes a file of a few pages; forces it if so.
async fn make(process: &Process<Fs>, path: &[u8], pattern: u64, force: bool) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(path, flags, 0o600).await.unwrap();
    let len = 30_000;
    let written = process.write(fd, Source::Fill { pattern, len }).await;
    assert_eq!(written, Ok(len));
    if force {
        process.fsync(fd).await.unwrap();
    }
    process.close(fd).await.unwrap();
}

async fn holds(process: &Process<Fs>, path: &[u8], pattern: u64) -> bool {
    let Ok(fd) = process.open(path, OpenFlags::READ, 0).await else {
        return false;
    };
    let bytes = process.read_bytes(fd, 0, 30_000).await.unwrap();
    process.close(fd).await.unwrap();
    let mut words = bytes.chunks(8);
    bytes.len() == 30_000 && words.all(|word| word == pattern.to_le_bytes())
}

fn root(vfs: &Vfs<Fs>) -> Process<Fs> {
    Process::new(vfs, Access::root())
}

/// The power is cut at each event of a checkpoint, so that nodes are in their zones to
/// which nothing leads. A mount has logs go on elsewhere then, and what is forced to them
/// has to be found after the next cut.
#[test]
fn what_is_forced_after_a_cut_is_found_after_the_next_one() {
    let base = rested(&on(made(), async |sim, port| {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        make(&process, b"/old", 1, false).await;
        process.sync().await.unwrap();
    }));
    let kernel = Kernel::new();
    let (sim, port) = (kernel.sim(), RamZones::holding(&kernel.sim(), base));
    let kept = port.clone();
    sim.clone().spawn_detached(async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        make(&process, b"/new", 2, false).await;
        process.sync().await.unwrap();
    });
    let (mut rng, mut moved) = (Seed(2).stream("cuts"), 0);
    while kernel.step() {
        let left = kept.after_any_cut(&mut rng);
        let before = left.conventional.clone();
        let forced = on(left, move |sim, port| async move {
            let (vfs, recovery) = mounted(&sim, &port).await;
            assert_eq!(recovery, Recovery::default(), "nothing was forced");
            let process = root(&vfs);
            make(&process, b"/forced", 3, true).await;
        });
        let left = forced.after_cut(&mut rng, |_, _, _| 0);
        moved += u64::from(changed(&before, &left.conventional));
        let again = on(left, |sim, port| async move {
            let (vfs, _) = mounted(&sim, &port).await;
            let process = root(&vfs);
            assert!(holds(&process, b"/old", 1).await);
            assert!(holds(&process, b"/forced", 3).await, "it was forced");
            process.exit().await;
            vfs.unmount().await.unwrap();
        });
        assert_eq!(lfs::check(&AtRest(&rested(&again))), []);
    }
    println!("{moved} mounts made a checkpoint");
    assert!(moved > 3);
}

type Contents = std::collections::BTreeMap<u64, Payload>;

/// Whether the places of checkpoints have other contents.
fn changed(before: &Contents, after: &Contents) -> bool {
    (512..3 * 512).any(|at| before.get(&at) != after.get(&at))
}
