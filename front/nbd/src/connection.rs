//! Socket of one client, driven by the engine's thread.
//!
//! Invariants: the socket is read only while there is room for requests, and written without
//! blocking; accepted requests are answered before the socket closes, unless the client stops
//! reading.

use crate::export::{Answer, Done, Export, Refusal, Take};
use crate::pool::Pool;
use crate::server::Guest;
use crate::session::{Line, Reply, Session, Step};
use crate::tls::{Seal, Tls};
use engine::{Caller, Next, Output, Source, Turnstile};
use rustix::io::{Errno, read};
use rustix::net::{Shutdown, shutdown};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

/// Size of the read buffer in bytes, kept parts of a message included.
pub(crate) const INPUT: usize = 256 << 10;
/// Most requests in flight per client. Our choice: the queue size of NVMe/TCP here, and twice
/// Linux's queue of a connection. The limit bounds the cost of ordering requests of any size.
pub const UNDER_WAY: u32 = 256;

/// State shared by all clients of a server.
pub(crate) struct Common {
    pub(crate) pool: Pool,
    /// Read buffer of [`INPUT`] bytes, lent to the connection that is reading.
    pub(crate) input: RefCell<Vec<u8>>,
    /// Output buffer for the next active client; idle clients hold none.
    pub(crate) spare: RefCell<Vec<u8>>,
    /// TLS configuration; with one, clients must use TLS.
    pub(crate) tls: Option<Tls>,
    /// Limits the rate of TLS handshakes.
    pub(crate) turnstile: Turnstile,
}

/// State of one client's connection.
pub(crate) struct Connection<E> {
    socket: OwnedFd,
    export: E,
    common: Rc<Common>,
    caller: Rc<Caller>,
    session: RefCell<Session>,
    /// Received bytes of an incomplete message.
    rest: RefCell<Vec<u8>>,
    /// Answers in plain text: sent as they are, or encrypted into `sealed` first.
    output: RefCell<Output>,
    /// TLS session; `None` until the client has sent `STARTTLS`.
    seal: RefCell<Option<Seal>>,
    /// Bytes for the socket while TLS is active: encrypted answers, and before them the plain
    /// bytes that were queued when TLS began.
    sealed: RefCell<Output>,
    /// Sum of the costs of all admitted requests that are not answered yet, in bytes.
    held: Cell<u64>,
    /// Number of jobs begun on the export and not answered; at most [`UNDER_WAY`].
    under_way: Cell<u32>,
    /// Bytes of this client that are included in the pool's total.
    counted: Cell<u64>,
    /// Whether reading waits for room in the pool.
    full: Cell<bool>,
    /// Whether input has stopped: no more bytes are read or parsed.
    ending: Cell<bool>,
    /// Whether output has stopped as well: answers are dropped.
    dead: Cell<bool>,
    /// Counts this connection among the server's clients while it exists.
    _guest: Guest,
}

impl<E: Export> Connection<E> {
    pub(crate) fn new(
        socket: OwnedFd,
        export: E,
        common: Rc<Common>,
        caller: Rc<Caller>,
        guest: Guest,
    ) -> Self {
        let mut output = Output::default();
        let mut session = None;
        let line = match common.tls {
            Some(_) => Line::Demanded,
            None => Line::Clear,
        };
        output.put(|out| session = Some(Session::new(out, line)));
        Self {
            socket,
            export,
            common,
            caller,
            session: RefCell::new(session.expect("it was made")),
            rest: RefCell::default(),
            output: RefCell::new(output),
            seal: RefCell::default(),
            sealed: RefCell::default(),
            held: Cell::new(0),
            under_way: Cell::new(0),
            counted: Cell::new(0),
            full: Cell::new(false),
            ending: Cell::new(false),
            dead: Cell::new(false),
            _guest: guest,
        }
    }

    /// Bytes of answers that the socket has not accepted yet.
    fn unsent(&self) -> u64 {
        self.output.borrow().bytes() + self.sealed.borrow().bytes()
    }

    /// Reports the bytes held by requests and unsent answers to the pool, if they changed.
    fn count(&self) {
        let now = self.held.get() + self.unsent();
        let before = self.counted.replace(now);
        if now != before {
            self.common.pool.change(before, now);
        }
    }

