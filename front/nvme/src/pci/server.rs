//! Listener for monitors of virtual machines.
//!
//! Invariants: at most [`CLIENTS`] monitors are served at a time; a further connection is closed
//! at once. The socket's file is removed when the server stops.

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

/// Most machines at a time. Each holds a descriptor for every range of its memory.
const CLIENTS: usize = 4;
/// Pause after a failed accept, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Listening server, with its thread.
pub struct Server {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Listens at a socket at `path`; each monitor that connects gets a controller of
    /// `subsystem`.
    ///
    /// # Errors
    /// If the socket cannot be created, or the thread cannot be started.
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

    /// Path of the listening socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops accepting machines. Connected machines keep their drive until the simulation ends.
    pub fn stop(self) {
        self.ending.store(true, Ordering::Release);
        // A connection wakes the thread from its accept. If it fails, the thread has ended.
        if UnixStream::connect(&self.path).is_ok() {
            let _ = self.thread.join();
        }
        // The file may be removed already.
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
            // Descriptors may have run out; try again later.
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

/// Serves one monitor until its connection ends.
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
    // A panic of the thread ends only this connection.
    let _ = works.join();
}
