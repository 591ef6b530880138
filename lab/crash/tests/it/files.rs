//! Files on a disk in memory, of which a power cut keeps any subset of what was
//! not flushed or verified: a journal of blocks and transactions of lines survive,
//! their absence is found, and the chronicle agrees with the reference model.

use crash::{
    Chronicle, Cut, Exploration, Fault, Leads, Points, Recovering, Scribe, Settles, Shown, Subject,
    Verdict, Witness, e2fsck, explore,
};
use extfs::ext4::{self, Options};
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, pmfs};
use host::RamDisk;
use nand::Payload;
use novafs::{NovaFs, mkfs};
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns, Placement};
use vfs::model::{Model, Op, Order, Tree, check, perform};
use vfs::{
    Access, AnyBody, Body, CacheConfig, Clock, Compute, FallocateMode, FileKind, Ino, OpenFlags,
    Process, RenameFlags, Vfs, XattrFlags,
};

/// 16 MiB: the smallest disk with a journal.
const BLOCKS: u64 = 4_096;
const SIZE: Bytes = Bytes(BLOCKS * 4_096);

type Contents = BTreeMap<u64, Payload>;

/// File system and mode under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// ext4 with its journal.
    Journal,
    /// Lines in transactions of the drive, instead of a journal.
    Lines,
    /// ext4 without a journal.
    Nothing,
    /// NOVA, which stores lines.
    Nova,
    /// Lines in place over an undo journal, as contents are.
    Pmfs,
    /// Lines of metadata over an undo journal.
    Dual,
}

struct Files {
    how: How,
    settles: Settles,
    seed: u64,
    calls: usize,
    /// One in so many recovered images goes to `e2fsck`.
    outside: u64,
    formatted: Contents,
}

struct Live {
    disk: RamDisk,
    chronicle: Rc<RefCell<Chronicle>>,
    model: Rc<RefCell<Model>>,
    /// The call under way has begun, for the model, which knows no such thing.
    busy: Rc<Cell<bool>>,
    done: Rc<Cell<bool>>,
    sim: Sim,
}

/// Tree after recovery, as the judge and as the model read it.
type Outcome = Result<(Shown, Tree), String>;

struct Recovery {
    disk: RamDisk,
    shown: Rc<RefCell<Option<Outcome>>>,
}

fn holding(sim: &Sim, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, SIZE, contents)
}

fn formatted(how: How) -> Contents {
    let options = MkfsOptions {
        journal_blocks: (how == How::Journal).then_some(1_024),
        ..MkfsOptions::new(BLOCKS)
    };
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), Contents::new());
    let port = disk.clone();
    kernel.block_on(async move {
        match how {
            How::Lines => bytefs::format(&port, &bytefs::mkfs_options(BLOCKS))
                .await
                .unwrap(),
            How::Pmfs | How::Dual => pmfs::format(&port, &pmfs::mkfs_options(BLOCKS))
                .await
                .unwrap(),
            How::Nova => mkfs(&port, &novafs::MkfsOptions::default()).await.unwrap(),
            _ => ext4::format(&port, &options).await.unwrap(),
        }
    });
    disk.after_cut(&mut Seed(0).stream("none"))
}

/// A write-back so eager that a short run sees all of it.
fn cache() -> CacheConfig {
    CacheConfig {
        expire: Ns::us(300),
        writeback_interval: Ns::us(100),
        ..CacheConfig::default()
    }
}

fn vfs<B: Body>(sim: &Sim, body: B) -> Vfs<B> {
    Vfs::mount(sim, body, cache(), Clock::default(), Compute::unlimited())
}

/// Draws the next call: mostly changes, on few names, so that they collide.
fn draw(rng: &mut Rng, open: &[(u32, bool)]) -> Op {
    match rng.below(if open.is_empty() { 12 } else { 26 }) {
        0..12 => draw_on_names(rng),
        _ => {
            let fd = open[rng.below(open.len() as u64) as usize].0;
            draw_on_file(rng, fd)
        }
    }
}

