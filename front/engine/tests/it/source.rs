//! Files that the engine's thread polls.

use engine::{Caller, Desk, Engine, Handle, Next, Pace, Service, Source};
use sim::{Kernel, Sim};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use units::Ns;

struct Place(Sim);

impl Service for Place {
    fn settle(&self) {}
}

fn start(pace: Pace) -> (Engine<()>, Handle<Place>) {
    let build = |kernel: &Kernel| Ok::<_, io::Error>(Place(kernel.sim()));
    Engine::start(pace, build, |_, _| ()).expect("it starts")
}

/// Echoes each byte after a fixed virtual time.
struct Echo {
    stream: UnixStream,
    desk: Desk<Place>,
    caller: Rc<Caller>,
    after: Ns,
    answers: RefCell<Vec<u8>>,
    open: Cell<u32>,
    over: Cell<bool>,
}

struct Ear(Rc<Echo>);

impl Source for Ear {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.stream.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let echo = &self.0;
        let mut bytes = [0; 64];
        match (&echo.stream).read(&mut bytes) {
            Ok(0) => echo.over.set(true),
            Ok(len) => {
                for &byte in &bytes[..len] {
                    let (answer, sim) = (Rc::clone(echo), echo.desk.value().0.clone());
                    echo.open.set(echo.open.get() + 1);
                    echo.desk.begin(async move {
                        sim.sleep(answer.after).await;
                        answer.open.set(answer.open.get() - 1);
                        answer.answers.borrow_mut().push(byte);
                        answer.caller.call();
                    });
                }
            }
            Err(_) => {}
        }
        let answers = echo.answers.take();
        (&echo.stream).write_all(&answers).expect("it is small");
        if echo.over.get() && echo.open.get() == 0 {
            return Next::Leave;
        }
        Next::Wait {
            read: !echo.over.get(),
            write: false,
        }
    }
}

fn echo(handle: &Handle<Place>, after: Ns) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("no waiting");
    handle.open(move |desk| {
        let attached = desk.attach(|caller| {
            Ok(Rc::new(Ear(Rc::new(Echo {
                stream: theirs,
                desk: desk.clone(),
                caller,
                after,
                answers: RefCell::default(),
                open: Cell::new(0),
                over: Cell::new(false),
            }))))
        });
        attached.expect("listened to");
    });
    ours.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("patience");
    ours
}

#[test]
fn answers_come_at_the_time_of_the_model() {
    for (pace, least) in [(Pace::Free, 0), (Pace::Wall, 20)] {
        let (engine, handle) = start(pace);
        let mut streams = [(); 3].map(|()| echo(&handle, Ns::us(20_000)));
        for round in 0..3 {
            let begun = Instant::now();
            for stream in &mut streams {
                stream.write_all(&[round, round + 1]).expect("sent");
            }
            for stream in &mut streams {
                let mut bytes = [0; 2];
                stream.read_exact(&mut bytes).expect("an answer");
                assert_eq!(bytes, [round, round + 1]);
            }
            assert!(begun.elapsed() >= Duration::from_millis(least));
        }
        let late = handle.lateness().expect("it runs");
        assert_eq!(late.map(|late| late.count), (least > 0).then_some(18));
        // Requests of other threads are served beside those of sources.
        assert_eq!(handle.ask(|_| async { 7 }), Ok(7));
        // After a close the pending answer is sent, then the source leaves.
        let [mut first, mut second, _] = streams;
        first.write_all(&[9]).expect("sent");
        first.shutdown(std::net::Shutdown::Write).expect("hung up");
        let mut all = Vec::new();
        first.read_to_end(&mut all).expect("the end");
        assert_eq!(all, [9]);
        // The end of the thread closes every source.
        handle.stop();
        engine.join().expect("it ends");
        assert_eq!(second.read(&mut [0]).expect("the end"), 0);
    }
}

#[test]
fn panic_of_the_thread_closes_its_sources() {
    let (engine, handle) = start(Pace::Free);
    let mut stream = echo(&handle, Ns::us(1));
    handle.submit(|_| async { panic!("as a bug would") });
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    assert!(engine.join().is_err());
}

/// The lateness of an answer includes the wait of its request for a busy thread.
#[test]
fn lateness_includes_the_wait_for_a_busy_thread() {
    let (engine, handle) = start(Pace::Wall);
    let mut stream = echo(&handle, Ns::us(100));
    let busy = Duration::from_millis(20);
    for (round, by_stream) in [(1, true), (2, false)] {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        handle.open(move |_| {
            tell.send(()).expect("heard");
            // `recv` returns when the sender is dropped.
            let _ = held.recv();
        });
        told.recv().expect("it runs");
        if by_stream {
            stream.write_all(&[5]).expect("sent");
        }
        let (reply, answered) = std::sync::mpsc::channel();
        if !by_stream {
            handle.submit(move |place| async move {
                place.0.sleep(Ns::us(100)).await;
                reply.send(()).expect("heard");
            });
        }
        std::thread::sleep(busy);
        drop(hold);
        match by_stream {
            true => stream.read_exact(&mut [0]).expect("an answer"),
            false => answered.recv().expect("an answer"),
        }
        // Lateness is noted before the next job runs.
        let late = handle.lateness().expect("it runs").expect("it is paced");
        assert_eq!(late.count, round);
        assert!(late.sum.0 >= round * 20_000_000, "{late:?}");
    }
    handle.stop();
    drop(stream);
    engine.join().expect("it ends");
}

