//! The daemon of a folder of zones. It owns the zones on behalf of all programs whose files are
//! placed in them.
//!
//! Programs connect by a socket. Appends arrive in a ring in shared memory, which the daemon drains
//! while the programs go on; reads bypass the daemon and go to the zones directly.
//!
//! Invariants:
//! - An acknowledged write is in the ring or in the daemon: it is visible to other programs at
//!   once, and survives a kill of its program. A synced write is in the zones: it survives a kill
//!   of the daemon, too.
//! - A program can do no more harm through the daemon than it can do to its own files.
//! - The daemon ends with its last connection and not before, unless it was started to stay.

mod clients;
mod session;
mod sharing;
mod stands;
mod volume;
mod zones;

use crate::share;
use crate::sys;
use clients::Client;
use core::ffi::c_int;
use session::Session;
use sharing::Sharing;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use volume::Volume;

/// First bytes of each stand-in of a placed file that is long enough to hold them.
pub const STANDS: &[u8] = stands::TEXT;

/// Threads that write back to the zones. One is enough for a drive that does one thing at a time;
/// with two, a zone reset does not delay other writes.
const WORKERS: usize = 2;

/// Maximum number of connections at a time.
const CONNECTIONS_MAX: usize = 8192;

/// Time that the daemon waits for its first connection before it ends.
const FIRST: Duration = Duration::from_secs(10);

/// Time in ms that a connection may be open without a `Hello`.
const HELLO_MS: u32 = 10_000;

/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest time in ms that a record may stay in a ring that no thread drains on demand.
const NAP_MS: u32 = 4;

/// Connections of the daemon: the current number, and whether there was ever one.
#[derive(Default)]
struct Users {
    now: usize,
    ever: bool,
}

struct Door {
    users: Mutex<Users>,
    changed: Condvar,
}

impl Door {
    fn enter(&self) -> bool {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let room = users.now < CONNECTIONS_MAX;
        users.now += usize::from(room);
        users.ever = true;
        room
    }

    fn leave(&self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.now -= 1;
        self.changed.notify_all();
    }

    /// Waits until the last connection is closed, or until none was made for [`FIRST`].
    fn wait_until_unused(&self) {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self
            .changed
            .wait_timeout_while(users, FIRST, |users| !users.ever);
        let (users, _) = first.unwrap_or_else(PoisonError::into_inner);
        let last = self.changed.wait_while(users, |users| users.now > 0);
        drop(last.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether `user` may write to the zones: root, the daemon's own user, and the owner of the zones
/// may.
fn allowed(user: u32, owner: u32) -> bool {
    // SAFETY: the call has no arguments.
    user == 0 || user == owner || user == unsafe { libc::geteuid() }
}

/// Serves the zones in a folder until the last connection is closed, or for ever if it is to
/// `stay`. Calls `ready` once programs can connect.
///
/// # Errors
/// A sentence with the reason why the zones cannot be opened or served.
pub fn serve(folder: &Path, stay: bool, ready: impl FnOnce()) -> Result<(), String> {
    let name = CString::new(folder.as_os_str().as_bytes()).map_err(|it| it.to_string())?;
    // The daemon works with fewer descriptors, for fewer connections.
    let _ = sys::have_descriptors();
    let volume = Volume::open(&name)?;
    let door = share::name(volume.folder).map_err(|errno| format!("error {errno}"))?;
    let listener =
        sys::listen(&door).map_err(|errno| format!("no socket can be had: error {errno}"))?;
    let first = CString::new([name.as_bytes(), b"/seq/0"].concat()).expect("it was a string");
    let owner = sys::stat_at(libc::AT_FDCWD, &first, 0).map_or(0, |stat| stat.st_uid);
    let sharing: &'static Sharing = Box::leak(Box::new(Sharing::new(volume)));
    sharing.volume.drop_strays();
    // The log is durable up to here before a file gets a number, so that no number is given twice.
    sharing
        .volume
        .sync_all()
        .map_err(|_| "the zones cannot be written".to_owned())?;
    if !(0..WORKERS).all(|_| spawn(move || sharing.volume.work())) {
        return Err("no threads can be had".to_owned());
    }
    let door: &'static Door = Box::leak(Box::new(Door {
        users: Mutex::default(),
        changed: Condvar::new(),
    }));
    spawn(move || accept(listener, owner, sharing, door));
    ready();
    if stay {
        loop {
            std::thread::park();
        }
    }
    door.wait_until_unused();
    sys::shut(listener);
    let _ = sharing.volume.sync_all();
    Ok(())
}

/// Accepts connections until the listener is shut. If the process is out of descriptors, new
/// connections wait in the listener's queue.
fn accept(listener: c_int, owner: u32, sharing: &'static Sharing, door: &'static Door) {
    loop {
        let socket = match sys::accept(listener) {
            Ok(socket) => socket,
            Err(libc::EINVAL | libc::EBADF) => return,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let _ = sys::set_patience(socket, HELLO_MS);
        let known = sys::user_of(socket).is_ok_and(|user| allowed(user, owner));
        if !known || !door.enter() {
            sys::close(socket);
            continue;
        }
        let began = spawn(move || {
            Session::new(sharing, socket).run(|client| {
                let client = Arc::clone(client);
                spawn(move || empty(sharing, &client))
            });
            door.leave();
        });
        if !began {
            sys::close(socket);
            door.leave();
        }
    }
}

/// Drains the ring of a client while the client is connected.
fn empty(sharing: &'static Sharing, client: &Client) {
    let mut before = client.memory.tail();
    while !client.is_gone() {
        // If the ring did not grow since the last look, sleep until the next write; else nap.
        let tail = client.memory.tail();
        client.memory.sleep((tail != before).then_some(NAP_MS));
        before = tail;
        if client.memory.waiting() > 0 && !client.is_gone() {
            sharing.drain(client);
        }
    }
}

/// Starts a thread with a small stack (256 KiB); returns `false` if the system refuses.
fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(work).is_ok()
}
