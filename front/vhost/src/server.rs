//! Listener for virtual machines.
//!
//! Invariant: one machine at a time is served; another one is hung up on.

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

/// Machines that are taken in together.
const TAKEN: usize = 64;
/// Longest wait for the drive's thread to confirm that the server is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes machines in.
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
                // On failure the machine is dropped.
                Ok(socket) => drop(hall.take(socket)),
                // The queue is empty, the machine has gone, or no descriptor is free.
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

/// Stop signal of the server.
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
        // The caller may have gone.
        let _ = (&self.line).write(&[1]);
        Next::Leave
    }
}

/// Listens for machines until it is closed, or dropped.
pub struct Server {
    path: PathBuf,
    line: UnixStream,
}

impl Server {
    /// Serves the drive behind `handle` to the machine that connects to a socket at `path`.
    /// One that nobody listens to is taken over.
    ///
    /// # Errors
    /// If there can be no socket there, or somebody listens to one.
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
                // Without it nobody can be told, and all ends with the drive.
                let _ = desk.attach(|_| Ok(Rc::new(Bell { line: end, hall })));
            }
        });
        Ok(Self {
            path: path.to_owned(),
            line,
        })
    }

    /// Hangs up on the machine, and takes no more.
    pub fn close(mut self) {
        // Without the thread of the drive there is nobody to be told.
        let told = self.line.write_all(&[1]);
        let _ = told.and_then(|()| self.line.read_exact(&mut [0]));
        let _ = std::fs::remove_file(&self.path);
    }
}
