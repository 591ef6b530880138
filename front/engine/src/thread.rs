//! Thread of a simulation.
//!
//! Invariants: everything that the simulation shares lives and dies on one thread; requests begin
//! in the order sent; a request that still waits when the simulation is at rest can never complete
//! and is dropped, so that its client gets an error instead of waiting forever.
//!
//! Requests come from other threads through a [`Handle`], or from a [`Source`] on this thread
//! through its [`Desk`], without waking a thread.

use crate::exits::{Exits, Open};
use crate::lateness::{Late, Watch};
use crate::pacer::{Pace, WallClock};
use crate::reactor::{Caller, Files, Reactor, Source, Wake};
use sim::{Kernel, Pacer, Sim};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::Poll;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use units::Ns;

/// Events between two polls for new requests.
const BURST: u32 = 64;
/// Events between two readings of the clock, and the time after which requests are polled even if
/// fewer than [`BURST`] events have run: bounds the delay behind slow events.
const CLOCKED: u32 = 8;
const BURST_TIME: Duration = Duration::from_millis(1);
/// Polls after which pending answers are settled although more events are near. A larger number
/// lets more written data leave the buffer before a record is made, and saves recording them twice.
const BURSTS: u32 = 64;

/// A request for the simulation; none ends the thread.
type Job<T> = Option<Request<T>>;
/// Starts a request at the instant it arrived.
type Request<T> = Box<dyn FnOnce(&Desk<T>, Arrived) + Send>;

/// Times of the arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Time at which the thread took the request in; the request begins then.
    pub(crate) taken: Ns,
    /// Time at which the request could have been taken in, or somewhat earlier: `taken - asked` is
    /// an upper bound of its wait for the thread.
    pub(crate) asked: Ns,
}

/// The engine's thread has ended, or has dropped the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated drive has stopped")]
pub struct Gone;

/// The value that lives on the thread of an [`Engine`].
pub trait Service: 'static {
    /// Called between events now and then, and before the thread sleeps: completes together the
    /// work that several requests wait for.
    fn settle(&self);
}

/// Sends requests to an [`Engine`]. Clones send to the same engine.
pub struct Handle<T> {
    /// Sends a request; drops it if the thread has ended.
    jobs: Arc<dyn Fn(Job<T>) + Send + Sync>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            jobs: Arc::clone(&self.jobs),
        }
    }
}

/// A thread with a kernel and a value. The thread ends when every [`Handle`] is dropped or after
/// [`Handle::stop`].
pub struct Engine<R> {
    thread: JoinHandle<Option<R>>,
}

/// Sends jobs to the thread; wakes the thread when it is dropped.
struct Outbox<T> {
    jobs: Option<Sender<Job<T>>>,
    wake: Arc<Wake>,
}

impl<T> Outbox<T> {
    fn send(&self, job: Job<T>) {
        // A thread that has ended drops the job, which reports the error.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        self.wake.wake();
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.jobs = None;
        self.wake.wake();
    }
}

/// The thread's side of an engine: gives a [`Source`] access to the simulation. A desk does not
/// keep the thread from ending.
pub struct Desk<T> {
    sim: Sim,
    value: Rc<T>,
    /// Cancellation of the requests in flight.
    exits: Rc<Exits>,
    reactor: Rc<Reactor>,
    late: Rc<Watch>,
}

impl<T> Clone for Desk<T> {
    fn clone(&self) -> Self {
        Self {
            sim: self.sim.clone(),
            value: Rc::clone(&self.value),
            exits: Rc::clone(&self.exits),
            reactor: Rc::clone(&self.reactor),
            late: Rc::clone(&self.late),
        }
    }
}

