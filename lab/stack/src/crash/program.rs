//! Recorded calls of a program on a stack, as a subject of the explorer of power cuts.
//!
//! Invariants: each start begins with the same empty file system and repeats the same calls, so two
//! runs of one recording are equal. After the last call the run goes on until all that is dirty has
//! been written back and committed.

use super::prepare::{Rest, now, refused, start};
use super::setup::{Left, Recovery, Setup, met};
use super::{Cuts, disorder, host};
use crate::attached::Attached;
use crate::error::StackError;
use crate::files::{How, mount, ready, wait};
use crate::hosts::{self, AnyHost, Host};
use crash::{
    Cut, Exploration, Fault, Played, Points, Progress, Recorder, Recording, Settles, Shown,
    Subject, Tape, Verdict, play,
};
use sim::{Kernel, Seed};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::rc::Rc;
use units::Ns;
use vfs::{Access, AnyBody, CacheConfig, Clock, Compute, Errno, Ino, SetAttr, Timestamp, Vfs};

/// Age at which dirty pages expire, and time between two scans for them. As in Linux, with commits
/// every 5 s, pages expire after six commits: names and sizes are durable long before unforced
/// contents. All intervals are those of Linux divided by a thousand.
const EXPIRE: Ns = Ns::ms(30);
const SCAN: Ns = Ns::ms(5);
/// Time that a run goes on after its last call: longer than a page is dirty and uncommitted.
const SETTLE: Ns = Ns::ms(100);

/// A stack with an empty file system, on which programs are recorded and repeated.
#[derive(Clone)]
pub struct Fresh {
    setup: Setup,
    /// The same file system at its usual speed, for programs in real time.
    live: AnyHost,
    rest: Rest,
    root: Ino,
}

/// A state after a power cut and its recovery.
pub struct State<'a> {
    /// The cut that led to the state.
    pub cut: Cut,
    /// The recovered tree, or the reason why the file system did not recover.
    pub tree: Result<&'a Shown, &'a str>,
    /// Root directory of the tree.
    pub root: Ino,
    /// Entries of the recording that were done before the cut.
    pub entries: usize,
    /// Output of the program before the cut.
    pub output: Vec<u8>,
}

/// Function that checks a state, and returns a sentence if it is wrong.
pub type Check<'a> = dyn FnMut(&State<'_>) -> Option<String> + 'a;

impl Fresh {
    /// Makes the file system of `cuts`, whose root belongs to `owner`, a user and a group. Their
    /// workload and their checks are not used.
    ///
    /// # Errors
    /// If the stack has no file system for programs, or cannot be built.
    pub fn new(cuts: &Cuts, (uid, gid): (u32, u32)) -> Result<Self, StackError> {
        let mut plan = cuts.plan.clone();
        let name = plan.stack.host.as_str();
        let none = || refused(&cuts.plan, "expected a file system for programs");
        let hurried = host(cuts)?.filter(|_| name != "zonefs").ok_or_else(none)?;
        let live = hosts::named(name, &plan.stack.switches, &plan.behaviour);
        let live = live.ok_or_else(none)?;
        plan.drive.flash.keep_contents = true;
        hurried.shape(&mut plan.drive);
        let media = start(cuts, &plan)?;
        let kernel = Kernel::new();
        let device = crate::run::attach(&plan, media.media, &kernel)?;
        let drive = device.drive().clone();
        let memory = (hurried.memory(), media.memory);
        let port = Attached::of(&kernel.sim(), &device, &plan.stack, memory)?;
        let (sim, again) = (kernel.sim(), port.clone());
        let how = How::on(false, false);
        let mounted = mount(hurried.clone(), sim.clone(), port.clone(), how);
        let made = wait(&kernel, async move {
            let body = mounted.await?;
            let config = CacheConfig::default();
            let vfs = Vfs::mount(&sim, body, config, Clock::default(), Compute::free());
            let emptied = empty(&vfs, uid, gid).await;
            emptied.map_err(|errno| errno.to_string())?;
            vfs.unmount().await.map_err(|errno| errno.to_string())?;
            port.close().await.map_err(|error| error.to_string())?;
            let memory = again.memory_at_power_cut(&mut Seed(0).stream("rest"));
            Ok::<_, String>((Rest(drive.shutdown().await, memory), vfs.root()))
        })?;
        let (rest, root) = made.map_err(|problem| refused(&plan, problem))?;
        let cache = CacheConfig {
            memory: cuts.memory,
            expire: EXPIRE,
            writeback_interval: SCAN,
            ..CacheConfig::default()
        };
        let setup = Setup {
            host: hurried,
            plan,
            cache,
            disorder: disorder(cuts),
        };
        Ok(Self {
            setup,
            live,
            rest,
            root,
        })
    }

