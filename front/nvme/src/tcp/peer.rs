//! Socket of one connection, driven by the engine's thread.
//!
//! Invariants: the socket is read only while few bytes are unsent, and written without blocking; a
//! terminated connection first sends its remaining output and closes when the host has closed or
//! timed out; its queue is left exactly once, at the latest with the end of the connection, so that
//! the host may reuse the queue's number.

use super::connection::{Connection, Submission};
use super::patience::Patience;
use crate::backend::Backend;
use crate::subsystem::{Subsystem, TRANSFER, Visitor};
use crate::token::{Completion, Link, Token};
use engine::{Caller, Desk, Next, Source};
use rustix::net::sockopt;
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Size of the read buffer in bytes.
const READ_BYTES: usize = 128 << 10;
/// Unsent bytes from which on reading stops: the data of one command.
const UNSENT_MAX: u64 = TRANSFER as u64;

/// TCP keep-alive: idle time before the first probe, and the time after which unacknowledged data
/// end the connection.
const GONE_TIME: Duration = Duration::from_secs(60);

/// Buffers shared by all connections.
#[derive(Default)]
pub(super) struct Common {
    /// Read buffer, shared by all connections of the thread.
    input: RefCell<Vec<u8>>,
    /// Output buffer for the next active connection; idle connections hold none.
    spare: RefCell<Vec<u8>>,
}

/// A connection, its socket and its timeouts.
pub(super) struct Peer<B> {
    socket: TcpStream,
    /// Local address that the host connected to.
    portal: SocketAddr,
    desk: Desk<Subsystem<B>>,
    caller: Rc<Caller>,
    common: Rc<Common>,
    connection: RefCell<Connection>,
    /// The socket is dead: no more reads or writes.
    broken: Cell<bool>,
    patience: RefCell<Patience>,
    /// Whether the write side is shut down.
    told: Cell<bool>,
}