impl<T: 'static> Desk<T> {
    /// The value that lives on the thread.
    #[must_use]
    pub fn value(&self) -> &Rc<T> {
        &self.value
    }

    /// Begins a request that arrived in the current turn of a source. Drops `work`, with all it
    /// owns, if the request cannot complete.
    pub fn begin(&self, work: impl Future<Output = ()> + 'static) {
        self.start(self.reactor.arrived(), work);
    }

    /// Adds the source that `make` returns to the thread's event loop.
    ///
    /// # Errors
    /// If `make` fails, or if its file cannot be polled.
    pub fn attach<S: Source + 'static>(
        &self,
        make: impl FnOnce(Rc<Caller>) -> io::Result<Rc<S>>,
    ) -> io::Result<Rc<S>> {
        self.reactor.attach(make)
    }

    /// Starts `work` as a task that begins at `arrived.taken` and is dropped on cancellation.
    /// `work` is boxed at once: some calls of a file system are futures of tens of kilobytes, which
    /// every wrapper would copy.
    fn start(&self, arrived: Arrived, work: impl Future<Output = ()> + 'static) {
        let (sim, late) = (self.sim.clone(), Rc::clone(&self.late));
        let open = Open::new(&self.exits, &sim);
        let mut work = Box::pin(work);
        self.sim.spawn_detached(async move {
            sim.sleep_until(arrived.taken).await;
            let begun = sim.now();
            let mut left = pin!(open.exit.take(1));
            poll_fn(|context| {
                if work.as_mut().poll(context).is_ready() {
                    late.note(arrived, begun, sim.now());
                    return Poll::Ready(());
                }
                left.as_mut().poll(context)
            })
            .await;
        });
    }

    /// A desk of this thread whose value is a part of this one's.
    fn part<U>(&self, part: fn(&T) -> Rc<U>) -> Desk<U> {
        Desk {
            sim: self.sim.clone(),
            value: part(&self.value),
            exits: Rc::clone(&self.exits),
            reactor: Rc::clone(&self.reactor),
            late: Rc::clone(&self.late),
        }
    }

    /// Cancels requests that still wait although the simulation is at rest.
    fn dismiss(&self, kernel: &Kernel) {
        if self.exits.open() > 0 {
            self.exits.clear();
            while self.exits.open() > 0 && kernel.step() {}
        }
    }
}

impl<R: Send + 'static> Engine<R> {
    /// Starts a thread that makes its value with `build` and serves requests until the end; `end`
    /// then makes the result that [`Engine::join`] returns.
    ///
    /// # Errors
    /// If `build` fails, or if the thread cannot be started.
    pub fn start<T: Service, E: From<io::Error> + Send + 'static>(
        pace: Pace,
        build: impl FnOnce(&Kernel) -> Result<T, E> + Send + 'static,
        end: impl FnOnce(&Kernel, Rc<T>) -> R + Send + 'static,
    ) -> Result<(Self, Handle<T>), E> {
        let (jobs, inbox) = channel();
        let (report, built) = channel();
        let files = Files::new()?;
        let wake = files.wake();
        let body = move || {
            let kernel = Kernel::new();
            // The receiver is gone only if the caller is.
            let value = match build(&kernel) {
                Ok(value) => Rc::new(value),
                Err(error) => {
                    let _ = report.send(Err(error));
                    return None;
                }
            };
            let _ = report.send(Ok(()));
            serve(pace, &kernel, &value, &inbox, files);
            Some(end(&kernel, value))
        };
        let thread = Builder::new().name("engine".to_owned()).spawn(body)?;
        let died = || Err(io::Error::other(Gone).into());
        built.recv().unwrap_or_else(|_| died())?;
        let jobs = Some(jobs);
        let outbox = Outbox { jobs, wake };
        let jobs = Arc::new(move |job| outbox.send(job));
        Ok((Self { thread }, Handle { jobs }))
    }

    /// Waits until the thread has ended, after the last handle is dropped or after
    /// [`Handle::stop`].
    ///
    /// # Errors
    /// If the thread panicked.
    pub fn join(self) -> Result<R, Gone> {
        self.thread.join().ok().flatten().ok_or(Gone)
    }
}

