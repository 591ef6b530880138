//! The thread on which a simulation lives.
//!
//! Invariants: everything that the simulation shares lives and dies on one
//! thread; requests begin in the order in which they were sent; a request that
//! can never be answered, because everything is at rest and it still waits, is
//! dropped, so that whoever asked is told instead of waiting for ever.
//!
//! Requests come from other threads through a [`Handle`], or from a [`Source`] that lives on
//! this thread and has its [`Desk`]: then no thread has to be woken for them.

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

/// Events between two looks at whether requests have come.
const BURST: u32 = 64;
/// Such events between two looks at the clock, and how long they may take before the next look at
/// whether requests have come: an event that does much must not be followed by so many more.
const CLOCKED: u32 = 8;
const BURST_TIME: Duration = Duration::from_millis(1);
/// Such looks after which answers are given although there is more to do. The less
/// often, the more of what was written has left the buffer by then, and need not
/// be noted twice.
const BURSTS: u32 = 64;

/// A request on its way to the simulation; none to end it.
type Job<T> = Option<Request<T>>;
/// Starts the request at an instant.
type Request<T> = Box<dyn FnOnce(&Desk<T>, Arrived) + Send>;

/// When a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// It begins at this instant: it was taken in then.
    pub(crate) taken: Ns,
    /// It was there to be taken in since then, or somewhat later: it has waited for the thread
    /// no longer than that.
    pub(crate) asked: Ns,
}

/// The thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated drive has stopped")]
pub struct Gone;

/// What lives on the thread of an [`Engine`].
pub trait Service: 'static {
    /// Called between events every now and then, and before the thread sleeps:
    /// the time to do at once what several requests wait for.
    fn settle(&self);
}

/// Sends requests to an [`Engine`]. Clones send to the same one.
pub struct Handle<T> {
    /// Takes a request; drops it if the thread is gone.
    jobs: Arc<dyn Fn(Job<T>) + Send + Sync>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            jobs: Arc::clone(&self.jobs),
        }
    }
}

/// A thread with a kernel and a value in it. It ends when every [`Handle`] is
/// gone, or one says so.
pub struct Engine<R> {
    thread: JoinHandle<Option<R>>,
}

/// Sends jobs to the thread. The last one wakes it when it is dropped.
struct Outbox<T> {
    jobs: Option<Sender<Job<T>>>,
    wake: Arc<Wake>,
}

impl<T> Outbox<T> {
    fn send(&self, job: Job<T>) {
        // If the thread is gone, the job tells by being dropped.
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

/// Where the thread takes requests in: what a [`Source`] has of the simulation. It does not
/// keep the thread from ending.
pub struct Desk<T> {
    sim: Sim,
    value: Rc<T>,
    /// Requests that are not answered.
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
    /// What lives on the thread.
    #[must_use]
    pub fn value(&self) -> &Rc<T> {
        &self.value
    }

    /// Begins a request, which has come in this turn of a source. Whatever `work` owns is
    /// dropped if it cannot be carried out.
    pub fn begin(&self, work: impl Future<Output = ()> + 'static) {
        self.start(self.reactor.arrived(), work);
    }

    /// Lets the thread listen to the source that `make` makes.
    ///
    /// # Errors
    /// That of `make`, and if the system takes no more.
    pub fn attach<S: Source + 'static>(
        &self,
        make: impl FnOnce(Rc<Caller>) -> io::Result<Rc<S>>,
    ) -> io::Result<Rc<S>> {
        self.reactor.attach(make)
    }

    /// Starts `work` as a task that goes on when it was taken in, and is dropped if it is
    /// told to leave. It is boxed at once: some calls of a file system are futures of
    /// tens of kilobytes, which would be copied into each one around them.
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

    /// The same desk for a part of the value.
    fn part<U>(&self, part: fn(&T) -> Rc<U>) -> Desk<U> {
        Desk {
            sim: self.sim.clone(),
            value: part(&self.value),
            exits: Rc::clone(&self.exits),
            reactor: Rc::clone(&self.reactor),
            late: Rc::clone(&self.late),
        }
    }

    /// Drops what waits although everything is at rest.
    fn dismiss(&self, kernel: &Kernel) {
        if self.exits.open() > 0 {
            self.exits.clear();
            while self.exits.open() > 0 && kernel.step() {}
        }
    }
}

impl<R: Send + 'static> Engine<R> {
    /// Starts a thread, lets it make its value with `build`, and has it take
    /// requests until the end; `end` then makes the result of the
    /// value.
    ///
    /// # Errors
    /// That of `build`, and if the system gives no thread.
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
            // Nobody waits for the report only if the caller is gone as well.
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

    /// Waits until the thread has ended: every handle must be gone or one have
    /// said so.
    ///
    /// # Errors
    /// If it ended by a panic.
    pub fn join(self) -> Result<R, Gone> {
        self.thread.join().ok().flatten().ok_or(Gone)
    }
}

