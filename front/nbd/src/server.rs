//! Where clients are listened for.
//!
//! Invariants: at most [`CLIENTS_MAX`] are served at a time, and one more is hung up on;
//! after [`Server::close`] nobody is served any more, and what had been asked for is
//! answered as far as the client reads it.

use crate::export::Export;
use crate::session::serve_client;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Clients at a time.
pub const CLIENTS_MAX: usize = 256;
/// How long a client that is hung up on may take to read what it asked for.
const FAREWELL: Duration = Duration::from_secs(2);
/// Until one more try after the system had no room for a client.
const PAUSE: Duration = Duration::from_millis(50);

/// Both directions of a connection.
pub trait Stream: Read + Write + Send + Sized + 'static {
    /// The same connection once more.
    ///
    /// # Errors
    /// If the system gives no more.
    fn another(&self) -> io::Result<Self>;

    /// How long to wait for the other side; none for ever.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;

    /// Ends it.
    fn hang_up(&self);

    /// Takes nothing more in.
    fn stop_listening(&self);

    /// How long an answer may take to be taken.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_farewell(&self, patience: Duration) -> io::Result<()>;
}

macro_rules! stream {
    ($stream:ty) => {
        impl Stream for $stream {
            fn another(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(patience)
            }

            fn hang_up(&self) {
                // Whoever has hung up already can not be hung up on.
                let _ = self.shutdown(Shutdown::Both);
            }

            fn stop_listening(&self) {
                let _ = self.shutdown(Shutdown::Read);
            }

            fn set_farewell(&self, patience: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(patience))
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At a socket in the file system.
    Unix(PathBuf),
    /// At an address and a port.
    Tcp(SocketAddr),
}

/// What is no address.
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

/// Listens for clients until it is closed.
pub struct Server {
    address: Address,
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `export` to whoever connects to `address`.
    ///
    /// # Errors
    /// If the address is taken, or not there.
    pub fn start<E: Export>(address: &Address, export: E) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let accept = move || listener.accept().map(|(stream, _)| stream);
                Self::listen(address.clone(), accept, export)
            }
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)?;
                let address = Address::Tcp(listener.local_addr()?);
                let accept = move || {
                    let (stream, _) = listener.accept()?;
                    stream.set_nodelay(true)?;
                    Ok(stream)
                };
                Self::listen(address, accept, export)
            }
        }
    }

    fn listen<S: Stream, E: Export>(
        address: Address,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        export: E,
    ) -> io::Result<Self> {
        let closing = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&closing);
        let body = move || take_clients(&accept, &export, &told);
        let thread = thread::Builder::new().name("nbd".to_owned()).spawn(body)?;
        Ok(Self {
            address,
            closing,
            thread,
        })
    }

    /// Where it listens, with the port that the system chose if none was given.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Hangs up on all clients and takes no more.
    pub fn close(self) {
        self.closing.store(true, Ordering::SeqCst);
        // Whoever waits for a client gets one.
        match &self.address {
            Address::Unix(path) => drop(UnixStream::connect(path)),
            Address::Tcp(address) => drop(TcpStream::connect(address)),
        }
        // If it has panicked there is nobody left to wait for.
        let _ = self.thread.join();
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket at `path`, also if one lies there that nobody listens to.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !left {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// A client that is being served.
struct Client<S> {
    stream: S,
    thread: JoinHandle<()>,
}

fn take_clients<S: Stream, E: Export>(
    accept: &impl Fn() -> io::Result<S>,
    export: &E,
    closing: &AtomicBool,
) {
    let clients: Mutex<Vec<Client<S>>> = Mutex::default();
    let all = || clients.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let taken = accept();
        if closing.load(Ordering::SeqCst) {
            break;
        }
        let mut all = all();
        all.retain(|client| !client.thread.is_finished());
        match taken {
            Ok(stream) if all.len() < CLIENTS_MAX => {
                // Without a thread for it the client is hung up on.
                all.extend(take_client(stream, export).ok());
            }
            Ok(stream) => stream.hang_up(),
            Err(_) => thread::sleep(PAUSE),
        }
    }
    for client in &*all() {
        // Who does not read his answers is not waited for.
        let _ = client.stream.set_farewell(FAREWELL);
        client.stream.stop_listening();
    }
    for client in all().drain(..) {
        let _ = client.thread.join();
    }
}

fn take_client<S: Stream, E: Export>(stream: S, export: &E) -> io::Result<Client<S>> {
    let (own, export) = (stream.another()?, export.clone());
    let body = move || {
        // What it did wrong is its own business.
        let _ = serve_client(&own, &export);
    };
    let thread = thread::Builder::new().name("nbd-client".to_owned());
    Ok(Client {
        thread: thread.spawn(body)?,
        stream,
    })
}