    /// Mounts the file system on a drive of `kernel` at the time `now`, for a program whose calls go
    /// on `tape`.
    ///
    /// # Errors
    /// If the file system cannot be mounted.
    pub fn record(
        &self,
        kernel: &Kernel,
        tape: Tape,
        now: Timestamp,
    ) -> Result<Vfs<Recorder<AnyBody>>, StackError> {
        let Rest(media, memory) = &self.rest;
        let (sim, drive) = (kernel.sim(), self.setup.ready(kernel, media));
        let port = self.setup.attach(&sim, &drive, memory.clone(), false);
        let host = self.live.clone();
        let config = CacheConfig {
            memory: self.setup.cache.memory,
            ..CacheConfig::default()
        };
        let made = wait(kernel, async move {
            ready(&port, None).await?;
            let body = host.mount(&sim, &port, now).await?;
            let tape = Rc::new(tape);
            let body = Recorder::new(body, Rc::clone(&tape));
            let vfs = Vfs::mount(&sim, body, config, Clock::starting(now), Compute::free());
            vfs.observe(tape);
            Ok::<_, String>(vfs)
        })?;
        made.map_err(|problem| refused(&self.setup.plan, problem))
    }

    /// The state that all calls of `recording` lead to without a cut.
    ///
    /// # Errors
    /// If a call fails, unlike when it was recorded.
    pub fn whole(&self, recording: &Recording) -> Result<Shown, StackError> {
        let kernel = Kernel::new();
        let live = self.start(&kernel);
        let (host, sim, cache) = (self.setup.host.clone(), kernel.sim(), self.setup.cache);
        let recording = recording.clone();
        let made = wait(&kernel, async move {
            ready(&live, None).await?;
            let body = host.mount(&sim, &live, now()).await?;
            let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
            let played = Played::default();
            play(&recording, &vfs, &played).await;
            if let Some(why) = played.why() {
                return Err(format!("the recording cannot be repeated: {why}"));
            }
            vfs.sync().await.map_err(|errno| errno.to_string())?;
            let shown = Shown::read(vfs.body()).await;
            shown.map_err(|errno| errno.to_string())
        })?;
        made.map_err(|problem| refused(&self.setup.plan, problem))
    }

    /// Root directory of the trees of this stack.
    #[must_use]
    pub const fn root(&self) -> Ino {
        self.root
    }

    /// Repeats `recording` and cuts the power at `points`, until `progress` breaks. Calls `check`
    /// once for each distinct state, in the order of the cuts.
    pub fn explore(
        &self,
        recording: Recording,
        points: &Points,
        check: &mut Check<'_>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Exploration {
        let subject = Program {
            fresh: self,
            recording: Rc::new(recording),
            only: match points {
                Points::One(cut) => Some(*cut),
                _ => None,
            },
            known: RefCell::default(),
            check: RefCell::new(check),
        };
        let seed = Seed(self.setup.plan.seed);
        crash::explore_while(&subject, points, seed, progress)
    }

    /// The drive with the empty file system.
    fn start(&self, kernel: &Kernel) -> Attached {
        let Rest(media, memory) = &self.rest;
        let (sim, drive) = (kernel.sim(), self.setup.ready(kernel, media));
        let port = self.setup.attach(&sim, &drive, memory.clone(), false);
        port.reordering(&sim, self.setup.disorder.clone())
    }
}

