//! Sockets: one thread reads of a connection, another writes, and the thread of the
//! simulation carries out.

use super::connection::{Connection, Output, Submission};
use crate::backend::Backend;
use crate::subsystem::{Subsystem, Visitor};
use crate::token::{Link, Token};
use engine::Handle;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Most connections.
const CONNECTIONS: usize = 256;
/// How long a connection may take until it is a queue.
const JOIN_TIME: Duration = Duration::from_secs(10);
/// How long nothing may be taken of what is written.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long a host that was told to go may take until it has gone.
const LEAVE_TIME: Duration = Duration::from_secs(2);
/// How often timers are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Bytes that are read at a time.
const READ_BYTES: usize = 128 << 10;
/// Bytes of the stack of a thread of a connection, which has no deep calls.
const STACK: usize = 256 << 10;

/// An address at which a subsystem can be reached.
pub struct Target {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What the threads of a connection share.
struct Shared {
    connection: Mutex<Connection>,
    /// There may be something to write, or nothing ever again.
    changed: Condvar,
    socket: TcpStream,
}

/// What a connection needs to know of everything else.
struct Peer<B> {
    shared: Arc<Shared>,
    subsystem: Handle<Subsystem<B>>,
    /// The address that the host has reached.
    portal: SocketAddr,
}

impl<B> Clone for Peer<B> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            subsystem: self.subsystem.clone(),
            portal: self.portal,
        }
    }
}

/// Counts a connection until it is dropped.
struct Counted(Arc<AtomicUsize>);

/// The connections that there are.
#[derive(Default)]
struct Connections {
    count: Arc<AtomicUsize>,
    /// Those that were no queue when they were looked at last, the oldest first.
    strangers: VecDeque<Weak<Shared>>,
}

impl Connections {
    /// None if there are as many as may be, and all of them are queues: who says nothing, or
    /// is not let in, makes room for others.
    fn admit(&mut self) -> Option<Counted> {
        let counted = Counted(Arc::clone(&self.count));
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        let has_room = before < CONNECTIONS || self.hang_up_on_oldest();
        has_room.then_some(counted)
    }

    /// Hangs up on the oldest connection that is no queue, which ends its threads; false if
    /// there is none.
    fn hang_up_on_oldest(&mut self) -> bool {
        while let Some(oldest) = self.strangers.pop_front() {
            let Some(oldest) = oldest.upgrade() else {
                continue;
            };
            let is_stranger = {
                let connection = oldest.lock();
                !connection.is_live() && !connection.is_over()
            };
            if is_stranger {
                // It may be broken already.
                let _ = oldest.socket.shutdown(Shutdown::Both);
                return true;
            }
        }
        false
    }

    fn came(&mut self, stranger: &Arc<Shared>) {
        // Of those that have gone, or are queues by now, not many are kept.
        if self.strangers.len() >= 2 * CONNECTIONS {
            self.strangers.retain(|one| {
                let one = one.upgrade();
                one.is_some_and(|one| !one.lock().is_live())
            });
        }
        self.strangers.push_back(Arc::downgrade(stranger));
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Target {
    /// Lets hosts reach `subsystem` through `listener`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start<B: Backend>(
        listener: TcpListener,
        subsystem: Handle<Subsystem<B>>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ending);
        let accept = move || accept(&listener, &subsystem, &told);
        let thread = Builder::new().name("nvme-tcp".to_owned()).spawn(accept)?;
        Ok(Self {
            address,
            ending,
            thread,
        })
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections. Those that are there break with the end of the
    /// simulation.
    pub fn stop(self) {
        self.ending.store(true, Ordering::Release);
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let local: std::net::IpAddr = match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            address.set_ip(local);
        }
        // A connection wakes who waits for one. If none can be made, nobody waits.
        if TcpStream::connect_timeout(&address, LEAVE_TIME).is_ok() {
            let _ = self.thread.join();
        }
    }
}

fn accept<B: Backend>(
    listener: &TcpListener,
    subsystem: &Handle<Subsystem<B>>,
    ending: &AtomicBool,
) {
    let mut connections = Connections::default();
    loop {
        let accepted = listener.accept();
        if ending.load(Ordering::Acquire) {
            return;
        }
        let Ok((socket, _)) = accepted else {
            // No more descriptors, perhaps: there may be some later.
            std::thread::sleep(TICK);
            continue;
        };
        // One too many is dropped, and so is one for which there is no thread.
        if let Some(counted) = connections.admit()
            && let Ok(stranger) = start(socket, subsystem.clone(), counted)
        {
            connections.came(&stranger);
        }
    }
}