fn draw_on_names(rng: &mut Rng) -> Op {
    let dir = [&b""[..], b"/d", b"/e"][rng.below(3) as usize];
    let path = |rng: &mut Rng| {
        let name = [&b"/a"[..], b"/b", b"/c"][rng.below(3) as usize];
        [dir, name].concat()
    };
    let name = b"user.x".to_vec();
    match rng.below(12) {
        0..3 => Op::Open {
            path: path(rng),
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        3 => Op::Mkdir { path: dir.to_vec() },
        4 => Op::Unlink { path: path(rng) },
        5 => Op::Rename {
            from: path(rng),
            to: path(rng),
            flags: RenameFlags {
                exchange: rng.below(4) == 0,
                ..RenameFlags::default()
            },
        },
        6 => Op::Link {
            path: path(rng),
            new: path(rng),
        },
        7 => Op::Rmdir { path: dir.to_vec() },
        8 => Op::Symlink {
            // One that fits into an inode, and one that does not.
            target: vec![b't'; [5, 100][rng.below(2) as usize]],
            path: path(rng),
        },
        9 => Op::SetXattr {
            path: path(rng),
            name,
            value: vec![7; [3, 400][rng.below(2) as usize]],
            flags: XattrFlags::Any,
        },
        10 => Op::RemoveXattr {
            path: path(rng),
            name,
        },
        _ => Op::Chmod {
            path: path(rng),
            mode: [0o600, 0o644][rng.below(2) as usize],
        },
    }
}

fn draw_on_file(rng: &mut Rng, fd: u32) -> Op {
    let offset = rng.below(5) * 4_096 + [0, 0, 8, 2_048][rng.below(4) as usize];
    let modes = [
        FallocateMode::Punch,
        FallocateMode::Zero { keep_size: true },
        FallocateMode::Zero { keep_size: false },
        FallocateMode::Allocate { keep_size: true },
        FallocateMode::Allocate { keep_size: false },
    ];
    match rng.below(14) {
        0..6 => Op::Write {
            fd,
            offset,
            byte: 2 * (1 + rng.below(100) as u8),
            len: [8, 4_096, 6_000, 20_000][rng.below(4) as usize],
        },
        6 => Op::Ftruncate { fd, size: offset },
        7..9 => Op::Fallocate {
            fd,
            mode: modes[rng.below(5) as usize],
            offset,
            len: 4_096,
        },
        9 => Op::Close { fd },
        10 | 11 => Op::Fsync {
            fd,
            data_only: true,
        },
        12 => Op::Fsync {
            fd,
            data_only: false,
        },
        _ => Op::Sync,
    }
}

async fn work<B: Body>(process: Process<B>, calls: usize, mut rng: Rng, live: Rc<Live>) {
    let mut open: Vec<(u32, bool)> = Vec::new();
    for _ in 0..calls {
        let op = draw(&mut rng, &open);
        live.busy.set(true);
        let done = perform(&process, &op).await.is_ok();
        let modelled = live.model.borrow_mut().perform(0, &op);
        assert_eq!(modelled.is_ok(), done, "{op:?}: {modelled:?}");
        live.busy.set(false);
        match (&op, modelled) {
            (Op::Open { .. }, Ok(vfs::model::Value::Fd(fd))) => open.push((fd, true)),
            (Op::Close { fd }, Ok(_)) => open.retain(|file| file.0 != *fd),
            _ => {}
        }
        process.vfs().sim().sleep(Ns::us(20)).await;
    }
    live.done.set(true);
}

impl Files {
    fn new(how: How, seed: u64, calls: usize, outside: u64) -> Self {
        Self {
            how,
            settles: match how {
                How::Journal | How::Nothing => Settles::Nothing,
                How::Lines | How::Dual => Settles::Names,
                How::Nova | How::Pmfs => Settles::All,
            },
            seed,
            calls,
            outside,
            formatted: formatted(how),
        }
    }

    fn options() -> MountOptions {
        MountOptions::default()
    }
}

/// The name that is there from the start.
fn adopt(live: &Live) {
    let (root, ino) = (Ino(2), Ino(11));
    let mut chronicle = live.chronicle.borrow_mut();
    chronicle.made(ino, FileKind::Directory, b"");
    let ticket = chronicle.begin_names(&[(root, b"lost+found", Leads::To(ino))]);
    chronicle.end_names(ticket, &[(root, b"lost+found", Some(ino))]);
    chronicle.settle();
    let mut model = live.model.borrow_mut();
    let path = b"/lost+found".to_vec();
    model.perform(0, &Op::Mkdir { path }).unwrap();
    model.perform(0, &Op::Sync).unwrap();
}

async fn start(
    body: AnyBody,
    sim: Sim,
    (calls, settles): (usize, Settles),
    rng: Rng,
    live: Rc<Live>,
) {
    let witness = Witness::new(body, Rc::clone(&live.chronicle), settles);
    let vfs = vfs(&sim, witness);
    vfs.observe(Rc::new(Scribe::new(Rc::clone(&live.chronicle))));
    let process = Process::new(&vfs, Access::default());
    work(process, calls, rng, live).await;
}

async fn show(body: AnyBody, sim: Sim) -> Outcome {
    let shown = Shown::read(&body).await.map_err(|e| e.to_string())?;
    let vfs = vfs(&sim, body);
    let process = Process::new(&vfs, Access::default());
    let tree = Tree::read(&process).await.map_err(|e| e.to_string())?;
    drop(process);
    vfs.unmount().await.map_err(|e| e.to_string())?;
    Ok((shown, tree))
}

impl Subject for Files {
    type Live = Rc<Live>;
    type Left = Contents;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Rc<Live> {
        let sim = kernel.sim();
        let live = Rc::new(Live {
            disk: holding(&sim, self.formatted.clone()),
            chronicle: Rc::default(),
            model: Rc::new(RefCell::new(Model::new(1, Order::Journal))),
            busy: Rc::default(),
            done: Rc::default(),
            sim: sim.clone(),
        });
        let (disk, rng) = (live.disk.clone(), Seed(self.seed).stream("calls"));
        if self.how != How::Nova {
            adopt(&live);
        }
        let (how, calls) = (self.how, (self.calls, self.settles));
        let task = Rc::clone(&live);
        kernel.sim().spawn_detached(async move {
            match how {
                How::Journal => {
                    let mounted = ext4::mount(&sim, &disk, Options::default()).await;
                    start(mounted.unwrap().0.into(), sim, calls, rng, task).await;
                }
                How::Lines => {
                    let options = strict();
                    let mounted = bytefs::mount(&sim, &disk, options).await;
                    start(bytefs::into_any(mounted.unwrap().0), sim, calls, rng, task).await;
                }
                How::Pmfs => {
                    let mounted = pmfs::mount(&sim, &disk, pmfs::Options::default()).await;
                    start(mounted.unwrap().0.into(), sim, calls, rng, task).await;
                }
                How::Dual => {
                    let options = strict();
                    let mounted = bytefs::dual::mount(&sim, &disk, options).await;
                    start(mounted.unwrap().0.into(), sim, calls, rng, task).await;
                }
                How::Nothing => {
                    let persist = NoJournal::new(&sim, &disk, 1_024, Placement(0));
                    let body = ExtFs::mount(&sim, persist, Self::options()).await.unwrap();
                    start(body.into(), sim, calls, rng, task).await;
                }
                How::Nova => {
                    let body = NovaFs::mount(&sim, &disk, novafs::MountOptions::default()).await;
                    start(body.unwrap().into(), sim, calls, rng, task).await;
                }
            }
        });
        live
    }

    fn is_done(&self, live: &Rc<Live>) -> bool {
        live.done.get()
    }

    fn cut(&self, live: &Rc<Live>) -> Contents {
        // What is kept depends on the event alone, so that one cut can be repeated.
        let name = format!("cut {}", live.sim.events());
        live.disk.after_cut(&mut Seed(self.seed).stream(&name))
    }

    fn power_on(&self, kernel: &Kernel, left: Contents) -> Recovery {
        let sim = kernel.sim();
        let recovery = Recovery {
            disk: holding(&sim, left),
            shown: Rc::default(),
        };
        let (disk, shown) = (recovery.disk.clone(), Rc::clone(&recovery.shown));
        let how = self.how;
        kernel.sim().spawn_detached(async move {
            let outcome = match how {
                How::Journal => match ext4::mount(&sim, &disk, Options::default()).await {
                    Ok((body, _)) => show(body.into(), sim).await,
                    Err(error) => Err(error.to_string()),
                },
                How::Lines => {
                    let options = strict();
                    match bytefs::mount(&sim, &disk, options).await {
                        Ok((body, _)) => show(bytefs::into_any(body), sim).await,
                        Err(error) => Err(error.to_string()),
                    }
                }
                How::Pmfs => match pmfs::mount(&sim, &disk, pmfs::Options::default()).await {
                    Ok((body, _)) => show(body.into(), sim).await,
                    Err(error) => Err(error.to_string()),
                },
                How::Dual => {
                    let options = strict();
                    match bytefs::dual::mount(&sim, &disk, options).await {
                        Ok((body, _)) => show(body.into(), sim).await,
                        Err(error) => Err(error.to_string()),
                    }
                }
                How::Nothing => {
                    let persist = NoJournal::new(&sim, &disk, 1_024, Placement(0));
                    match ExtFs::mount(&sim, persist, Self::options()).await {
                        Ok(body) => show(body.into(), sim).await,
                        Err(error) => Err(error.to_string()),
                    }
                }
                How::Nova => {
                    match NovaFs::mount(&sim, &disk, novafs::MountOptions::default()).await {
                        Ok(body) => show(body.into(), sim).await,
                        Err(error) => Err(error.to_string()),
                    }
                }
            };
            *shown.borrow_mut() = Some(outcome);
        });
        recovery
    }

    fn judge(&self, live: &Rc<Live>, recovered: &Recovery, cut: Cut) -> Verdict {
        let mut verdict = Verdict::default();
        match recovered.shown.borrow().as_ref().unwrap() {
            Err(error) => verdict.faults.push((Fault::Corrupt, error.clone())),
            Ok((shown, tree)) => {
                let found = live.chronicle.borrow().judge(shown);
                if !live.busy.get() {
                    let by_model = check(&live.model.borrow(), tree);
                    // The chronicle judges attributes and numbers of inodes besides.
                    assert!(
                        by_model.is_empty() || !found.is_empty(),
                        "at {cut} the chronicle says nothing, the model {by_model:?}"
                    );
                }
                verdict.faults = found;
            }
        }
        if self.how == How::Nova {
            let findings = novafs::check(&recovered.disk.to_image()[..]);
            let corrupt = |finding: novafs::Finding| (Fault::Corrupt, finding.to_string());
            verdict.faults.extend(findings.into_iter().map(corrupt));
        }
        if self.outside > 0 && cut.event.is_multiple_of(self.outside) {
            verdict.outside = true;
            let image = recovered.disk.to_image();
            let said = e2fsck(image.len() as u64, [(0, &image[..])].into_iter(), false);
            if let Some(said) = said.unwrap() {
                verdict.faults.push((Fault::Corrupt, said));
            }
        }
        verdict
    }
}

impl Recovering for Recovery {
    type Left = Contents;

    fn is_done(&self) -> bool {
        self.shown.borrow().is_some()
    }

    fn cut(&self) -> Contents {
        self.disk.after_cut(&mut Seed(7).stream("recovery"))
    }
}

fn found(how: How, seed: u64, points: &Points) -> Exploration {
    let subject = Files::new(how, seed, 300, 0);
    explore(&subject, points, Seed(seed), &mut |_| ())
}

#[test]
fn the_journal_keeps_what_was_promised() {
    for seed in 1..=4 {
        let found = found(How::Journal, seed, &Points::Some(400));
        assert!(found.holds(), "seed {seed}: {:#?}", found.failures.first());
    }
}

#[test]
fn transactions_of_lines_keep_what_was_promised() {
    for seed in 1..=4 {
        let found = found(How::Lines, seed, &Points::Some(400));
        assert!(found.holds(), "seed {seed}: {:#?}", found.failures.first());
    }
}

#[test]
fn undone_lines_keep_what_was_promised() {
    for how in [How::Pmfs, How::Dual] {
        for seed in 1..=4 {
            let found = found(how, seed, &Points::Some(400));
            assert!(found.holds(), "seed {seed}: {:#?}", found.failures.first());
        }
    }
}

#[test]
fn e2fsck_has_no_complaint_of_what_recovers() {
    if !judges::has("e2fsck") {
        return;
    }
    for how in [How::Journal, How::Lines, How::Pmfs, How::Dual] {
        let subject = Files::new(how, 9, 300, 1);
        let found = explore(&subject, &Points::Some(80), Seed(9), &mut |_| ());
        assert!(
            found.outside >= 80 && found.holds(),
            "{:#?}",
            found.failures.first()
        );
    }
}

#[test]
fn a_call_that_returns_before_it_is_durable_is_found_out() {
    let subject = Files {
        settles: Settles::Names,
        ..Files::new(How::Journal, 1, 300, 0)
    };
    let found = explore(&subject, &Points::Some(200), Seed(1), &mut |_| ());
    assert!(found.lost > 0);
    let subject = Files {
        settles: Settles::All,
        ..Files::new(How::Dual, 1, 300, 0)
    };
    let found = explore(&subject, &Points::Some(200), Seed(1), &mut |_| ());
    assert!(found.lost > 0, "pages are written back later");
}

#[test]
fn without_a_journal_the_judges_complain() {
    let found = found(How::Nothing, 1, &Points::Some(100));
    assert!(!found.holds());
}

/// Options of ByteFS with which calls wait for their commit.
fn strict() -> bytefs::Options {
    bytefs::Options {
        strict: true,
        ..bytefs::Options::default()
    }
}

#[test]
fn nova_keeps_what_was_promised() {
    for seed in 1..=4 {
        let found = found(How::Nova, seed, &Points::Some(400));
        assert!(found.holds(), "seed {seed}: {:#?}", found.failures.first());
    }
}