impl<T: 'static> Handle<T> {
    /// Sends a request. Drops `work`, with all it owns, if the request cannot complete: `work`
    /// should own the means to report that to its client.
    pub fn submit<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Rc<T>) -> F + Send + 'static,
    ) {
        let sent = Instant::now();
        let job: Request<T> = Box::new(move |desk, arrived| {
            // The wait for the thread counts as lateness.
            let asked = arrived.taken.0.min(desk.late.at(sent).0);
            let asked = Ns(asked);
            desk.start(Arrived { asked, ..arrived }, work(Rc::clone(&desk.value)));
        });
        (self.jobs)(Some(job));
    }

    /// Runs `open` on the thread, to attach sources. Drops `open`, with all it owns, if the thread
    /// has ended.
    pub fn open(&self, open: impl FnOnce(&Desk<T>) + Send + 'static) {
        (self.jobs)(Some(Box::new(move |desk, _| open(desk))));
    }

    /// Lateness of the answers until now; none if the wall clock does not pace them.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn lateness(&self) -> Result<Option<Late>, Gone> {
        let (reply, answer) = channel();
        self.open(move |desk| {
            // The receiver is gone only if the caller has panicked.
            let _ = reply.send(desk.late.told());
        });
        answer.recv().map_err(|_| Gone)
    }

    /// Ends the thread once all requests sent before are answered.
    pub fn stop(&self) {
        (self.jobs)(None);
    }

    /// A handle whose requests get a part of the value: lets several fronts share an engine.
    #[must_use]
    pub fn part<U: 'static>(&self, part: fn(&T) -> Rc<U>) -> Handle<U> {
        let jobs = Arc::clone(&self.jobs);
        let jobs = Arc::new(move |job: Job<U>| {
            let whole = job.map(|job| -> Request<T> {
                Box::new(move |desk, arrived| job(&desk.part(part), arrived))
            });
            jobs(whole);
        });
        Handle { jobs }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// If the request was dropped: it can never complete, or the thread has ended.
    pub fn ask<A: Send + 'static, F: Future<Output = A> + 'static>(
        &self,
        work: impl FnOnce(Rc<T>) -> F + Send + 'static,
    ) -> Result<A, Gone> {
        let (reply, answer) = channel();
        self.submit(move |value| {
            let work = work(value);
            async move {
                // The receiver is gone only if the caller has panicked.
                let _ = reply.send(work.await);
            }
        });
        answer.recv().map_err(|_| Gone)
    }
}

/// Runs the simulation until `work` is complete, and returns its result. None if the simulation
/// comes to rest before.
pub fn finish<T: 'static>(kernel: &Kernel, work: impl Future<Output = T> + 'static) -> Option<T> {
    let mut handle = kernel.sim().spawn(work);
    loop {
        if let Some(result) = handle.take() {
            return Some(result);
        }
        if !kernel.step() {
            return None;
        }
    }
}

/// Serves requests until the end.
fn serve<T: Service>(
    pace: Pace,
    kernel: &Kernel,
    value: &Rc<T>,
    inbox: &Receiver<Job<T>>,
    files: Files,
) {
    let sim = kernel.sim();
    let reactor = Reactor::new(files);
    let clock = WallClock::new(pace);
    if pace.is_paced() {
        // Linux delays timers by the slack of the thread, 50 µs by default.
        let _ = nix::sys::prctl::set_timerslack(1);
    }
    let mut driver = Driver {
        clock,
        leap: pace.leap(),
        desk: Desk {
            sim,
            value: Rc::clone(value),
            exits: Rc::default(),
            reactor: Rc::clone(&reactor),
            late: Rc::new(Watch::new(pace, clock)),
        },
        reactor,
        inbox,
        over: false,
        next: None,
        is_seen: false,
        credit: 0,
        begun: None,
        bursts: 0,
    };
    loop {
        driver.take_all();
        kernel.run_paced(&mut driver);
        driver.desk.value.settle();
        if !driver.over && driver.desk.sim.next_time().is_some() {
            continue;
        }
        driver.desk.dismiss(kernel);
        driver.give();
        if driver.over {
            break;
        }
        if driver.desk.sim.next_time().is_none() {
            driver.sleep(None);
        }
    }
}

/// Paces the events of the kernel and takes in requests between them.
struct Driver<'a, T> {
    clock: WallClock,
    /// Events no further ahead than this are not delayed; zero if the wall clock paces.
    leap: Ns,
    desk: Desk<T>,
    reactor: Rc<Reactor>,
    inbox: &'a Receiver<Job<T>>,
    /// A job that arrived when the thread was about to sleep.
    next: Option<Job<T>>,
    /// No more requests are taken in; requests in flight complete.
    over: bool,
    /// The sources have just been polled.
    is_seen: bool,
    /// Near events that may run before the next poll.
    credit: u32,
    /// First reading of the clock since the last poll.
    begun: Option<Instant>,
    /// Polls since the value was last settled.
    bursts: u32,
}

impl<T> Drop for Driver<'_, T> {
    /// Breaks the cycle between sources and reactor, so that no client keeps waiting, also after a
    /// panic.
    fn drop(&mut self) {
        self.reactor.clear();
    }
}