impl<T: 'static> Handle<T> {
    /// Sends a request. Whatever `work` owns is dropped if it cannot be carried
    /// out: let it own what tells whoever asked.
    pub fn submit<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Rc<T>) -> F + Send + 'static,
    ) {
        let sent = Instant::now();
        let job: Request<T> = Box::new(move |desk, arrived| {
            // What it has waited for the thread is in how late it is.
            let asked = arrived.taken.0.min(desk.late.at(sent).0);
            let asked = Ns(asked);
            desk.start(Arrived { asked, ..arrived }, work(Rc::clone(&desk.value)));
        });
        (self.jobs)(Some(job));
    }

    /// Has `open` called on the thread, to let it listen to sources. Whatever that owns is
    /// dropped if it cannot be.
    pub fn open(&self, open: impl FnOnce(&Desk<T>) + Send + 'static) {
        (self.jobs)(Some(Box::new(move |desk, _| open(desk))));
    }

    /// How late answers were until now; none if nothing paces them.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn lateness(&self) -> Result<Option<Late>, Gone> {
        let (reply, answer) = channel();
        self.open(move |desk| {
            // Nobody waits only if the caller has panicked.
            let _ = reply.send(desk.late.told());
        });
        answer.recv().map_err(|_| Gone)
    }

    /// Ends the thread when the requests sent before are answered.
    pub fn stop(&self) {
        (self.jobs)(None);
    }

    /// Sends requests to a part of the value: several fronts may share an engine, each of
    /// which knows its own part.
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
    /// If it cannot be carried out.
    pub fn ask<A: Send + 'static, F: Future<Output = A> + 'static>(
        &self,
        work: impl FnOnce(Rc<T>) -> F + Send + 'static,
    ) -> Result<A, Gone> {
        let (reply, answer) = channel();
        self.submit(move |value| {
            let work = work(value);
            async move {
                // Nobody waits only if the caller has panicked.
                let _ = reply.send(work.await);
            }
        });
        answer.recv().map_err(|_| Gone)
    }
}

/// Runs `work` to its end, and gives its result; what else happens meanwhile
/// happens. None if everything comes to rest and it still waits.
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

/// Takes requests until the end.
fn serve<T: Service>(
    pace: Pace,
    kernel: &Kernel,
    value: &Rc<T>,
    inbox: &Receiver<Job<T>>,
    files: Files,
) {
    let sim = kernel.sim();
    let reactor = Reactor::new(files);
    let clock = WallClock::new();
    if pace == Pace::Wall {
        // Timers are late by as much, by default by 50 µs.
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

/// Holds events back until their time has come, and takes in what comes meanwhile.
struct Driver<'a, T> {
    clock: WallClock,
    /// Events so near are not held back.
    leap: Ns,
    desk: Desk<T>,
    reactor: Rc<Reactor>,
    inbox: &'a Receiver<Job<T>>,
    /// Came when the thread was about to sleep.
    next: Option<Job<T>>,
    /// Nothing is taken in any more; what is under way takes its time.
    over: bool,
    /// What has come was seen just now.
    is_seen: bool,
    /// Near events before the next look at anything else.
    credit: u32,
    /// When the clock was looked at first since the last one.
    begun: Option<Instant>,
    /// Such looks since the last time to settle.
    bursts: u32,
}

impl<T> Drop for Driver<'_, T> {
    /// Sources know the reactor that knows them. Also after a panic nobody is left to wait.
    fn drop(&mut self) {
        self.reactor.clear();
    }
}

impl<T: Service> Driver<'_, T> {
    /// Begins a request, or notes the end.
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

    /// Has answers given that are there: they count as given when the last of those who give
    /// them begins to. Whom the system wakes for an answer may run before this goes on.
    fn give(&self) {
        let late = &self.desk.late;
        let mut begun = late.about_to_give();
        self.reactor
            .turn_called(|| begun = late.about_to_give().or(begun));
        if let Some(begun) = begun {
            late.given(begun);
        }
    }

    /// Takes in what has come, after what is there was given. Says whether anything had.
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

    /// Reads the clock for what has come from outside.
    fn reading(&mut self) -> impl FnOnce() -> Ns {
        let (free, now) = (self.leap > Ns::ZERO, self.desk.sim.now());
        move || {
            if free {
                self.clock.catch_up(now);
            }
            self.clock.now()
        }
    }

    /// Waits for something from outside, for ever or so long.
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

    /// Waits until `time`, or for a request. Says whether one came.
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

    /// Whether an event is so near that it is not held back.
    fn is_near(&self, time: Ns) -> bool {
        time.0 - self.desk.sim.now().0 <= self.leap.0 && self.leap > Ns::ZERO
    }

    /// Counts a near event; whether there may be another before anything else is looked at.
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

    /// Settles what waits for that, if there is nothing near to be done or it was
    /// long ago.
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
            // It is among what is due now.
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