fn start<B: Backend>(
    socket: TcpStream,
    subsystem: Handle<Subsystem<B>>,
    counted: Counted,
) -> io::Result<Arc<Shared>> {
    socket.set_nodelay(true)?;
    // A host that need not say anything may be gone without having said so.
    rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(WRITE_TIME))?;
    let portal = socket.local_addr()?;
    let shared = Arc::new(Shared {
        connection: Mutex::default(),
        changed: Condvar::new(),
        socket,
    });
    let reader = Peer {
        shared: Arc::clone(&shared),
        subsystem,
        portal,
    };
    let writer = reader.clone();
    let thread = |name: &str| Builder::new().name(name.to_owned()).stack_size(STACK);
    thread("nvme-write").spawn(move || writer.write())?;
    let spare = reader.clone();
    let read = move || {
        reader.read();
        drop(counted);
    };
    let started = thread("nvme-read").spawn(read);
    if started.is_err() {
        spare.end();
    }
    started.map(|_| shared)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Peer<B> {
    /// Reads until the connection is over.
    fn read(&self) {
        let mut bytes = vec![0; READ_BYTES];
        let (start, mut heard) = (Instant::now(), Instant::now());
        let mut over: Option<Instant> = None;
        loop {
            match (&self.shared.socket).read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    heard = Instant::now();
                    self.take_in(&bytes[..count]);
                }
                Err(error) if is_timeout(&error) => {}
                Err(_) => break,
            }
            let connection = self.shared.lock();
            let late = match connection.keep_alive_ms() {
                Some(ms) => heard.elapsed() > Duration::from_millis(ms.into()),
                None => !connection.is_live() && start.elapsed() > JOIN_TIME,
            };
            if connection.is_over() {
                over.get_or_insert_with(Instant::now);
            }
            if late || over.is_some_and(|over| over.elapsed() > LEAVE_TIME) {
                break;
            }
        }
        self.end();
    }

    /// Ends the connection in any case.
    fn end(&self) {
        // It may be broken already.
        let _ = self.shared.socket.shutdown(Shutdown::Both);
        let link = self.shared.lock().hang_up();
        self.shared.changed.notify_all();
        if let Some(link) = link {
            self.leave(link);
        }
    }

    fn leave(&self, link: Link) {
        self.subsystem
            .submit(move |subsystem: Rc<Subsystem<B>>| async move { subsystem.leave(link) });
    }

    fn take_in(&self, bytes: &[u8]) {
        let mut connection = self.shared.lock();
        connection.receive(bytes);
        self.carry_out(connection);
    }

    /// Sends the commands that are whole on their way.
    fn carry_out(&self, mut connection: MutexGuard<'_, Connection>) {
        let commands: Vec<Submission> = std::iter::from_fn(|| connection.submission()).collect();
        let wakes = connection.has_output() || connection.is_over();
        drop(connection);
        if wakes {
            self.shared.changed.notify_one();
        }
        for command in commands {
            self.submit(command);
        }
    }

    fn submit(&self, command: Submission) {
        let Submission {
            link,
            entry,
            data,
            room,
        } = command;
        let peer = self.clone();
        let token = Token::new(entry.cid(), move |done| {
            let missed = peer.shared.lock().complete(&done);
            peer.shared.changed.notify_one();
            if let Some(link) = missed {
                peer.leave(link);
            }
        });
        let Some(link) = link else {
            let (portal, shared) = (self.portal, Arc::clone(&self.shared));
            let hang_up = Box::new(move || {
                // It may be broken already.
                let _ = shared.socket.shutdown(Shutdown::Both);
            });
            let visitor = Visitor { portal, hang_up };
            return self
                .subsystem
                .submit(move |subsystem: Rc<Subsystem<B>>| async move {
                    subsystem.join(&entry, &data, visitor, token);
                });
        };
        self.subsystem
            .submit(move |subsystem| Subsystem::submit(subsystem, link, entry, data, room, token));
    }

    /// Writes until the connection is over and everything is written.
    fn write(&self) {
        let mut output = Output::default();
        loop {
            let mut connection = self.shared.lock();
            while !connection.has_output() && !connection.is_over() {
                let woken = self.shared.changed.wait(connection);
                connection = woken.unwrap_or_else(PoisonError::into_inner);
            }
            let is_last = connection.is_over();
            output = connection.output(output);
            drop(connection);
            if (&self.shared.socket).write_all(&output.bytes).is_err() {
                // The reader sees it.
                let _ = self.shared.socket.shutdown(Shutdown::Both);
                return;
            }
            if is_last {
                // Who has read the last of it may go; the reader waits for that.
                let _ = self.shared.socket.shutdown(Shutdown::Write);
                return;
            }
            let mut connection = self.shared.lock();
            connection.written(&output);
            self.carry_out(connection);
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
