//! The connection to the daemon: sockets for requests, shared memory for writes.
//!
//! Invariants: one thread uses a socket at a time, so that an answer reaches the thread that sent
//! the request. After the first failure the link is lost and sends nothing more: the process must
//! open a new one.

use super::fault::Fault;
use super::{image, start, table};
use crate::share::memory::Memory;
use crate::share::message::{Answer, DEMOTE, GONE, MESSAGE_MAX, Op, Request};
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A connected socket, and a buffer for its answers.
struct Socket {
    fd: c_int,
    room: Box<[u8]>,
}

#[derive(Default)]
struct Sockets {
    idle: Vec<Socket>,
    all: Vec<c_int>,
}

pub(super) struct Link {
    pub(super) memory: Memory,
    /// Number that tells the volume from others.
    pub(super) number: u64,
    /// Maximum number of open zones; 0 is no limit.
    pub(super) open_zones: u32,
    token: u64,
    name: Vec<u8>,
    sockets: Mutex<Sockets>,
    lost: AtomicBool,
}

/// Connects a socket and moves it to a descriptor number that programs do not reach soon.
fn socket(name: &[u8]) -> Result<Socket, Errno> {
    let fd = sys::moved_up(sys::connect(name)?);
    table::own(fd);
    let room = vec![0; MESSAGE_MAX].into_boxed_slice();
    Ok(Socket { fd, room })
}

fn forget(fd: c_int) {
    table::disown(fd);
    sys::close(fd);
}

/// Sends a request, with the descriptor `along` if there is one, and receives the answer, which may
/// come with a descriptor.
fn ask_by(
    socket: &mut Socket,
    request: Request<'_>,
    along: Option<c_int>,
) -> Result<(Answer, Option<c_int>), Errno> {
    request.send_along(socket.fd, along)?;
    let (len, fd) = sys::receive(socket.fd, &mut socket.room)?;
    let answer = Answer::decode(&socket.room[..len]);
    match answer {
        Some(answer) => Ok((answer, fd)),
        None => {
            fd.inspect(|fd| sys::close(*fd));
            Err(libc::EPIPE)
        }
    }
}

impl Link {
    /// Connects to the daemon at the abstract socket `name`. The new client inherits the opens and
    /// pins of the client with the token `parent`, unless that is 0.
    pub(super) fn new(name: &[u8], parent: u64) -> Result<Self, Errno> {
        let mut first = socket(name)?;
        let request = Request {
            b: parent,
            ..Request::new(Op::Hello, 0)
        };
        let asked = ask_by(&mut first, request, None);
        let (answer, fd) = asked.inspect_err(|_| forget(first.fd))?;
        let mapped = fd.map_or(Err(libc::EPROTO), |fd| {
            let mapped = Memory::map(fd);
            sys::close(fd);
            mapped
        });
        let memory = mapped.inspect_err(|_| forget(first.fd))?;
        let [token, number, open] = answer.words;
        let all = vec![first.fd];
        let idle = vec![first];
        Ok(Self {
            memory,
            number,
            open_zones: open as u32,
            token,
            name: name.to_vec(),
            sockets: Mutex::new(Sockets { idle, all }),
            lost: AtomicBool::new(false),
        })
    }

    /// A new link for a forked child, which inherits the opens and pins of this process.
    pub(super) fn heir(&self) -> Result<Self, Errno> {
        Self::new(&self.name, self.token)
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn another(&self) -> Result<Socket, Errno> {
        let mut more = socket(&self.name)?;
        let request = Request {
            a: self.token,
            ..Request::new(Op::Hello, 0)
        };
        ask_by(&mut more, request, None).inspect_err(|_| forget(more.fd))?;
        self.sockets().all.push(more.fd);
        Ok(more)
    }

    /// Whether the daemon is known to be gone, or this link belongs to a parent process.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || image::is_unseen()
    }

    /// Marks the link as lost: the daemon is gone, or has cut this process off.
    pub(super) fn lose(&self) -> Fault {
        self.lost.store(true, Ordering::Relaxed);
        Fault::Lost
    }

    /// Sends a request and waits for its answer; an answer with an error is a [`Fault`].
    pub(super) fn ask(&self, request: Request<'_>) -> Result<Answer, Fault> {
        self.ask_along(request, None)
    }

    /// Like [`Link::ask`], and passes the descriptor `along` if there is one.
    pub(super) fn ask_along(
        &self,
        request: Request<'_>,
        along: Option<c_int>,
    ) -> Result<Answer, Fault> {
        if self.is_lost() {
            return Err(Fault::Lost);
        }
        let idle = self.sockets().idle.pop();
        let mut socket = match idle {
            Some(socket) => socket,
            None => self.another().map_err(|_| self.lose())?,
        };
        let Ok((answer, fd)) = ask_by(&mut socket, request, along) else {
            return Err(self.lose());
        };
        fd.inspect(|fd| sys::close(*fd));
        self.sockets().idle.push(socket);
        match answer.status {
            0 => Ok(answer),
            DEMOTE => Err(Fault::Demote),
            GONE => Err(Fault::Gone),
            errno => {
                start::complain(&answer.data);
                Err(Fault::Errno(errno as Errno))
            }
        }
    }

    /// Closes all sockets in a child, to which they came from its parent.
    pub(super) fn close(&self) {
        self.lost.store(true, Ordering::Relaxed);
        // A thread that does not exist in this process may have held the lock at the fork.
        let Ok(mut sockets) = self.sockets.try_lock() else {
            return;
        };
        let sockets = std::mem::take(&mut *sockets);
        sockets.all.into_iter().for_each(forget);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}