impl<T: Service> Driver<'_, T> {
    /// Begins the request, or ends the service if `job` is none.
    fn take_in(&mut self, job: Job<T>) {
        let Some(job) = job else {
            self.over = true;
            return;
        };
        if self.leap > Ns::ZERO {
            self.clock.catch_up(self.desk.sim.now());
        }
        let taken = self.clock.now();
        let asked = taken;
        job(&self.desk, Arrived { taken, asked });
    }

    /// Gives the called sources their turns, which send answers. All answers count as sent when the
    /// last turn begins: a client that the system wakes may run before this thread continues.
    fn give(&self) {
        let late = &self.desk.late;
        let mut begun = late.about_to_give();
        self.reactor
            .turn_called(|| begun = late.about_to_give().or(begun));
        if let Some(begun) = begun {
            late.given(begun);
        }
    }

    /// Sends pending answers, then takes in new requests. Returns whether there were any from other
    /// threads.
    fn take_all(&mut self) -> bool {
        self.give();
        let mut came = false;
        if let Some(job) = self.next.take() {
            came |= job.is_some();
            self.take_in(job);
        }
        while !self.over {
            match self.inbox.try_recv() {
                Ok(job) => {
                    came |= job.is_some();
                    self.take_in(job);
                }
                Err(TryRecvError::Disconnected) => self.over = true,
                Err(TryRecvError::Empty) => break,
            }
        }
        self.give();
        if !self.over {
            let is_seen = std::mem::take(&mut self.is_seen);
            let (reactor, now) = (Rc::clone(&self.reactor), self.reading());
            if !is_seen {
                reactor.look(now);
            }
        }
        came
    }

    /// Returns a reading of the clock for arrivals; it skips virtual time as the pace allows.
    fn reading(&mut self) -> impl FnOnce() -> Ns {
        let (free, now) = (self.leap > Ns::ZERO, self.desk.sim.now());
        move || {
            if free {
                self.clock.catch_up(now);
            }
            self.clock.now()
        }
    }

    /// Sleeps until a request or an event of a source, for at most `patience` (none: without
    /// limit).
    fn sleep(&mut self, patience: Option<Duration>) {
        let (reactor, inbox) = (Rc::clone(&self.reactor), self.inbox);
        let mut found = Err(TryRecvError::Empty);
        let is_idle = || {
            found = inbox.try_recv();
            matches!(found, Err(TryRecvError::Empty))
        };
        reactor.sleep(patience, self.reading(), is_idle);
        self.is_seen = true;
        match found {
            Ok(job) => self.next = Some(job),
            Err(TryRecvError::Disconnected) => self.over = true,
            Err(TryRecvError::Empty) => {}
        }
    }

    /// Waits until `time` or for a request. Returns whether one came.
    fn wait(&mut self, time: Ns) -> bool {
        let Some(span) = self.clock.sleep_before(time) else {
            std::hint::spin_loop();
            return !self.over && self.take_all();
        };
        if self.over {
            std::thread::sleep(span);
            return false;
        }
        self.sleep(Some(span));
        self.take_all()
    }

    /// Whether an event at `time` is within the leap and need not be delayed.
    fn is_near(&self, time: Ns) -> bool {
        time.0 - self.desk.sim.now().0 <= self.leap.0 && self.leap > Ns::ZERO
    }

    /// Counts a near event; returns whether another may run before the next poll.
    fn may_go_on(&mut self) -> bool {
        if self.credit == 0 {
            return false;
        }
        self.credit -= 1;
        if !self.credit.is_multiple_of(CLOCKED) {
            return true;
        }
        let now = Instant::now();
        now.duration_since(*self.begun.get_or_insert(now)) < BURST_TIME
    }

    /// Settles the value if no near event is left, or after [`BURSTS`] polls without doing so.
    fn settle(&mut self, time: Ns) {
        self.bursts += 1;
        if self.bursts >= BURSTS || !self.is_near(time) {
            self.bursts = 0;
            self.desk.value.settle();
        }
    }
}

impl<T: Service> Pacer for Driver<'_, T> {
    fn wait_until(&mut self, time: Ns) -> Option<Ns> {
        if self.is_near(time) && self.may_go_on() {
            return Some(time);
        }
        (self.credit, self.begun) = (BURST, None);
        let came = self.take_all();
        if self.leap > Ns::ZERO {
            self.clock.catch_up(self.desk.sim.now());
        }
        if came {
            // The request is among the events that are due now.
            return Some(self.clock.now().min(time));
        }
        self.settle(time);
        loop {
            let settled = self.desk.sim.next_time().is_some_and(|next| next < time);
            if settled {
                return Some(self.desk.sim.now());
            }
            if self.is_near(time) || self.clock.now() >= time {
                return Some(time);
            }
            if self.over && self.desk.exits.open() == 0 {
                return None;
            }
            if self.wait(time) {
                return Some(self.clock.now().min(time));
            }
        }
    }
}
