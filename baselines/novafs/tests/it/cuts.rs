//! Power cuts before every event of a run, with any subset of the volatile stores kept: the effect
//! of a call that has returned is there, a call in progress has happened or not, and the medium is
//! consistent.

use crate::bench::{Fs, cache, new_image};
use crate::cleaning::small_op;
use host::RamDisk;
use nand::Payload;
use novafs::{MountError, MountOptions, NovaFs, check};
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::model::{Model, Op, Order, Tree, draw_on_file, draw_on_names, perform};
use vfs::{
    Access, Atime, Attr, Body, CacheConfig, Clock, Compute, FileKind, Ino, Inode, Process, Result,
    Vfs,
};

const PAGES: u64 = 512;
const SIZE: Bytes = Bytes(PAGES * vfs::PAGE);

type Contents = BTreeMap<u64, Payload>;

/// A file on the medium, with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    ino: Ino,
    attr: Attr,
    data: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

type State = BTreeMap<Vec<u8>, Seen>;

async fn see(fs: &Fs, ino: Ino) -> Result<(Seen, Inode<novafs::Private>)> {
    let inode = fs.load(ino).await?;
    let mut seen = Seen {
        ino,
        attr: inode.attr.get(),
        data: Vec::new(),
        xattrs: BTreeMap::new(),
    };
    match inode.attr.get().kind {
        FileKind::Regular => {
            seen.data = vec![0; inode.attr.get().size as usize];
            fs.read_direct(&inode, 0, &mut seen.data).await?;
        }
        FileKind::Symlink => seen.data = fs.readlink(&inode).await?,
        _ => {}
    }
    for name in fs.list_xattrs(&inode).await? {
        let value = fs.get_xattr(&inode, &name).await?;
        seen.xattrs.insert(name, value);
    }
    Ok((seen, inode))
}

/// Reads all files of a file system.
async fn look(fs: &Fs) -> Result<State> {
    let (mut state, mut left) = (State::new(), vec![(Vec::new(), fs.root())]);
    while let Some((path, ino)) = left.pop() {
        let (seen, inode) = see(fs, ino).await?;
        if seen.attr.kind == FileKind::Directory {
            for entry in fs.read_dir(&inode, 0, 1_000).await? {
                left.push(([&path[..], b"/", &entry.name].concat(), entry.ino));
            }
        }
        state.insert(path, seen);
    }
    Ok(state)
}

/// Recovers, in some cases with another power cut during recovery. Returns the state and the
/// medium.
fn recover(left: Contents, again: Option<&mut Rng>) -> (State, RamDisk) {
    let mut left = left;
    if let Some(rng) = again {
        let kernel = Kernel::new();
        let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
        let (port, sim) = (disk.clone(), kernel.sim());
        kernel.sim().spawn_detached(async move {
            let _ = Fs::mount(&sim, &port, MountOptions::default()).await;
        });
        for _ in 0..rng.below(40) {
            kernel.step();
        }
        left = disk.after_cut(rng);
    }
    let kernel = Kernel::new();
    let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
    let (port, sim) = (disk.clone(), kernel.sim());
    let state = kernel.block_on(async move {
        let fs = NovaFs::mount(&sim, &port, MountOptions::default()).await;
        look(&fs.unwrap()).await.unwrap()
    });
    assert_eq!(check(&disk.to_image()[..]), []);
    (state, disk)
}