    /// Reserves `cost` bytes for a request. Returns false if the pool has no room or
    /// [`UNDER_WAY`] requests are in flight.
    fn admit(&self, cost: u64) -> bool {
        self.count();
        let is_admitted =
            self.under_way.get() < UNDER_WAY && self.common.pool.admits(self.counted.get(), cost);
        if is_admitted {
            self.held.set(self.held.get() + cost);
        }
        is_admitted
    }

    fn send(&self) {
        if self.dead.get() || self.send_all().is_err() {
            self.dead.set(true);
            self.output.take();
            self.sealed.take();
        }
        self.count();
    }

    fn send_all(&self) -> io::Result<()> {
        let (mut output, socket) = (self.output.borrow_mut(), self.socket.as_fd());
        let Some(seal) = &mut *self.seal.borrow_mut() else {
            return output.send(socket);
        };
        let mut sealed = self.sealed.borrow_mut();
        loop {
            let before = output.bytes();
            seal.close(&mut output, &mut sealed)?;
            sealed.send(socket)?;
            if sealed.bytes() > 0 || output.bytes() == before {
                return Ok(());
            }
        }
    }

    /// Starts TLS: from here on input is decrypted and output encrypted. Answers queued before
    /// leave in plain text.
    ///
    /// # Errors
    /// If the server has no certificates, or the limit of handshakes is reached.
    fn begin_seal(&self) -> io::Result<()> {
        let tls = self.common.tls.as_ref();
        let seal = tls.ok_or_else(|| io::Error::other("there are no certificates"))?;
        if !self.common.turnstile.admits(Instant::now()) {
            return Err(io::Error::other("too many handshakes"));
        }
        *self.seal.borrow_mut() = Some(seal.seal()?);
        self.sealed.swap(&self.output);
        Ok(())
    }

    /// Decrypts `sealed`, appends the plain text to `rest`, and handles every complete message
    /// in it; `rest` keeps the incomplete one.
    fn open(self: &Rc<Self>, sealed: &[u8], rest: &mut Vec<u8>) -> io::Result<()> {
        let is_all = match &mut *self.seal.borrow_mut() {
            Some(seal) => seal.open(sealed, rest)?,
            None => return Ok(()),
        };
        let mut left = &rest[..];
        self.steps(&mut left)?;
        let taken = rest.len() - left.len();
        rest.drain(..taken);
        self.ending.set(self.ending.get() || is_all);
        Ok(())
    }

    /// Handles the bytes kept from before, then reads from the socket if `has_come` and the pool
    /// has room.
    fn take_in(self: &Rc<Self>, has_come: bool) -> io::Result<()> {
        let mut rest = self.rest.take();
        let mut left = &rest[..];
        self.steps(&mut left)?;
        let taken = rest.len() - left.len();
        rest.drain(..taken);
        if has_come && !self.full.get() && !self.ending.get() {
            self.read(&mut rest)?;
        }
        // An incomplete message is short-lived; its spare capacity goes back to the allocator.
        rest.shrink_to(0);
        *self.rest.borrow_mut() = rest;
        Ok(())
    }

