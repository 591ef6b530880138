//! Listener for virtual machines.
//!
//! Invariant: one machine is served at a time; the connection of another one is dropped.

use crate::session::{Line, Session};
use engine::{Caller, Desk, Device, Handle, Next, Source, Spare};
use rustix::net::{SocketFlags, accept_with};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Most connections accepted in one turn.
const TAKEN: usize = 64;
/// Longest wait for the drive's thread to confirm that the server is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// State of the listener on the thread of the drive.
struct Hall {
    desk: Desk<Device>,
    listener: UnixListener,
    session: RefCell<Option<Rc<Session>>>,
    closed: Cell<bool>,
    caller: Rc<Caller>,
    spare: Spare,
}

impl Hall {
    fn take(&self, socket: OwnedFd) -> io::Result<()> {
        let mut current = self.session.borrow_mut();
        if current.as_ref().is_some_and(|session| !session.is_over()) {
            return Ok(());
        }
        let desk = self.desk.clone();
        self.desk.attach(|caller| {
            let session = Rc::new(Session::new(socket, desk, caller));
            *current = Some(Rc::clone(&session));
            Ok(Rc::new(Line(session)))
        })?;
        Ok(())
    }
}

fn accept(listener: &UnixListener) -> rustix::io::Result<OwnedFd> {
    accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// Event source that accepts machines.
struct Door(Rc<Hall>);

impl Source for Door {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.listener.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let hall = &self.0;
        if hall.closed.get() {
            return Next::Leave;
        }
        for _ in 0..TAKEN {
            match accept(&hall.listener) {
                // A connection that cannot be attached is closed.
                Ok(socket) => drop(hall.take(socket)),
                // The backlog is empty, the machine has gone, or no descriptor is free.
                Err(error) => {
                    hall.spare.refuse(error, || accept(&hall.listener));
                    break;
                }
            }
        }
        Next::Wait {
            read: true,
            write: false,
        }
    }
}

/// Stop signal of the server: a byte or the end of the stream closes it.
struct Bell {
    line: UnixStream,
    hall: Rc<Hall>,
}

impl Source for Bell {
    fn file(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let read = (&self.line).read(&mut [0]);
        if read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return Next::Wait {
                read: true,
                write: false,
            };
        }
        self.hall.closed.set(true);
        self.hall.caller.call();
        if let Some(session) = self.hall.session.take() {
            session.end();
        }
        // [`Server::close`] may have timed out and closed its end.
        let _ = (&self.line).write(&[1]);
        Next::Leave
    }
}

/// Handle of a listening server; closing or dropping it ends the server.
pub struct Server {
    path: PathBuf,
    line: UnixStream,
}

impl Server {
    /// Serves the drive behind `handle` at a socket at `path`. A socket left there by a dead
    /// process is replaced.
    ///
    /// # Errors
    /// If the socket cannot be created, or another process listens to it.
    pub fn start(path: &Path, handle: &Handle<Device>) -> io::Result<Self> {
        let listener = engine::listen(path)?;
        listener.set_nonblocking(true)?;
        let (line, end) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        line.set_read_timeout(Some(PATIENCE))?;
        handle.open(move |desk| {
            let mut made = None;
            let attached = desk.attach(|caller| {
                let hall = Rc::new(Hall {
                    desk: desk.clone(),
                    listener,
                    session: RefCell::default(),
                    closed: Cell::new(false),
                    caller,
                    spare: Spare::default(),
                });
                made = Some(Rc::clone(&hall));
                Ok(Rc::new(Door(hall)))
            });
            if let (Some(hall), Ok(_)) = (made, attached) {
                // If this fails, the server ends only with the drive.
                let _ = desk.attach(|_| Ok(Rc::new(Bell { line: end, hall })));
            }
        });
        Ok(Self {
            path: path.to_owned(),
            line,
        })
    }

    /// Stops listening, drops the machine's connection and removes the socket's file. Waits up
    /// to 2 s for the thread of the drive to confirm.
    pub fn close(mut self) {
        // The write fails if the thread of the drive has ended, and the server with it.
        let told = self.line.write_all(&[1]);
        let _ = told.and_then(|()| self.line.read_exact(&mut [0]));
        let _ = std::fs::remove_file(&self.path);
    }
}
