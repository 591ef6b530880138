//! Listener for hosts.
//!
//! Invariants: all connections run on the thread of the simulation; there are at most
//! [`CONNECTIONS`]: a new one replaces a terminated one or the oldest that is not a queue, or is
//! dropped; a timer checks timeouts every [`TICK`] while there is a connection, and is off
//! otherwise.

use super::patience::LEAVE_TIME;
use super::peer::{Common, Ear, Peer};
use crate::backend::Backend;
use crate::subsystem::Subsystem;
use engine::{Caller, Desk, Handle, Next, Source, Spare};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// Maximum number of connections.
const CONNECTIONS: usize = 256;
/// Most connections accepted in one turn.
const TAKEN: usize = 64;
/// Interval of the timeout checks.
const TICK: Duration = Duration::from_millis(250);

/// Request to the reactor: wait for input.
const READ: Next = Next::Wait {
    read: true,
    write: false,
};

/// A listening address of a subsystem, until it is stopped or dropped.
pub struct Target {
    address: SocketAddr,
    line: UnixStream,
}

impl Target {
    /// Serves `subsystem` through `listener`.
    ///
    /// # Errors
    /// If the sockets or the timer cannot be created.
    pub fn start<B: Backend>(
        listener: TcpListener,
        subsystem: &Handle<Subsystem<B>>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let (line, end) = UnixStream::pair()?;
        let kept = end.try_clone()?;
        subsystem.open(move |desk| {
            // On failure the listener is dropped.
            let _ = open(desk, listener, timer, (end, kept));
        });
        Ok(Self { address, line })
    }

    /// Local address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections. Existing connections end with the simulation.
    pub fn stop(self) {
        // If the thread has ended there is nothing to wait for.
        let told = self.line.shutdown(Shutdown::Write).is_ok()
            && self.line.set_read_timeout(Some(LEAVE_TIME)).is_ok();
        if told {
            // The read returns when the listener and its end of the line are closed.
            let _ = (&self.line).read(&mut [0]);
        }
    }
}

/// Attaches listener, timer and stop signal; `end` and `kept` are the two ends of the stop line.
fn open<B: Backend>(
    desk: &Desk<Subsystem<B>>,
    listener: TcpListener,
    timer: OwnedFd,
    (end, kept): (UnixStream, UnixStream),
) -> io::Result<()> {
    let crowd = desk.attach(|_| {
        Ok(Rc::new(Crowd {
            timer,
            ticks: Cell::new(false),
            peers: RefCell::default(),
        }))
    })?;
    let door = desk.attach(|caller| {
        Ok(Rc::new(Door {
            listener,
            desk: desk.clone(),
            caller,
            crowd,
            common: Rc::default(),
            closed: Cell::new(false),
            spare: Spare::default(),
            _line: kept,
        }))
    })?;
    desk.attach(|_| Ok(Rc::new(Bell { line: end, door })))?;
    Ok(())
}

/// All connections, and the timer that checks their timeouts.
struct Crowd<B> {
    timer: OwnedFd,
    /// Whether the timer runs.
    ticks: Cell<bool>,
    /// Connections in the order of their arrival.
    peers: RefCell<Vec<Weak<Peer<B>>>>,
}

impl<B: Backend> Crowd<B> {
    /// Whether one more connection may exist; makes room by dropping a terminated one, or the
    /// oldest that is not a queue.
    fn admits(&self) -> bool {
        let mut peers = self.peers.borrow_mut();
        peers.retain(|peer| peer.strong_count() > 0);
        if peers.len() < CONNECTIONS {
            return true;
        }
        let first = |is_less: fn(&Peer<B>) -> bool| {
            let mut all = peers.iter().filter_map(Weak::upgrade);
            all.find(|peer| is_less(peer))
        };
        let found = first(Peer::is_over).or_else(|| first(Peer::is_stranger));
        found.map(|peer| peer.hang_up()).is_some()
    }

    fn came(&self, peer: &Rc<Peer<B>>) {
        self.peers.borrow_mut().push(Rc::downgrade(peer));
        self.tick(true);
    }

    /// Starts or stops the timer.
    fn tick(&self, ticks: bool) {
        if self.ticks.replace(ticks) == ticks {
            return;
        }
        let span = if ticks { TICK } else { Duration::ZERO };
        let span = Timespec {
            tv_sec: 0,
            tv_nsec: span.subsec_nanos().into(),
        };
        let times = Itimerspec {
            it_interval: span,
            it_value: span,
        };
        // Cannot fail: the descriptor is a timer and the time is valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
    }
}

impl<B: Backend> Source for Crowd<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        // The number of expirations is irrelevant.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let now = Instant::now();
        self.peers.borrow_mut().retain(|peer| {
            let peer = peer.upgrade();
            peer.is_some_and(|peer| {
                peer.look(now);
                true
            })
        });
        self.tick(!self.peers.borrow().is_empty());
        READ
    }
}

/// Event source that accepts connections.
struct Door<B> {
    listener: TcpListener,
    desk: Desk<Subsystem<B>>,
    caller: Rc<Caller>,
    crowd: Rc<Crowd<B>>,
    common: Rc<Common>,
    closed: Cell<bool>,
    spare: Spare,
    /// Closes together with the listener; [`Target::stop`] waits for that.
    _line: UnixStream,
}

impl<B: Backend> Door<B> {
    fn take(&self, socket: TcpStream) {
        // Over the limit: drops the connection.
        if !self.crowd.admits() {
            return;
        }
        let (desk, common) = (self.desk.clone(), Rc::clone(&self.common));
        // On failure the connection is dropped.
        let _ = self.desk.attach(|caller| {
            let peer = Rc::new(Peer::new(socket, desk, caller, common)?);
            self.crowd.came(&peer);
            Ok(Rc::new(Ear(peer)))
        });
    }
}

impl<B: Backend> Source for Door<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        if self.closed.get() {
            return Next::Leave;
        }
        for _ in 0..TAKEN {
            match self.listener.accept() {
                Ok((socket, _)) => self.take(socket),
                Err(error) => {
                    // The queue is empty, the host has gone, or no descriptor is free.
                    if let Some(error) = Errno::from_io_error(&error) {
                        self.spare.refuse(error, || self.listener.accept());
                    }
                    break;
                }
            }
        }
        READ
    }
}

/// Stop signal of the target.
struct Bell<B> {
    line: UnixStream,
    door: Rc<Door<B>>,
}

impl<B: Backend> Source for Bell<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Nothing is ever sent on the line: readable means closed.
    fn turn(&self, has_come: bool) -> Next {
        if !has_come {
            return READ;
        }
        self.door.closed.set(true);
        self.door.caller.call();
        Next::Leave
    }
}
