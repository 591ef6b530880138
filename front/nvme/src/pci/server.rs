//! Listener for monitors of virtual machines.
//!
//! Invariants: at most [`CLIENTS`] are served at a time, and one more is hung up on; the
//! socket is gone when nobody listens any more.

use super::device::{Device, Event};
use super::session::{Session, Shared};
use crate::backend::Backend;
use crate::subsystem::Subsystem;
use engine::Handle;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

/// Machines at a time: each may leave a descriptor here for every range of its memory.
const CLIENTS: usize = 4;
/// Until one more try after the system had no room for a client.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket at which machines find the drive.
pub struct Server {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Lets monitors plug `subsystem` into their machines, by the socket at `path`.
    ///
    /// # Errors
    /// If there is something at the path, or the system gives no thread.
    pub fn start<B: Backend>(path: &Path, subsystem: Handle<Subsystem<B>>) -> io::Result<Self> {
        let listener = engine::listen(path)?;
        let ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ending);
        let accept = move || accept(&listener, &subsystem, &told);
        let started = Builder::new().name("vfio-user".to_owned()).spawn(accept);
        let path = path.to_owned();
        if started.is_err() {
            std::fs::remove_file(&path)?;
        }
        Ok(Self {
            path,
            ending,
            thread: started?,
        })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no more machines. The drives of those that are there are pulled with the end
    /// of the simulation.
    pub fn stop(self) {
        self.ending.store(true, Ordering::Release);
        // A connection wakes who waits for one. If none can be made, nobody waits.
        if UnixStream::connect(&self.path).is_ok() {
            let _ = self.thread.join();
        }
        // Somebody may have removed it before.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept<B: Backend>(
    listener: &UnixListener,
    subsystem: &Handle<Subsystem<B>>,
    ending: &AtomicBool,
) {
    let count = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if ending.load(Ordering::Acquire) {
            return;
        }
        let Ok((socket, _)) = accepted else {
            // No more descriptors, perhaps: there may be some later.
            thread::sleep(PAUSE);
            continue;
        };
        if count.fetch_add(1, Ordering::AcqRel) >= CLIENTS {
            count.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (subsystem, own) = (subsystem.clone(), Arc::clone(&count));
        let serve = move || {
            serve(socket, subsystem);
            own.fetch_sub(1, Ordering::AcqRel);
        };
        let started = Builder::new().name("vfio-session".to_owned()).spawn(serve);
        if started.is_err() {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Serves one monitor to its end.
fn serve<B: Backend>(socket: UnixStream, subsystem: Handle<Subsystem<B>>) {
    let shared = Arc::new(Shared::new(socket));
    let (tell, inbox) = channel::<Event>();
    let session = Session::new(Arc::clone(&shared), tell.clone());
    let Ok(device) = Device::plug(Arc::clone(&shared), subsystem, inbox, tell) else {
        return shared.hang_up();
    };
    let works = Builder::new()
        .name("vfio-device".to_owned())
        .spawn(move || device.run());
    let Ok(works) = works else {
        return shared.hang_up();
    };
    session.run();
    // A thread that has ended by a panic has nothing more to do either.
    let _ = works.join();
}
