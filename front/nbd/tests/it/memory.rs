//! In-memory export that records flushes and can hold jobs back.

use crate::client::Client;
use engine::{Desk, Engine, Handle, Pace, Service};
use nbd::wire::Code;
use nbd::{Answer, Done, Export, Job, Piece, Refusal};
use nbd::{Server, Tls};
use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use tempfile::TempDir;

/// Unit of allocation in bytes.
pub(crate) const PAGE: usize = 512;

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mapped: Vec<bool>,
    pub(crate) flushes: u32,
    /// With `Some`, jobs are held here unanswered until the test completes or drops them.
    pub(crate) held: Option<Vec<(Job, Done)>>,
}

/// Storage of the export, owned by the engine's thread.
pub(crate) struct Memory(RefCell<Inner>);

impl Service for Memory {
    fn settle(&self) {}
}

/// [`Memory`] as an export.
#[derive(Clone)]
pub(crate) struct Shown {
    desk: Desk<Memory>,
    size: u64,
}

impl Shown {
    pub(crate) fn new(desk: &Desk<Memory>) -> Self {
        Self {
            desk: desk.clone(),
            size: desk.value().0.borrow().bytes.len() as u64,
        }
    }
}

/// Starts an engine thread with `size` zero bytes, none of them allocated.
pub(crate) fn start(size: usize) -> (Engine<()>, Handle<Memory>) {
    let build = move |_: &sim::Kernel| {
        Ok::<_, io::Error>(Memory(RefCell::new(Inner {
            bytes: vec![0; size],
            mapped: vec![false; size.div_ceil(PAGE)],
            ..Inner::default()
        })))
    };
    Engine::start(Pace::Free, build, |_, _| ()).expect("it starts")
}

/// A server of in-memory bytes, with its engine.
pub(crate) struct Place {
    handle: Handle<Memory>,
    _server: Server,
    _engine: Engine<()>,
    path: PathBuf,
    _folder: TempDir,
}

impl Place {
    pub(crate) fn new(size: usize) -> Self {
        Self::over(size, None)
    }

    /// Serves `size` bytes, with `tls` over TLS only.
    pub(crate) fn over(size: usize, tls: Option<&Tls>) -> Self {
        let (engine, handle) = start(size);
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("n.sock");
        let address = nbd::Address::Unix(path.clone());
        let server = Server::start(&address, tls, &handle, Shown::new).expect("it listens");
        Self {
            handle,
            _server: server,
            _engine: engine,
            path,
            _folder: folder,
        }
    }

    /// Path of the socket that the server listens at.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn stream(&self) -> UnixStream {
        UnixStream::connect(&self.path).expect("connected")
    }

    /// A new client that has exchanged greetings.
    pub(crate) fn connected(&self) -> Client<UnixStream> {
        Client::hello(self.stream())
    }

    /// Sockets at the server's path as the system counts them: the listener, connections of
    /// served clients, and connections that are not accepted yet.
    pub(crate) fn connections(&self) -> usize {
        let all = std::fs::read_to_string("/proc/net/unix").expect("it can be asked");
        let path = self.path.to_str().expect("of letters");
        all.lines().filter(|line| line.ends_with(path)).count()
    }

    /// Runs a closure on the storage, on the engine's thread.
    pub(crate) fn with<A: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Inner) -> A + Send + 'static,
    ) -> A {
        let acted = self
            .handle
            .ask(|memory: Rc<Memory>| async move { act(&mut memory.0.borrow_mut()) });
        acted.expect("it runs")
    }

    /// Stops the engine's thread, as a power cut of the drive does.
    pub(crate) fn stop(&self) {
        self.handle.stop();
    }
}

impl Inner {
    pub(crate) fn carry_out(&mut self, job: Job) -> Result<Answer, Refusal> {
        match job {
            Job::Read { offset, length } => {
                let from = offset as usize;
                // One sector that cannot be read.
                if from == 13 * PAGE && length as usize == PAGE {
                    let why = "unrecovered".to_owned();
                    return Err(Refusal {
                        code: Code::Io,
                        why,
                    });
                }
                return Ok(Answer::Data(
                    self.bytes[from..from + length as usize].to_vec(),
                ));
            }
            Job::Write {
                offset,
                bytes,
                force,
            } => {
                let from = offset as usize;
                self.bytes[from..from + bytes.len()].copy_from_slice(&bytes);
                self.map(from, bytes.len(), true);
                self.flushes += u32::from(force);
            }
            Job::Zero {
                offset,
                length,
                hole,
                force,
            } => {
                let (from, length) = (offset as usize, length as usize);
                self.bytes[from..from + length].fill(0);
                self.map(from, length, !hole);
                self.flushes += u32::from(force);
            }
            Job::Trim { force, .. } => self.flushes += u32::from(force),
            Job::Flush => self.flushes += 1,
            Job::Status {
                offset,
                length,
                most,
            } => return Ok(Answer::Pieces(self.pieces(offset, length, most))),
        }
        Ok(Answer::Done)
    }

    /// Whole pages become holes, and any touched page data.
    fn map(&mut self, from: usize, length: usize, data: bool) {
        let (first, end) = match data {
            true => (from / PAGE, (from + length).div_ceil(PAGE)),
            false => (from.div_ceil(PAGE), (from + length) / PAGE),
        };
        if first < end && length > 0 {
            self.mapped[first..end].fill(data);
        }
    }

    fn pieces(&self, offset: u64, length: u32, most: u32) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for at in offset..offset + u64::from(length) {
            let data = self.mapped[at as usize / PAGE];
            match pieces.last_mut() {
                Some(last) if last.data == data => last.length += 1,
                _ => pieces.push(Piece { length: 1, data }),
            }
        }
        pieces.truncate(most as usize);
        pieces
    }
}

impl Export for Shown {
    fn size(&self) -> u64 {
        self.size
    }

    fn name(&self) -> &str {
        "memory"
    }

    fn preferred(&self) -> u32 {
        PAGE as u32
    }

    fn begin(&self, job: Job, done: Done) {
        let mut inner = self.desk.value().0.borrow_mut();
        if let Some(held) = &mut inner.held {
            held.push((job, done));
            return;
        }
        let answer = inner.carry_out(job);
        drop(inner);
        done.answer(answer);
    }
}
