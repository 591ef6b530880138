//! The thread on which a simulation lives.
//!
//! Invariants: everything that the simulation shares lives and dies on one
//! thread; requests begin in the order in which they were sent; a request that
//! can never be answered, because everything is at rest and it still waits, is
//! dropped, so that whoever asked is told instead of waiting for ever.

use crate::pacer::{Pace, WallClock};
use sim::{Kernel, Pacer, Semaphore, Sim};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::task::Poll;
use std::thread::{Builder, JoinHandle};
use units::Ns;

/// Events between two looks at whether requests have come.
const BURST: u32 = 64;
/// Such looks after which answers are given although there is more to do. The less
/// often, the more of what was written has left the buffer by then, and need not
/// be noted twice.
const ROUNDS: u32 = 64;

/// A request on its way to the simulation; none to end it.
type Job<T> = Option<Request<T>>;
/// Starts the request at an instant.
type Request<T> = Box<dyn FnOnce(&Desk<T>, Ns) + Send>;

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
    jobs: Sender<Job<T>>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            jobs: self.jobs.clone(),
        }
    }
}

/// A thread with a kernel and a value in it. It ends when every [`Handle`] is
/// gone, or one says so.
pub struct Engine<R> {
    thread: JoinHandle<Option<R>>,
}

/// Where the thread takes requests in.
struct Desk<T> {
    sim: Sim,
    value: Rc<T>,
    /// Requests that are not answered.
    open: Rc<Cell<usize>>,
    /// Has no permits, but for those to be dropped.
    leave: Semaphore,
}

/// Counts a request as open.
struct Open(Rc<Cell<usize>>);

impl Open {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<T: 'static> Desk<T> {
    /// Starts `work` as a task that goes on at `arrival`, and is dropped if it is
    /// told to leave.
    fn start(&self, arrival: Ns, work: impl Future<Output = ()> + 'static) {
        let (sim, leave) = (self.sim.clone(), self.leave.clone());
        let open = Open::new(&self.open);
        self.sim.spawn_detached(async move {
            let _open = open;
            sim.sleep_until(arrival).await;
            let (mut work, mut left) = (pin!(work), pin!(leave.take(1)));
            poll_fn(|context| {
                if work.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                left.as_mut().poll(context)
            })
            .await;
        });
    }

    /// Drops what waits although everything is at rest.
    fn dismiss(&self, kernel: &Kernel) {
        if self.open.get() > 0 {
            self.leave.put(self.open.get());
            kernel.run();
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
            serve(pace, &kernel, &value, &inbox);
            Some(end(&kernel, value))
        };
        let thread = Builder::new().name("engine".to_owned()).spawn(body)?;
        let died = || Err(io::Error::other(Gone).into());
        built.recv().unwrap_or_else(|_| died())?;
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
    /// Sends a request. Whatever `work` owns is dropped if it can not be carried
    /// out: let it own what tells whoever asked.
    pub fn submit<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Rc<T>) -> F + Send + 'static,
    ) {
        let job: Request<T> = Box::new(move |desk, arrival| {
            desk.start(arrival, work(Rc::clone(&desk.value)));
        });
        // If the thread is gone, the job tells by being dropped.
        let _ = self.jobs.send(Some(job));
    }

    /// Ends the thread when the requests sent before are answered.
    pub fn stop(&self) {
        // If the thread is gone, there is nothing to end.
        let _ = self.jobs.send(None);
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// If it can not be carried out.
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

/// Takes requests until nobody can send any more.
fn serve<T: Service>(pace: Pace, kernel: &Kernel, value: &Rc<T>, inbox: &Receiver<Job<T>>) {
    let sim = kernel.sim();
    let desk = Desk {
        leave: Semaphore::new(&sim, 0),
        sim,
        value: Rc::clone(value),
        open: Rc::default(),
    };
    let clock = WallClock::new();
    let arrival = || match pace {
        Pace::Free => Ns::ZERO,
        Pace::Wall => clock.now(),
    };
    kernel.run();
    while let Ok(Some(job)) = inbox.recv() {
        job(&desk, arrival());
        let mut wall = Wall {
            clock: &clock,
            desk: &desk,
            inbox,
            over: false,
        };
        match pace {
            Pace::Free => wall.over = run_free(kernel, &desk, inbox),
            Pace::Wall => wall.run(kernel),
        }
        desk.dismiss(kernel);
        if wall.over {
            break;
        }
    }
}

/// Runs to rest, taking in what comes meanwhile. Says whether that was the end.
fn run_free<T: Service>(kernel: &Kernel, desk: &Desk<T>, inbox: &Receiver<Job<T>>) -> bool {
    let (mut over, mut rounds) = (false, 0);
    loop {
        let busy = (0..BURST).all(|_| kernel.step());
        let mut came = false;
        while !over && let Ok(job) = inbox.try_recv() {
            over = job.is_none();
            if let Some(job) = job {
                job(desk, Ns::ZERO);
                came = true;
            }
        }
        rounds += 1;
        if !busy || rounds == ROUNDS {
            desk.value.settle();
            rounds = 0;
        }
        if !busy && !came && desk.sim.next_time().is_none() {
            return over;
        }
    }
}

/// Holds events back until the wall clock shows their time, or a request comes.
struct Wall<'a, T> {
    clock: &'a WallClock,
    desk: &'a Desk<T>,
    inbox: &'a Receiver<Job<T>>,
    /// Nothing is taken in any more; what is under way takes its time.
    over: bool,
}

impl<T: Service> Wall<'_, T> {
    /// Runs to rest, also after what waited for that.
    fn run(&mut self, kernel: &Kernel) {
        while self.desk.sim.next_time().is_some() {
            kernel.run_paced(self);
            self.desk.value.settle();
        }
    }

    /// The next request, if it comes before `time`, or has come.
    fn next(&mut self, time: Ns) -> Option<Request<T>> {
        loop {
            if !self.over {
                match self.inbox.try_recv() {
                    Ok(Some(job)) => return Some(job),
                    Ok(None) | Err(TryRecvError::Disconnected) => self.over = true,
                    Err(TryRecvError::Empty) => {}
                }
            }
            if self.clock.now() >= time {
                return None;
            }
            self.desk.value.settle();
            if self.desk.sim.next_time().is_some_and(|next| next < time) {
                return None;
            }
            let Some(span) = self.clock.sleep_before(time) else {
                std::thread::yield_now();
                continue;
            };
            if self.over {
                std::thread::sleep(span);
                continue;
            }
            match self.inbox.recv_timeout(span) {
                Ok(Some(job)) => return Some(job),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => self.over = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl<T: Service> Pacer for Wall<'_, T> {
    fn wait_until(&mut self, time: Ns) -> Ns {
        let Some(job) = self.next(time) else {
            // What was settled meanwhile may be due before.
            return self.desk.sim.next_time().unwrap_or(time).min(time);
        };
        let now = self.clock.now();
        job(self.desk, now);
        // Events that are due come first; the job is one of them.
        now.min(time)
    }
}