/// A client sees an answer no sooner than it was sent: noted lateness never exceeds the time that
/// the client waited beyond the time of the model.
#[test]
fn noted_lateness_is_at_most_the_observed_wait() {
    let (engine, handle) = start(Pace::Wall);
    let after = Ns::us(57);
    let mut stream = echo(&handle, after);
    let mut waited = Duration::ZERO;
    for round in 0..500_u32 {
        let begun = Instant::now();
        stream.write_all(&[1]).expect("sent");
        stream.read_exact(&mut [0]).expect("an answer");
        waited += begun.elapsed() - Duration::from_nanos(after.0);
        // The thread is asleep by then, so that each event wakes it at once.
        std::thread::sleep(Duration::from_micros(u64::from(round % 3 + 1) * 100));
    }
    let late = handle.lateness().expect("it runs").expect("it is paced");
    assert_eq!(late.count, 500);
    assert!(
        late.sum.0 <= waited.as_nanos() as u64,
        "{late:?}, {waited:?}"
    );
    handle.stop();
    drop(stream);
    engine.join().expect("it ends");
}

/// Reads after a permit, and reports its number of turns at the end.
struct Later {
    stream: UnixStream,
    caller: Rc<Caller>,
    may_read: Cell<bool>,
    turns: Cell<u32>,
    ended: Sender<u32>,
}

impl Source for Later {
    fn file(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn turn(&self, has_come: bool) -> Next {
        self.turns.set(self.turns.get() + 1);
        let read = self.may_read.get();
        if read && has_come && (&self.stream).read(&mut [0; 8]).expect("no waiting") == 0 {
            self.ended.send(self.turns.get()).expect("awaited");
            return Next::Leave;
        }
        Next::Wait { read, write: false }
    }
}

#[test]
fn source_that_waits_for_nothing_sees_the_close_once_it_reads() {
    let (engine, handle) = start(Pace::Wall);
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("no waiting");
    let (ended, end) = channel();
    handle.open(move |desk| {
        let later = desk.attach(|caller| {
            Ok(Rc::new(Later {
                stream: theirs,
                caller,
                may_read: Cell::new(false),
                turns: Cell::new(0),
                ended,
            }))
        });
        let (later, sim) = (later.expect("listened to"), desk.value().0.clone());
        desk.begin(async move {
            sim.sleep(Ns::us(100_000)).await;
            later.may_read.set(true);
            later.caller.call();
        });
    });
    // Bytes that the source does not read yet, then the end of the stream.
    ours.write_all(&[1; 4]).expect("sent");
    drop(ours);
    let turns = end.recv_timeout(Duration::from_secs(20));
    let turns = turns.expect("it hears of the end");
    assert!(turns < 10, "it is told again and again: {turns} turns");
    handle.stop();
    engine.join().expect("it ends");
}

/// Notes the progress of a load whenever bytes arrive.
struct Watcher {
    stream: UnixStream,
    done: Rc<Cell<u32>>,
    heard: Rc<Cell<u32>>,
}

impl Source for Watcher {
    fn file(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn turn(&self, has_come: bool) -> Next {
        if has_come && (&self.stream).read(&mut [0; 8]).is_ok() {
            self.heard.set(self.done.get());
        }
        Next::Wait {
            read: true,
            write: false,
        }
    }
}

/// A load of slow events runs few of them between two polls.
#[test]
fn slow_events_delay_a_source_by_few_events() {
    let (engine, handle) = start(Pace::Free);
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("no waiting");
    let (tell, told) = channel();
    handle.open(move |desk| {
        let (done, heard) = (Rc::<Cell<u32>>::default(), Rc::<Cell<u32>>::default());
        let watcher = Watcher {
            stream: theirs,
            done: Rc::clone(&done),
            heard: Rc::clone(&heard),
        };
        let attached = desk.attach(|_| Ok(Rc::new(watcher)));
        attached.expect("listened to");
        let sim = desk.value().0.clone();
        desk.begin(async move {
            let (mut worst, mut sent) = (0, None);
            for _ in 0..300 {
                std::thread::sleep(Duration::from_millis(2));
                done.set(done.get() + 1);
                let since = done.get() - heard.get();
                match sent {
                    Some(at) if heard.get() >= at => {
                        worst = worst.max(heard.get() - at);
                        sent = None;
                    }
                    None if since > 5 => {
                        ours.write_all(&[1]).expect("sent");
                        sent = Some(done.get());
                    }
                    _ => {}
                }
                sim.sleep(Ns(1)).await;
            }
            tell.send(worst).expect("awaited");
        });
    });
    let worst = told.recv().expect("it runs");
    assert!((1..=20).contains(&worst), "after {worst} events");
    handle.stop();
    engine.join().expect("it ends");
}
