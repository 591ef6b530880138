//! Ways to a controller: a socket, or a connection in this very thread.

use engine::Service;
use nvme::tcp::{Connection, Submission};
use nvme::{Backend, Completion, Link, Subsystem, Token, Visitor};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Moves bytes to a controller and back.
pub(crate) trait Wire {
    fn send(&mut self, bytes: &[u8]);
    /// Some bytes; none if there will not be any.
    fn receive(&mut self) -> Option<Vec<u8>>;
}

impl Wire for TcpStream {
    fn send(&mut self, bytes: &[u8]) {
        // The other side may be gone, which reading tells.
        let _ = self.write_all(bytes);
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 65536];
        match self.read(&mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                bytes.truncate(count);
                Some(bytes)
            }
        }
    }
}

pub(crate) fn dial(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it listens");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    socket
}

/// The result of a future that waits for nothing.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

/// A connection without sockets.
pub(crate) struct Local<B: Backend> {
    pub(crate) subsystem: Rc<Subsystem<B>>,
    pub(crate) connection: Connection,
    done: (Sender<Completion>, Receiver<Completion>),
    pub(crate) hung_up: Arc<AtomicBool>,
    /// Completions that are held back.
    pub(crate) held: VecDeque<Completion>,
    pub(crate) holds: bool,
}

impl<B: Backend + Service> Local<B> {
    pub(crate) fn new(subsystem: &Rc<Subsystem<B>>) -> Self {
        Self {
            subsystem: Rc::clone(subsystem),
            connection: Connection::default(),
            done: channel(),
            hung_up: Arc::default(),
            held: VecDeque::new(),
            holds: false,
        }
    }

    fn carry_out(&mut self, command: Submission) {
        let tell = self.done.0.clone();
        let token = Token::new(command.entry.cid(), move |done| {
            // The test may be over.
            let _ = tell.send(done);
        });
        let Submission {
            link,
            entry,
            data,
            room,
        } = command;
        let subsystem = Rc::clone(&self.subsystem);
        match link {
            Some(link) => now(subsystem.submit(link, entry, data, room, token)),
            None => {
                let hung_up = Arc::clone(&self.hung_up);
                let visitor = Visitor {
                    portal: "10.1.2.3:4420".parse().expect("an address"),
                    hang_up: Box::new(move || hung_up.store(true, Ordering::Relaxed)),
                };
                subsystem.join(&entry, &data, visitor, token);
            }
        }
    }

    /// Executes all received commands and delivers their completions.
    pub(crate) fn work(&mut self) {
        loop {
            while let Some(command) = self.connection.submission() {
                self.carry_out(command);
            }
            while let Ok(done) = self.done.1.try_recv() {
                self.held.push_back(done);
            }
            if self.holds || self.held.is_empty() {
                return;
            }
            self.release();
        }
    }

    /// Lets the completions go that were held back.
    pub(crate) fn release(&mut self) {
        for done in std::mem::take(&mut self.held) {
            if let Some(link) = self.connection.complete(done) {
                self.leave(link);
            }
        }
    }

    fn leave(&self, link: Link) {
        self.subsystem.leave(link);
    }

    /// Takes the connection's output, as a socket would.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.connection.write(|output| {
            while output.bytes() > 0 {
                let first = output.first().len();
                bytes.extend_from_slice(output.first());
                output.take(first);
            }
        });
        self.work();
        bytes
    }

    pub(crate) fn hang_up(&mut self) {
        if let Some(link) = self.connection.hang_up() {
            self.leave(link);
        }
    }
}

impl<B: Backend + Service> Wire for Local<B> {
    fn send(&mut self, bytes: &[u8]) {
        self.connection.receive(bytes);
        self.work();
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.work();
        let bytes = self.output();
        (!bytes.is_empty()).then_some(bytes)
    }
}

impl<B: Backend> Drop for Local<B> {
    fn drop(&mut self) {
        if let Some(link) = self.connection.hang_up() {
            self.subsystem.leave(link);
        }
    }
}