impl<B: Backend> Peer<B> {
    /// # Errors
    /// If an option of the socket cannot be set.
    pub(super) fn new(
        socket: TcpStream,
        desk: Desk<Subsystem<B>>,
        caller: Rc<Caller>,
        common: Rc<Common>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // A host without keep-alive may vanish silently.
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, GONE_TIME)?;
        sockopt::set_tcp_keepintvl(&socket, GONE_TIME / 6)?;
        sockopt::set_tcp_user_timeout(&socket, GONE_TIME.as_millis() as u32)?;
        Ok(Self {
            portal: socket.local_addr()?,
            socket,
            desk,
            caller,
            common,
            connection: RefCell::default(),
            broken: Cell::new(false),
            patience: RefCell::new(Patience::new(Instant::now())),
            told: Cell::new(false),
        })
    }

    /// Whether the connection is terminated and waits only for the host to read the reason and
    /// close.
    pub(super) fn is_over(&self) -> bool {
        !self.broken.get() && self.connection.borrow().is_over()
    }

    /// Whether the connection is open and not yet a queue.
    pub(super) fn is_stranger(&self) -> bool {
        let connection = self.connection.borrow();
        !self.broken.get() && !connection.is_live() && !connection.is_over()
    }

    /// Drops the connection at once.
    pub(super) fn hang_up(&self) {
        self.broken.set(true);
        self.caller.call();
    }

    /// Drops the connection if a timeout has expired.
    pub(super) fn look(&self, now: Instant) {
        if self.is_full() {
            // Silence does not count while reading is suspended.
            self.patience.borrow_mut().heard(now);
        }
        let (keep_alive_ms, is_live) = {
            let connection = self.connection.borrow();
            (connection.keep_alive_ms(), connection.is_live())
        };
        let mut patience = self.patience.borrow_mut();
        if patience.is_up(now, keep_alive_ms, is_live) {
            self.hang_up();
        }
    }

    /// Whether reading is suspended because too much is unsent.
    fn is_full(&self) -> bool {
        self.connection.borrow().unsent() >= UNSENT_MAX
    }

    /// Sends without blocking, and reads once if the socket is readable.
    fn go_on(self: &Rc<Self>, has_come: bool) -> io::Result<()> {
        self.send()?;
        if has_come && !self.is_full() {
            self.read()?;
            self.send()?;
        }
        self.carry_out();
        self.leave();
        let connection = self.connection.borrow();
        if connection.is_over() {
            self.patience.borrow_mut().over(Instant::now);
            if connection.unsent() == 0 && !self.told.replace(true) {
                // The host closes after it has read the last byte.
                self.socket.shutdown(Shutdown::Write)?;
            }
        }
        Ok(())
    }

    fn send(&self) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        let mut moved = false;
        // Sent bytes make room for more output.
        while connection.unsent() > 0 {
            let left = connection.write(|output| {
                let before = output.bytes();
                let sent = output.send(self.socket.as_fd());
                moved |= output.bytes() < before;
                sent.map(|()| output.bytes())
            })?;
            if left > 0 {
                break;
            }
        }
        let mut patience = self.patience.borrow_mut();
        patience.sent(connection.unsent(), moved, Instant::now);
        if connection.is_at_rest() {
            connection.write(|output| output.rest(&mut self.common.spare.borrow_mut()));
        }
        Ok(())
    }

    fn read(&self) -> io::Result<()> {
        let mut input = self.common.input.borrow_mut();
        input.resize(READ_BYTES, 0);
        match (&self.socket).read(&mut input) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.patience.borrow_mut().heard(Instant::now());
                self.connection.borrow_mut().receive(&input[..len]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Submits the complete commands to the subsystem.
    fn carry_out(self: &Rc<Self>) {
        loop {
            // The borrow must end here: completions borrow the connection again.
            let next = self.connection.borrow_mut().submission();
            let Some(command) = next else { return };
            self.begin(command);
        }
    }

    fn begin(self: &Rc<Self>, command: Submission) {
        let Submission {
            link,
            entry,
            data,
            room,
        } = command;
        // Weak: some commands wait in the subsystem until the connection ends.
        let peer = Rc::downgrade(self);
        let token = Token::new(entry.cid(), move |done| {
            if let Some(peer) = peer.upgrade() {
                peer.complete(done);
            }
        });
        let Some(link) = link else {
            // Strong: a Connect that completes after the connection broke must still leave its
            // queue.
            let peer = Rc::clone(self);
            return self.desk.begin(async move {
                let visitor = peer.visitor();
                peer.desk.value().join(&entry, &data, visitor, token);
            });
        };
        let subsystem = Rc::clone(self.desk.value());
        self.desk
            .begin(subsystem.submit(link, entry, data, room, token));
    }

    fn visitor(self: &Rc<Self>) -> Visitor {
        let peer = Rc::downgrade(self);
        let hang_up = Box::new(move || {
            // The connection may have ended by itself, or be terminating.
            if let Some(peer) = peer.upgrade().filter(|peer| !peer.is_over()) {
                peer.hang_up();
            }
        });
        Visitor {
            portal: self.portal,
            hang_up,
        }
    }

    fn complete(&self, done: Completion) {
        let mut connection = self.connection.borrow_mut();
        connection.write(|output| output.lend(&mut self.common.spare.borrow_mut()));
        let missed = connection.complete(done);
        drop(connection);
        self.caller.call();
        if let Some(link) = missed {
            self.begin_leave(link);
        }
    }

    /// Leaves the queue of the connection once that is over.
    fn leave(&self) {
        let link = self.connection.borrow_mut().left();
        if let Some(link) = link {
            self.begin_leave(link);
        }
    }

    /// Leaves the queue `link` after all requests before it have begun.
    fn begin_leave(&self, link: Link) {
        let subsystem = Rc::clone(self.desk.value());
        self.desk.begin(async move { subsystem.leave(link) });
    }
}

/// Event source of a connection.
pub(super) struct Ear<B>(pub(super) Rc<Peer<B>>);

impl<B: Backend> Source for Ear<B> {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    fn turn(&self, has_come: bool) -> Next {
        let peer = &self.0;
        if peer.broken.get() || peer.go_on(has_come).is_err() {
            peer.broken.set(true);
            let link = peer.connection.borrow_mut().hang_up();
            if let Some(link) = link {
                peer.begin_leave(link);
            }
            return Next::Leave;
        }
        Next::Wait {
            read: !peer.is_full(),
            write: peer.connection.borrow().unsent() > 0,
        }
    }
}
