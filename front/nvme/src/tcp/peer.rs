//! A host's socket.
//!
//! Invariants: it is read only while not much waits to be sent, and written only as far as the
//! host takes it, so that nobody waits for it; a connection that has ended for a reason gets
//! what is to be written first, and is closed when the host has gone or was given time to; the
//! queue that it was is left once, and no later than the connection is over, so that the host may
//! have another one of its number.

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

/// Bytes that are read at a time.
const READ_BYTES: usize = 128 << 10;
/// Bytes that wait to be sent while more is read: what one command may have.
const UNSENT_MAX: u64 = TRANSFER as u64;

/// The system of a host is asked whether it is there when nothing was said for so long, and may
/// leave what was sent to it unanswered for as long.
const GONE_TIME: Duration = Duration::from_secs(60);

/// What all connections use.
#[derive(Default)]
pub(super) struct Common {
    /// Where bytes are read to.
    input: RefCell<Vec<u8>>,
    /// Memory for what is to be sent, which idle connections do not have.
    spare: RefCell<Vec<u8>>,
}

/// A connection and its socket.
pub(super) struct Peer<B> {
    socket: TcpStream,
    /// The address that the host has reached.
    portal: SocketAddr,
    desk: Desk<Subsystem<B>>,
    caller: Rc<Caller>,
    common: Rc<Common>,
    connection: RefCell<Connection>,
    /// Nothing is read or written any more.
    broken: Cell<bool>,
    patience: RefCell<Patience>,
    /// Whether the host was told that nothing more will be written.
    told: Cell<bool>,
}

impl<B: Backend> Peer<B> {
    /// # Errors
    /// If the socket is broken already.
    pub(super) fn new(
        socket: TcpStream,
        desk: Desk<Subsystem<B>>,
        caller: Rc<Caller>,
        common: Rc<Common>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // A host that need not say anything may be gone without having said so.
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

    /// Whether all that is left is that its host reads why, and goes.
    pub(super) fn is_over(&self) -> bool {
        !self.broken.get() && self.connection.borrow().is_over()
    }

    /// Whether its host has yet to make it a queue, and may still.
    pub(super) fn is_stranger(&self) -> bool {
        let connection = self.connection.borrow();
        !self.broken.get() && !connection.is_live() && !connection.is_over()
    }

    /// Ends the connection in any case.
    pub(super) fn hang_up(&self) {
        self.broken.set(true);
        self.caller.call();
    }

    /// Hangs up on a host that has taken too long.
    pub(super) fn look(&self, now: Instant) {
        if self.is_full() {
            // Who is not listened to is not missed.
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

    /// Whether so much waits to be sent that nothing is read.
    fn is_full(&self) -> bool {
        self.connection.borrow().unsent() >= UNSENT_MAX
    }

    /// Sends what waits, as far as the host takes it, and reads once if something has come.
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
                // Who has read the last of it may go.
                self.socket.shutdown(Shutdown::Write)?;
            }
        }
        Ok(())
    }

    fn send(&self) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        let mut moved = false;
        // What has gone may make room for more to be written.
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

    /// Sends the commands that are whole on their way.
    fn carry_out(self: &Rc<Self>) {
        loop {
            // It is borrowed again when a command is completed.
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
        // Some commands wait in the subsystem until the end, which the connection knows.
        let peer = Rc::downgrade(self);
        let token = Token::new(entry.cid(), move |done| {
            if let Some(peer) = peer.upgrade() {
                peer.complete(done);
            }
        });
        let Some(link) = link else {
            // Also if it breaks meanwhile it has to hear of the queue that it would have been.
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
            // It may have gone by itself, or be about to.
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

    /// Leaves the queue that it was, once it is over.
    fn leave(&self) {
        let link = self.connection.borrow_mut().left();
        if let Some(link) = link {
            self.begin_leave(link);
        }
    }

    /// Leaves a queue when what was asked for before has begun.
    fn begin_leave(&self, link: Link) {
        let subsystem = Rc::clone(self.desk.value());
        self.desk.begin(async move { subsystem.leave(link) });
    }
}

/// What listens to a host.
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