/// Empties a new file system, and gives its root to a user.
async fn empty(vfs: &Vfs<AnyBody>, uid: u32, gid: u32) -> vfs::Result<()> {
    let (who, root) = (Access::root(), vfs.root());
    match vfs.rmdir(&who, root, b"lost+found").await {
        Err(Errno::ENOENT) => {}
        removed => removed?,
    }
    let set = SetAttr {
        mode: Some(0o755),
        uid: Some(uid),
        gid: Some(gid),
        ..SetAttr::default()
    };
    vfs.setattr(&who, root, set).await.map(|_| ())
}

/// A recording that is repeated on a fresh stack.
struct Program<'a, 'b> {
    fresh: &'a Fresh,
    recording: Rc<Recording>,
    /// The only cut to be checked; `None` for all.
    only: Option<Cut>,
    /// Result of each state that was checked, by its digest.
    known: RefCell<BTreeMap<u64, Option<String>>>,
    check: RefCell<&'a mut Check<'b>>,
}

/// A repetition up to its power cut.
struct Live {
    sim: sim::Sim,
    port: Attached,
    played: Rc<Played>,
    done: Rc<Cell<bool>>,
    /// Whether calls are durable when they return.
    settles: bool,
}

/// Mounts the file system and repeats the calls.
async fn work(
    (host, cache): (AnyHost, CacheConfig),
    (sim, port): (sim::Sim, Attached),
    recording: Rc<Recording>,
    played: Rc<Played>,
) -> Result<(), String> {
    ready(&port, None).await?;
    let body = host.mount(&sim, &port, now()).await?;
    let compute = Compute::of(port.device());
    let vfs = Vfs::mount(&sim, body, cache, Clock::default(), compute);
    play(&recording, &vfs, &played).await;
    sim.sleep(SETTLE).await;
    Ok(())
}

impl Subject for Program<'_, '_> {
    type Live = Live;
    type Left = Left;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let (sim, port) = (kernel.sim(), self.fresh.start(kernel));
        let setup = &self.fresh.setup;
        let live = Live {
            sim: sim.clone(),
            port: port.clone(),
            played: Rc::default(),
            done: Rc::default(),
            settles: setup.host.promises().settles != Settles::Nothing,
        };
        let work = work(
            (setup.host.clone(), setup.cache),
            (sim, port),
            Rc::clone(&self.recording),
            Rc::clone(&live.played),
        );
        let done = Rc::clone(&live.done);
        kernel.sim().spawn_detached(async move {
            // The first cut finds a failed mount.
            let _ = work.await;
            done.set(true);
        });
        live
    }

    fn is_done(&self, live: &Live) -> bool {
        live.done.get()
    }

    fn failed(&self, live: &Live) -> u64 {
        live.played.failed()
    }

    fn cut(&self, live: &Live) -> Left {
        Left::of(&live.sim, &live.port)
    }

    fn meets(&self, live: &Live) -> Vec<&'static str> {
        met(&live.port)
    }

    fn marks(&self, live: &Live) -> u64 {
        let calls = match live.settles {
            true => live.played.entries() as u64,
            false => live.played.forces(),
        };
        calls + live.port.flushes()
    }

    fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        self.fresh.setup.power_on(kernel, left)
    }

    fn judge(&self, live: &Live, recovered: &Recovery, cut: Cut) -> Verdict {
        if self.only.is_some_and(|only| only != cut) {
            return Verdict::default();
        }
        let shown = recovered.shown.borrow();
        let tree = match &*shown {
            Some(Ok(shown)) => Ok(shown),
            Some(Err(error)) => Err(error.as_str()),
            None => Err("recovery did not end"),
        };
        let entries = live.played.entries();
        let output = self.recording.output(entries);
        let mut hasher = DefaultHasher::new();
        (tree.map(Shown::digest), &output).hash(&mut hasher);
        let digest = hasher.finish();
        let root = self.fresh.root;
        let state = State {
            cut,
            tree,
            root,
            entries,
            output,
        };
        let mut known = self.known.borrow_mut();
        let wrong = known
            .entry(digest)
            .or_insert_with(|| (self.check.borrow_mut())(&state));
        let fault = |what: &String| (Fault::Corrupt, what.clone());
        Verdict {
            faults: wrong.iter().map(fault).collect(),
            outside: false,
            state: Some(digest),
        }
    }
}
