//! Listener for NBD clients.
//!
//! Invariants: all clients are served on the thread of the drive. At most [`CLIENTS_MAX`] are
//! connected at a time: a further client replaces the first one that has not finished its
//! handshake, and is dropped if there is none. After [`Server::close`] no request is accepted;
//! accepted requests are answered as far as their client reads the answers in time.

use crate::connection::{Common, Connection, Ear, INPUT};
use crate::export::Export;
use crate::tls::{Tls, turnstile};
use engine::{Caller, Desk, Handle, Next, Source, Spare};
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Most clients connected at a time. Each takes a file descriptor, of which a process often has
/// 1,024.
pub const CLIENTS_MAX: usize = 512;
/// Time that [`Server::close`] gives clients to read their pending answers.
const FAREWELL: Duration = Duration::from_secs(2);
/// Most clients that the listener accepts in one turn.
const TAKEN: usize = 64;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// IP address and port; port 0 lets the system choose one.
    Tcp(SocketAddr),
}

/// Error of an invalid address.
#[derive(Debug, thiserror::Error)]
#[error("{0}: expected unix:PATH, HOST:PORT, or a port of this machine, as unix:nbd.sock or 10809")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return (!path.is_empty())
                .then(|| Self::Unix(path.into()))
                .ok_or_else(wrong);
        }
        if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
            return Ok(Self::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        }
        let mut found = text.to_socket_addrs().map_err(|_| wrong())?;
        found.next().map(Self::Tcp).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(out),
        }
    }
}

/// Count of connected clients; [`Server::close`] waits on it from another thread.
#[derive(Default)]
struct Crowd {
    count: Mutex<usize>,
    left: Condvar,
}

/// Counts one client in its [`Crowd`] until dropped.
pub(crate) struct Guest(Arc<Crowd>);

impl Guest {
    fn new(crowd: &Arc<Crowd>) -> Self {
        *crowd.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(crowd))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.left.notify_all();
    }
}

/// Listening socket, nonblocking, of either address family.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<(Self, Address)> {
        let (listener, address) = match address {
            Address::Unix(path) => (Self::Unix(engine::listen(path)?), address.clone()),
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)?;
                let address = Address::Tcp(listener.local_addr()?);
                (Self::Tcp(listener), address)
            }
        };
        match &listener {
            Self::Unix(listener) => listener.set_nonblocking(true)?,
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok((listener, address))
    }

    fn accept(&self) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = accept_with(self.file(), flags)?;
        if matches!(self, Self::Tcp(_)) {
            // Without `TCP_NODELAY` small answers wait for the client's ACK; that is only slower.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        }
        Ok(socket)
    }

    fn file(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// State of the listener on the thread of the drive.
struct Hall<T, E> {
    desk: Desk<T>,
    caller: Rc<Caller>,
    /// The listening socket; `None` once the server is closed.
    listener: RefCell<Option<Listener>>,
    /// Duplicate of the listener's descriptor: the engine polls it until the source leaves.
    file: OwnedFd,
    export: E,
    clients: RefCell<Vec<Weak<Connection<E>>>>,
    common: Rc<Common>,
    crowd: Arc<Crowd>,
    spare: Spare,
}

impl<T: 'static, E: Export> Hall<T, E> {
    fn take(&self, socket: OwnedFd) {
        let all = &self.clients;
        all.borrow_mut().retain(|client| client.strong_count() > 0);
        if all.borrow().len() >= CLIENTS_MAX {
            let found = all
                .borrow()
                .iter()
                .find_map(|client| client.upgrade().filter(|client| client.is_stranger()));
            let Some(stranger) = found else { return };
            stranger.hang_up();
        }
        let (export, common) = (self.export.clone(), Rc::clone(&self.common));
        let guest = Guest::new(&self.crowd);
        // A connection that cannot be attached is closed.
        let _ = self.desk.attach(|caller| {
            let connection = Connection::new(socket, export, common, caller, guest);
            let connection = Rc::new(connection);
            all.borrow_mut().push(Rc::downgrade(&connection));
            Ok(Rc::new(Ear(connection)))
        });
    }

    fn each(&self, act: impl Fn(&Connection<E>)) {
        let all = self.clients.borrow().clone();
        all.iter()
            .filter_map(Weak::upgrade)
            .for_each(|client| act(&client));
    }
}