    /// Reads once from the socket and handles `rest` and the new bytes; `rest` keeps the
    /// incomplete message at the end.
    fn read(self: &Rc<Self>, rest: &mut Vec<u8>) -> io::Result<()> {
        let mut input = self.common.input.borrow_mut();
        input.resize(INPUT, 0);
        let is_sealed = self.seal.borrow().is_some();
        let kept = if is_sealed { 0 } else { rest.len() };
        input[..kept].copy_from_slice(&rest[..kept]);
        let len = match read(&self.socket, &mut input[kept..]) {
            Ok(0) => {
                self.ending.set(true);
                return Ok(());
            }
            Ok(len) => len,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if is_sealed {
            return self.open(&input[..len], rest);
        }
        let mut left = &input[..kept + len];
        self.steps(&mut left)?;
        rest.clear();
        // Bytes behind `STARTTLS` must be TLS records, so plain text injected there fails.
        if self.seal.borrow().is_some() {
            return self.open(left, rest);
        }
        rest.extend(left);
        Ok(())
    }

    /// Handles messages of `input` until it is incomplete, there is no room for a request, TLS
    /// begins or the client leaves. Advances `input` past the handled bytes.
    fn steps(self: &Rc<Self>, input: &mut &[u8]) -> io::Result<()> {
        self.full.set(false);
        let mut said = Vec::new();
        while !self.ending.get() {
            let admit = |cost| self.admit(cost);
            let step = self
                .session
                .borrow_mut()
                .step(input, &mut said, &self.export, admit)?;
            if !said.is_empty() {
                self.output.borrow_mut().put(|out| out.append(&mut said));
            }
            match step {
                Step::More => break,
                Step::Full => {
                    self.full.set(true);
                    self.common.pool.wait(&self.caller);
                    break;
                }
                Step::Begin(job, reply) => {
                    self.under_way.set(self.under_way.get() + 1);
                    let taker = Rc::clone(self) as Rc<dyn Take>;
                    self.export.begin(job, Done::new(taker, reply));
                }
                Step::Say(said, reply) => self.say(reply, said.map(|()| Answer::Done)),
                Step::Seal => {
                    self.begin_seal()?;
                    break;
                }
                Step::Leave => self.ending.set(true),
            }
        }
        Ok(())
    }

    /// Whether the client is still connected but has not finished its handshake.
    pub(crate) fn is_stranger(&self) -> bool {
        !self.dead.get() && !self.session.borrow().is_served()
    }

    /// Queues the answer to a request and releases the request's cost. A dead connection drops
    /// the answer.
    fn say(&self, reply: Reply, answer: Result<Answer, Refusal>) {
        self.held.set(self.held.get() - reply.cost);
        if !self.dead.get() {
            let mut output = self.output.borrow_mut();
            output.lend(&mut self.common.spare.borrow_mut());
            reply.put(answer, &mut output);
        }
        self.caller.call();
    }

    /// Sends `close_notify` if TLS is active, so that the client can tell the end from a cut.
    fn farewell(&self) {
        if let Some(seal) = &mut *self.seal.borrow_mut() {
            seal.end();
        }
        self.send();
    }

    /// Stops reading; the connection closes once all answers are sent.
    pub(crate) fn end(&self) {
        self.ending.set(true);
        self.caller.call();
    }

    /// Drops the connection at once, unsent answers included.
    pub(crate) fn hang_up(&self) {
        self.dead.set(true);
        self.end();
    }
}

impl<E: Export> Take for Connection<E> {
    fn take(&self, reply: Reply, answer: Result<Answer, Refusal>) {
        self.under_way.set(self.under_way.get() - 1);
        self.say(reply, answer);
    }

    fn lose(&self, reply: Reply) {
        self.under_way.set(self.under_way.get() - 1);
        self.held.set(self.held.get() - reply.cost);
        self.hang_up();
    }
}

/// Event source of a connection.
pub(crate) struct Ear<E>(pub(crate) Rc<Connection<E>>);

impl<E: Export> Source for Ear<E> {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    fn turn(&self, has_come: bool) -> Next {
        let connection = &self.0;
        connection.send();
        if !connection.ending.get() && connection.take_in(has_come).is_err() {
            // Requests accepted before the error are still answered.
            connection.ending.set(true);
        }
        if connection.ending.get() {
            let broken_off = connection.session.borrow_mut().abandon();
            connection.held.set(connection.held.get() - broken_off);
        }
        connection.send();
        let waits = connection.unsent() > 0;
        let open = connection.held.get() > 0;
        if connection.dead.get() || connection.ending.get() && !waits && !open {
            connection.farewell();
            connection.hang_up();
            // An error means that the peer has closed the socket already.
            let _ = shutdown(&connection.socket, Shutdown::Both);
            return Next::Leave;
        }
        if !waits && !open {
            let spare = &mut connection.common.spare.borrow_mut();
            connection.output.borrow_mut().rest(spare);
            connection.sealed.borrow_mut().rest(spare);
        }
        Next::Wait {
            read: !connection.ending.get() && !connection.full.get(),
            write: waits,
        }
    }
}

impl<E> Drop for Connection<E> {
    fn drop(&mut self) {
        self.common.pool.change(self.counted.get(), 0);
    }
}