/// Difference between the state and the expected one, as a sentence.
fn differs(state: &State, should: &State) -> String {
    let paths = state.keys().chain(should.keys());
    let wrong = paths.filter(|path| state.get(*path) != should.get(*path));
    let told = wrong.map(|path| {
        let attr = |state: &State| {
            state
                .get(path)
                .map(|seen| (seen.ino, seen.attr, seen.data.len()))
        };
        let path = String::from_utf8_lossy(path);
        format!("{path}: {:?}, not {:?}", attr(state), attr(should))
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Generator of random calls.
type Draw = fn(&mut Rng) -> Op;

#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    draw: Draw,
    /// Calls before the first cut, and calls that are cut.
    before: usize,
    calls: usize,
    /// Whether the run starts with an empty file system, so that the model applies.
    fresh: bool,
}

struct Live {
    disk: RamDisk,
    done: Cell<usize>,
    last: RefCell<String>,
    model: RefCell<Model>,
    /// Number of unlinked pages and of rewritten logs.
    cleaned: Cell<(u64, u64)>,
}

async fn work(sim: Sim, live: Rc<Live>, run: Run) {
    let (seed, draw, calls) = (run.seed, run.draw, run.before + run.calls);
    let fs = NovaFs::mount(&sim, &live.disk, MountOptions::default()).await;
    // Every call has its own timestamps.
    let clock = Clock::new(Clock::default().at(Ns::ZERO), Ns(0));
    // Following a link must not change atime, which would be a separate change.
    let config = CacheConfig {
        atime: Atime::Never,
        ..cache(false)
    };
    let vfs = Vfs::mount(&sim, fs.unwrap(), config, clock, Compute::unlimited());
    let process = Process::new(&vfs, Access::root());
    let mut rng = Seed(seed).stream("calls");
    for number in 0..calls {
        let op = draw(&mut rng);
        *live.last.borrow_mut() = format!("call {number}, {op:?}");
        let got = perform(&process, &op).await;
        let modelled = live.model.borrow_mut().perform(0, &op);
        assert!(
            !run.fresh || got == modelled,
            "{op:?}: {got:?}, not {modelled:?}"
        );
        live.model.borrow_mut().perform(0, &Op::Sync).unwrap();
        let cleaning = vfs.body().cleaning();
        live.cleaned.set((cleaning.unlinked, cleaning.rewritten));
        live.done.set(number + 1);
        sim.sleep(Ns(1)).await;
    }
}

impl Run {
    fn start(&self, kernel: &Kernel, image: &[u8]) -> Rc<Live> {
        let live = Rc::new(Live {
            disk: RamDisk::from_image(&kernel.sim(), image),
            done: Cell::new(0),
            last: RefCell::default(),
            model: RefCell::new(Model::new(1, Order::Journal)),
            cleaned: Cell::default(),
        });
        let task = work(kernel.sim(), Rc::clone(&live), *self);
        kernel.sim().spawn_detached(task);
        live
    }

    /// State after each call that will be cut, as the model has it; the first is the state before.
    fn expected(&self, image: &[u8]) -> Vec<State> {
        let kernel = Kernel::new();
        let live = self.start(&kernel, image);
        let mut states = Vec::new();
        let mut rng = Seed(self.seed).stream("rest");
        while live.done.get() < self.before + self.calls && kernel.step() {
            if live.done.get() < self.before + states.len() {
                continue;
            }
            let (state, disk) = recover(live.disk.after_cut(&mut rng), None);
            let other = Kernel::new();
            let sim = other.sim();
            let disk = RamDisk::from_image(&sim, &disk.to_image());
            let tree = other.block_on(async move {
                let vfs = crate::bench::mounted(&sim, disk, false).await;
                let process = Process::new(&vfs, Access::root());
                Tree::read(&process).await.unwrap()
            });
            let wrong = match self.fresh {
                true => vfs::model::check(&live.model.borrow(), &tree),
                false => Vec::new(),
            };
            assert_eq!(wrong, [], "lost after {}", live.last.borrow());
            states.push(state);
        }
        assert_eq!(states.len(), self.calls + 1);
        states
    }

    /// Cuts the power before every event, in `cuts` ways each; returns the number of cuts, and of
    /// cleaned logs.
    fn cut(&self, cuts: u64) -> (u64, (u64, u64)) {
        let image = new_image(PAGES, 2);
        let states = self.expected(&image);
        let kernel = Kernel::new();
        let live = self.start(&kernel, &image);
        let mut rng = Seed(self.seed).stream("cuts");
        let (mut tried, mut cleaned) = (0, None);
        while live.done.get() < self.before + self.calls {
            let Some(at) = live.done.get().checked_sub(self.before) else {
                assert!(kernel.step());
                continue;
            };
            let before = *cleaned.get_or_insert(live.cleaned.get());
            for _ in 0..cuts {
                let left = live.disk.after_cut(&mut rng);
                let again = (rng.below(4) == 0).then_some(&mut rng);
                let (state, _) = recover(left, again);
                let fits = state == states[at] || state == states[at + 1];
                assert!(
                    fits,
                    "seed {} at event {} of {}: {}",
                    self.seed,
                    kernel.sim().events(),
                    live.last.borrow(),
                    differs(&state, &states[at + 1]),
                );
                tried += 1;
            }
            assert!(kernel.step());
            let now = live.cleaned.get();
            cleaned = Some(before);
            if live.done.get() == self.before + self.calls {
                return (tried, (now.0 - before.0, now.1 - before.1));
            }
        }
        (tried, (0, 0))
    }
}

fn any_op(rng: &mut Rng) -> Op {
    match rng.below(3) {
        0 => draw_on_file(rng),
        _ => draw_on_names(rng),
    }
}

/// Writes one page of one file, so that all of its log but the end is dead.
fn hot_op(rng: &mut Rng) -> Op {
    match rng.below(10) {
        0 => Op::Open {
            path: b"/hot".to_vec(),
            flags: vfs::OpenFlags::BOTH | vfs::OpenFlags::CREATE,
        },
        1 => Op::Chmod {
            path: b"/hot".to_vec(),
            mode: rng.below(0o1000) as u16,
        },
        _ => Op::Write {
            fd: 0,
            offset: rng.below(2_000),
            byte: rng.next_u64() as u8,
            len: 100,
        },
    }
}

#[test]
fn every_call_is_durable_and_happens_at_once() {
    let mut tried = 0;
    for seed in 0..24 {
        let run = Run {
            seed,
            draw: any_op,
            before: 10,
            calls: 50,
            fresh: true,
        };
        tried += run.cut(3).0;
    }
    assert!(tried > 8_000, "{tried}");
}

#[test]
fn cut_during_cleaning_loses_nothing() {
    let (mut unlinked, mut rewritten) = (0, 0);
    for seed in 0..6 {
        let run = Run {
            seed,
            draw: [small_op, hot_op][seed as usize % 2],
            before: 700,
            calls: 80,
            fresh: true,
        };
        let (_, cleaned) = run.cut(1);
        unlinked += cleaned.0;
        rewritten += cleaned.1;
    }
    assert!(unlinked > 0 && rewritten > 0, "{unlinked} {rewritten}");
}

#[test]
fn recovered_medium_survives_repeated_cuts() {
    for seed in 0..6 {
        let mut image = new_image(PAGES, 2);
        let mut rng = Seed(seed).stream("chain");
        for round in 0..40 {
            let run = Run {
                seed: seed * 100 + round,
                draw: any_op,
                before: 0,
                calls: 12,
                fresh: false,
            };
            let states = run.expected(&image);
            let kernel = Kernel::new();
            let live = run.start(&kernel, &image);
            for _ in 0..40 + rng.below(120) {
                if live.done.get() < run.calls {
                    kernel.step();
                }
            }
            let at = live.done.get();
            let (state, disk) = recover(live.disk.after_cut(&mut rng), Some(&mut rng));
            let next = states.get(at + 1).unwrap_or(&states[at]);
            let fits = state == states[at] || state == *next;
            assert!(
                fits,
                "seed {seed}, round {round}: {}",
                differs(&state, next)
            );
            image = disk.to_image();
        }
    }
}

#[test]
fn mkfs_survives_power_cuts() {
    let kernel = Kernel::new();
    let disk = RamDisk::new(&kernel.sim(), SIZE);
    let port = disk.clone();
    let done = Rc::new(Cell::new(false));
    let is_done = Rc::clone(&done);
    kernel.sim().spawn_detached(async move {
        let made = novafs::mkfs(&port, &novafs::MkfsOptions::default()).await;
        made.unwrap();
        is_done.set(true);
    });
    let mut rng = Seed(1).stream("cuts");
    while !done.get() {
        assert!(kernel.step());
        let other = Kernel::new();
        let left = RamDisk::holding(&other.sim(), SIZE, disk.after_cut(&mut rng));
        let sim = other.sim();
        let mounted = other.block_on(async move {
            let mounted = NovaFs::mount(&sim, &left, MountOptions::default()).await;
            mounted.map(drop)
        });
        match mounted {
            Err(MountError::Superblock) => assert!(!done.get()),
            mounted => assert_eq!(mounted, Ok(())),
        }
    }
}