/// Event source that accepts clients.
struct Door<T, E>(Rc<Hall<T, E>>);

impl<T: 'static, E: Export> Source for Door<T, E> {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let hall = &self.0;
        let listener = hall.listener.borrow();
        let Some(listener) = &*listener else {
            return Next::Leave;
        };
        for _ in 0..TAKEN {
            match listener.accept() {
                Ok(socket) => hall.take(socket),
                // The backlog is empty, the client has gone, or no descriptor is free.
                Err(error) => {
                    hall.spare.refuse(error, || listener.accept());
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

/// Stop signal of the server: a byte requests an orderly close, and the end of the stream drops
/// all remaining clients.
struct Bell<T, E> {
    line: UnixStream,
    hall: Rc<Hall<T, E>>,
}

impl<T: 'static, E: Export> Source for Bell<T, E> {
    fn file(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        match (&self.line).read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => {
                self.close();
                self.hall.each(Connection::end);
                // [`Server::close`] may have timed out and closed its end.
                let _ = (&self.line).write(&[1]);
                return Next::Wait {
                    read: true,
                    write: false,
                };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Next::Wait {
                    read: true,
                    write: false,
                };
            }
            Err(_) => {}
        }
        self.close();
        self.hall.each(Connection::hang_up);
        Next::Leave
    }
}

impl<T: 'static, E: Export> Bell<T, E> {
    /// Stops accepting clients; those that are connected stay.
    fn close(&self) {
        *self.hall.listener.borrow_mut() = None;
        // The duplicated descriptor keeps the socket open, so it must be shut down.
        let _ = shutdown(&self.hall.file, Shutdown::Both);
        self.hall.caller.call();
    }
}

/// Handle of a listening server. [`Server::close`] ends it in order; dropping it drops all
/// connections at once.
pub struct Server {
    address: Address,
    line: UnixStream,
    crowd: Arc<Crowd>,
}

impl Server {
    /// Serves the result of `export` at `address`. With `tls`, only clients that start TLS are
    /// served.
    ///
    /// # Errors
    /// If the address is in use or does not exist.
    pub fn start<T: 'static, E: Export>(
        address: &Address,
        tls: Option<&Tls>,
        handle: &Handle<T>,
        export: impl FnOnce(&Desk<T>) -> E + Send + 'static,
    ) -> io::Result<Self> {
        let (listener, address) = Listener::bind(address)?;
        let file = listener.file().try_clone_to_owned()?;
        let (line, end) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let crowd = Arc::<Crowd>::default();
        let counted = Arc::clone(&crowd);
        let tls = tls.cloned();
        handle.open(move |desk| {
            let mut hall = None;
            let made = desk.attach(|caller| {
                let own = Rc::new(Hall {
                    export: export(desk),
                    desk: desk.clone(),
                    caller,
                    listener: RefCell::new(Some(listener)),
                    file,
                    clients: RefCell::default(),
                    common: Rc::new(Common {
                        pool: Default::default(),
                        input: RefCell::new(vec![0; INPUT]),
                        spare: RefCell::default(),
                        tls,
                        turnstile: turnstile(),
                    }),
                    crowd: counted,
                    spare: Spare::default(),
                });
                hall = Some(Rc::clone(&own));
                Ok(Rc::new(Door(own)))
            });
            if let (Some(hall), Ok(_)) = (hall, made) {
                // If this fails, the server ends only with the drive.
                let _ = desk.attach(|_| Ok(Rc::new(Bell { line: end, hall })));
            }
        });
        Ok(Self {
            address,
            line,
            crowd,
        })
    }

    /// Address that the server listens at, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops accepting clients and requests, waits up to 2 s for pending answers to be read, and
    /// drops the remaining connections. Removes the file of a Unix socket.
    pub fn close(mut self) {
        // If the thread of the drive has ended, there are no clients to wait for.
        let told = self.line.set_read_timeout(Some(FAREWELL)).is_ok()
            && self.line.write_all(&[1]).is_ok()
            && self.line.read_exact(&mut [0]).is_ok();
        if told {
            let count = self.crowd.count.lock();
            let count = count.unwrap_or_else(PoisonError::into_inner);
            let any = |count: &mut usize| *count > 0;
            // Clients that have not read their answers by then are dropped with `line`.
            drop(self.crowd.left.wait_timeout_while(count, FAREWELL, any));
        }
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}
