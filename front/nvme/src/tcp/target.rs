//! Where hosts are listened for.
//!
//! Invariants: all connections are on the thread of the simulation; there are at most
//! [`CONNECTIONS`], and one more takes the place of one that is over, of the oldest that is no
//! queue, or is hung up on; somebody looks at the clock every [`TICK`] while there is a
//! connection, and nobody while there is none.

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

/// Most connections.
const CONNECTIONS: usize = 256;
/// Connections that are taken in together.
const TAKEN: usize = 64;
/// How often timers are looked at.
const TICK: Duration = Duration::from_millis(250);

/// What waits until there is more to read.
const READ: Next = Next::Wait {
    read: true,
    write: false,
};

/// An address at which a subsystem can be reached, until it is stopped or dropped.
pub struct Target {
    address: SocketAddr,
    line: UnixStream,
}

impl Target {
    /// Lets hosts reach `subsystem` through `listener`.
    ///
    /// # Errors
    /// If the system gives no files.
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
            // If the system takes no more files, nobody is listened to.
            let _ = open(desk, listener, timer, (end, kept));
        });
        Ok(Self { address, line })
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections. Those that are there break with the end of the
    /// simulation.
    pub fn stop(self) {
        // Without the thread of the simulation there is nobody left to wait for.
        let told = self.line.shutdown(Shutdown::Write).is_ok()
            && self.line.set_read_timeout(Some(LEAVE_TIME)).is_ok();
        if told {
            // Both ends are closed when the listener is.
            let _ = (&self.line).read(&mut [0]);
        }
    }
}

/// Has all listened to. The ends of the line are for the bell and for the door.
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

/// The connections that there are, and the clock that they are looked at by.
struct Crowd<B> {
    timer: OwnedFd,
    /// Whether it runs.
    ticks: Cell<bool>,
    /// The oldest first.
    peers: RefCell<Vec<Weak<Peer<B>>>>,
}

impl<B: Backend> Crowd<B> {
    /// Whether there is room for one more, which one that is over makes, or the oldest that is no
    /// queue.
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

    /// Starts the clock, or stops it.
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
        // It is a timer of ours, and the time is one.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
    }
}

impl<B: Backend> Source for Crowd<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        // How often it has ticked is of no interest.
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

/// What listens for hosts.
struct Door<B> {
    listener: TcpListener,
    desk: Desk<Subsystem<B>>,
    caller: Rc<Caller>,
    crowd: Rc<Crowd<B>>,
    common: Rc<Common>,
    closed: Cell<bool>,
    spare: Spare,
    /// Closed with the listener, which whoever stops waits for.
    _line: UnixStream,
}

impl<B: Backend> Door<B> {
    fn take(&self, socket: TcpStream) {
        // One too many is dropped.
        if !self.crowd.admits() {
            return;
        }
        let (desk, common) = (self.desk.clone(), Rc::clone(&self.common));
        // Who cannot be listened to has been hung up on.
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
                    // There is nobody, or he has left already, or there is no file for him.
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

/// What listens to whoever stops the target.
struct Bell<B> {
    line: UnixStream,
    door: Rc<Door<B>>,
}

impl<B: Backend> Source for Bell<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// The line has ended if it can be read: nothing is ever said.
    fn turn(&self, has_come: bool) -> Next {
        if !has_come {
            return READ;
        }
        self.door.closed.set(true);
        self.door.caller.call();
        Next::Leave
    }
}
