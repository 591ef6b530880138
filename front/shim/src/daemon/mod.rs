//! The daemon of a folder of zones: it has the zones, for all programs whose files are in
//! them.
//!
//! Programs reach it by a socket; what they write to the ends of files comes by a ring in
//! memory, which the daemon empties while they go on, and reads go past it to the zones.
//!
//! Invariants:
//! - What a program was told is written is in the ring or here: it is there for others at
//!   once, and stays when the program is killed. What was forced is in the zones: it stays
//!   when the daemon is killed too.
//! - A program can do no more harm here than it can to its own files.
//! - The daemon ends once nobody uses it, and not before, unless it is told to stay.

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

/// What a file that stands for a placed one begins with, if that is as long.
pub const STANDS: &[u8] = stands::TEXT;

/// Threads that bring to the zones what was written. One is enough for a drive that does
/// one thing at a time; with two, an emptied zone delays nobody.
const WORKERS: usize = 2;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 8192;

/// How long the daemon waits for the first who uses it.
const FIRST: Duration = Duration::from_secs(10);

/// How long somebody may be connected without saying who it is.
const HELLO_MS: u32 = 10_000;

/// How long nobody is taken in after that was in vain.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a ring may hold what nobody waits for.
const NAP_MS: u32 = 4;

/// Who uses the daemon.
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

    /// Waits until somebody was here and all are gone, or nobody comes.
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

/// Whether a user may write to zones: root, who runs the daemon, and whose zones they are.
fn allowed(user: u32, owner: u32) -> bool {
    // SAFETY: the call takes nothing.
    user == 0 || user == owner || user == unsafe { libc::geteuid() }
}

/// Has the zones in a folder until nobody uses them, or for ever if it is to `stay`.
/// `ready` is called once programs can come.
///
/// # Errors
/// A sentence that says why the zones cannot be had.
pub fn serve(folder: &Path, stay: bool, ready: impl FnOnce()) -> Result<(), String> {
    let name = CString::new(folder.as_os_str().as_bytes()).map_err(|it| it.to_string())?;
    // With less it does as well, for fewer.
    let _ = sys::have_descriptors();
    let volume = Volume::open(&name)?;
    let door = share::name(volume.folder).map_err(|errno| format!("error {errno}"))?;
    let listener =
        sys::listen(&door).map_err(|errno| format!("no socket can be had: error {errno}"))?;
    let first = CString::new([name.as_bytes(), b"/seq/0"].concat()).expect("it was a string");
    let owner = sys::stat_at(libc::AT_FDCWD, &first, 0).map_or(0, |stat| stat.st_uid);
    let sharing: &'static Sharing = Box::leak(Box::new(Sharing::new(volume)));
    sharing.volume.drop_strays();
    // The start is durable before a file gets a number, so that no number is given twice.
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

/// Takes in who comes, until the listener is shut. Where there are no descriptors left, who
/// comes waits until others have gone.
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

/// Takes out what a client writes, while it is there.
fn empty(sharing: &'static Sharing, client: &Client) {
    let mut before = client.memory.tail();
    while !client.is_gone() {
        // Once nothing was written for a moment, the next write wakes this thread.
        let tail = client.memory.tail();
        client.memory.sleep((tail != before).then_some(NAP_MS));
        before = tail;
        if client.memory.waiting() > 0 && !client.is_gone() {
            sharing.drain(client);
        }
    }
}

/// A thread that needs little room on its stack; false if there is none.
fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(work).is_ok()
}
