//! A connection to the daemon: its requests are served one after another.

use super::clients::Client;
use super::sharing::Sharing;
use super::stands;
use super::volume::{Fault, pieces};
use crate::share::message::{
    Answer, DATA_MAX, DEMOTE, END, GONE, HERE, MESSAGE_MAX, NO_LEASE, Op, Request,
};
use crate::sys;
use core::ffi::c_int;
use shimmer::{FileId, Piece, Placement};
use std::sync::Arc;

/// Maximum number of pins of one client.
const PINS_MAX: usize = 4096;
/// Maximum number of connections of one client.
const SOCKETS_MAX: usize = 256;
/// Encoded size of a [`Piece`] in an answer, in bytes.
const PIECE: usize = 24;

type Done = Result<Answer, Fault>;

/// The peer of a connection.
pub(super) enum Who {
    /// A peer that has not yet sent `Hello` or `Keep`.
    Nobody,
    /// A peer that only keeps the daemon from ending.
    Keeper,
    Client(Arc<Client>),
}

pub(super) struct Session {
    sharing: &'static Sharing,
    socket: c_int,
    who: Who,
}

fn bad() -> Fault {
    Fault::Errno(libc::EPROTO)
}

/// A random number that other processes cannot guess.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the call writes to the local `bytes`, which has this length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), 8, 0) };
    assert_eq!(got, 8, "the system has eight random bytes");
    u64::from_ne_bytes(bytes)
}

fn encode(pieces: &[Piece]) -> Vec<u8> {
    let most = DATA_MAX / PIECE;
    let words = |piece: &Piece| [u64::from(piece.zone), piece.at, piece.len];
    let pieces = pieces.iter().take(most).flat_map(words);
    pieces.flat_map(u64::to_le_bytes).collect()
}

const fn placement(request: &Request<'_>) -> Placement {
    Placement {
        stream: request.a as u32,
        group: request.b as u32,
    }
}

impl Session {
    pub(super) fn new(sharing: &'static Sharing, socket: c_int) -> Self {
        let who = Who::Nobody;
        Self {
            sharing,
            socket,
            who,
        }
    }

    /// Serves requests until the peer disconnects, then releases what its client holds if this was
    /// the client's last connection.
    pub(super) fn run(mut self, began: impl FnOnce(&Arc<Client>) -> bool) {
        let mut room = vec![0; MESSAGE_MAX];
        let mut began = Some(began);
        while let Ok((len, fd)) = sys::receive(self.socket, &mut room) {
            let request = Request::decode(&room[..len]).filter(|_| len > 0);
            let sent = request.map(|request| match self.who {
                Who::Nobody => {
                    let _ = sys::set_patience(self.socket, 0);
                    self.hello(request, &mut began)
                }
                _ => self.answer(request, fd).send(self.socket, None),
            });
            fd.inspect(|fd| sys::close(*fd));
            if !matches!(sent, Some(Ok(()))) {
                break;
            }
        }
        if let Who::Client(client) = &self.who {
            let last = {
                let mut held = client.held();
                held.sockets.retain(|socket| *socket != self.socket);
                held.sockets.is_empty()
            };
            if last {
                self.sharing.gone(client);
            }
        }
        sys::close(self.socket);
    }

    fn hello(
        &mut self,
        request: Request<'_>,
        began: &mut Option<impl FnOnce(&Arc<Client>) -> bool>,
    ) -> Result<(), sys::Errno> {
        if request.op == Op::Keep {
            self.who = Who::Keeper;
            return Answer::default().send(self.socket, None);
        }
        if request.op != Op::Hello {
            return Err(libc::EPROTO);
        }
        let (client, memory) = match self.sharing.volume.clients.get(request.a) {
            Some(client) => (client, None),
            None if request.a == 0 => {
                let (client, memory) = Client::new(random() | 1, random())?;
                (Arc::new(client), Some(memory))
            }
            None => return Err(libc::EPROTO),
        };
        {
            let mut held = client.held();
            if client.is_gone() || held.sockets.len() >= SOCKETS_MAX {
                return Err(libc::EPROTO);
            }
            held.sockets.push(self.socket);
        }
        self.who = Who::Client(Arc::clone(&client));
        if let Some(memory) = memory {
            let sent = self.welcome(&client, request.b, began);
            let answer = self.greeting(&client);
            let sent = sent.and_then(|()| answer.send(self.socket, Some(memory)));
            sys::close(memory);
            return sent;
        }
        self.greeting(&client).send(self.socket, None)
    }

    fn greeting(&self, client: &Client) -> Answer {
        let volume = &self.sharing.volume;
        let open = u64::from(volume.zones.limits.open);
        Answer::of([client.token, volume.number, open])
    }

    /// Registers a new client and starts the thread that drains its ring (`began`).
    fn welcome(
        &self,
        client: &Arc<Client>,
        parent: u64,
        began: &mut Option<impl FnOnce(&Arc<Client>) -> bool>,
    ) -> Result<(), sys::Errno> {
        if !self.sharing.volume.clients.insert(Arc::clone(client)) {
            return Err(libc::EMFILE);
        }
        self.inherit(client, parent);
        // Without this thread the ring would never be drained.
        let emptied = began.take().is_some_and(|began| began(client));
        if emptied { Ok(()) } else { Err(libc::EAGAIN) }
    }

    /// Copies the opens and pins of the client `parent` to its forked child.
    fn inherit(&self, child: &Client, parent: u64) {
        let Some(parent) = self.sharing.volume.clients.get(parent) else {
            return;
        };
        let opens = parent.held().opens.clone();
        for (id, count) in opens {
            let opened = (0..count).filter(|_| self.sharing.volume.opened(id).is_ok());
            let count = opened.count() as u32;
            if count > 0 {
                child.held().opens.insert(id, count);
            }
        }
        // The lock on `held` keeps the parent from releasing its pins meanwhile.
        let held = parent.held();
        for parts in held.pins.values() {
            self.sharing.volume.retain(parts);
        }
        let mut own = child.held();
        own.pins.clone_from(&held.pins);
        own.next_pin = held.next_pin;
    }

    fn answer(&self, request: Request<'_>, along: Option<c_int>) -> Answer {
        let Who::Client(client) = &self.who else {
            return Answer {
                status: libc::EPROTO as u64,
                ..Answer::default()
            };
        };
        match self.serve(client, request, along) {
            Ok(answer) => answer,
            Err(Fault::Demote) => Answer {
                status: DEMOTE,
                ..Answer::default()
            },
            Err(Fault::Gone) => Answer {
                status: GONE,
                ..Answer::default()
            },
            Err(Fault::Errno(errno)) => {
                let why = match errno {
                    libc::ENOSPC => self.sharing.volume.why_full(),
                    _ => String::new(),
                };
                Answer {
                    status: errno as u64,
                    data: why.into_bytes(),
                    ..Answer::default()
                }
            }
        }
    }

    fn serve(&self, client: &Arc<Client>, request: Request<'_>, along: Option<c_int>) -> Done {
        let id = FileId(request.file);
        let sharing = self.sharing;
        match request.op {
            Op::Hello | Op::Keep => Err(bad()),
            Op::Create | Op::Open | Op::Find | Op::List => self.names(client, request, along),
            Op::Close => {
                sharing.closed(id, client);
                Ok(Answer::default())
            }
            Op::SyncAll => {
                for client in sharing.volume.clients.every() {
                    sharing.drain(&client);
                }
                sharing.volume.sync_all()?;
                Ok(Answer::default())
            }
            Op::Unpin => {
                let parts = client.held().pins.remove(&request.a);
                sharing.volume.release(&parts.ok_or_else(bad)?);
                Ok(Answer::default())
            }
            Op::Pinned => {
                let held = client.held();
                let parts = held.pins.get(&request.a).ok_or_else(bad)?;
                let pieces = pieces(parts);
                let from = pieces.get(request.b as usize..).unwrap_or_default();
                Ok(Answer {
                    data: encode(from),
                    ..Answer::default()
                })
            }
            Op::Unlinked => {
                sharing.volume.unlinked(id, request.data);
                Ok(Answer::default())
            }
            Op::Renew => {
                let tag = along.map_or_else(Vec::new, stands::tag);
                let id = sharing.renew(id, (request.data, &tag))?;
                Ok(Answer::of([id.0, 0, 0]))
            }
            Op::Renamed => {
                sharing.volume.renamed(id, request.data);
                Ok(Answer::default())
            }
            _ => self.with_file(client, id, (request, along)),
        }
    }

    fn names(&self, client: &Arc<Client>, request: Request<'_>, along: Option<c_int>) -> Done {
        let volume = &self.sharing.volume;
        match request.op {
            Op::Create => {
                let tag = along.map_or_else(Vec::new, stands::tag);
                let id = volume.create(request.data, placement(&request), &tag)?;
                client.held().opens.insert(id, 1);
                Ok(Answer::of([id.0, 0, 0]))
            }
            Op::Open => {
                let id = FileId(request.file);
                self.sharing.settle(id, client)?;
                volume.opened(id)?;
                *client.held().opens.entry(id).or_default() += 1;
                let status = volume.status(id).ok_or(Fault::Gone)?;
                Ok(Answer::of([status.size, 0, 0]))
            }
            Op::Find => {
                let id = volume.lock().core.lookup(request.data).ok_or(Fault::Gone)?;
                self.sharing.settle(id, client)?;
                let status = volume.status(id).ok_or(Fault::Gone)?;
                Ok(Answer::of([id.0, status.size, 0]))
            }
            _ => {
                let guard = volume.lock();
                let behind = guard
                    .core
                    .files()
                    .skip_while(|(path, _)| *path <= request.data);
                let mut data = Vec::new();
                for (path, _) in behind {
                    if data.len() + path.len() + 1 > DATA_MAX {
                        break;
                    }
                    data.extend_from_slice(path);
                    data.push(0);
                }
                Ok(Answer {
                    data,
                    ..Answer::default()
                })
            }
        }
    }

    fn with_file(
        &self,
        client: &Arc<Client>,
        id: FileId,
        (request, along): (Request<'_>, Option<c_int>),
    ) -> Done {
        let (sharing, volume) = (self.sharing, &self.sharing.volume);
        match request.op {
            Op::Lease => {
                let may = client.held().opens.contains_key(&id);
                let (size, lease) = sharing.lease(id, client)?;
                let lease = lease.filter(|_| may).unwrap_or(NO_LEASE);
                Ok(Answer::of([size, lease, 0]))
            }
            Op::Write => {
                let _alone = sharing.alone(id)?;
                let here = along.filter(|_| request.a == HERE);
                let offset = match (request.a, here) {
                    (END, _) => None,
                    (_, Some(fd)) => Some(sys::seek(fd, 0, libc::SEEK_CUR)?),
                    (at, None) => Some(at),
                };
                let (end, done) = volume.write(id, offset, request.data)?;
                if let Some(fd) = here {
                    sys::seek(fd, end, libc::SEEK_SET)?;
                }
                sharing.fill_purse(client);
                Ok(Answer::of([end, done as u64, 0]))
            }
            Op::Seek => self.seek(id, along.ok_or_else(bad)?, (request.a as i64, request.b)),
            Op::Truncate => {
                sharing.truncate(id, request.a)?;
                Ok(Answer::default())
            }
            Op::MoveBegin => {
                let stand = along.ok_or_else(bad)?;
                sharing.move_begins(id, client, stand)?;
                Ok(Answer::default())
            }
            Op::MoveEnd => {
                sharing.move_ends(id, client, request.a != 0);
                Ok(Answer::default())
            }
            Op::Sync => {
                sharing.settle(id, client)?;
                sharing.report(id)?;
                volume.sync(id)?;
                sharing.report(id)?;
                self.stands(client, id, along)
            }
            Op::Stand => self.stands(client, id, along),
            _ => {
                sharing.settle(id, client)?;
                self.reads(client, id, request)
            }
        }
    }

    /// Moves a file offset that several processes share. Writes at that offset move it too, so no
    /// write may run between the reading and the setting of it.
    fn seek(&self, id: FileId, fd: c_int, (by, whence): (i64, u64)) -> Done {
        let _alone = self.sharing.alone(id)?;
        let from = match whence as c_int {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => sys::seek(fd, 0, libc::SEEK_CUR)?,
            libc::SEEK_END => self.sharing.volume.status(id).ok_or(Fault::Gone)?.size,
            _ => return Err(bad()),
        };
        let to = (from as i64).checked_add(by).filter(|to| *to >= 0);
        let to = to.ok_or(Fault::Errno(libc::EINVAL))? as u64;
        sys::seek(fd, to, libc::SEEK_SET)?;
        Ok(Answer::of([to, 0, 0]))
    }

    fn reads(&self, client: &Arc<Client>, id: FileId, request: Request<'_>) -> Done {
        let volume = &self.sharing.volume;
        match request.op {
            Op::Place => {
                volume.belongs(id, placement(&request));
                Ok(Answer::default())
            }
            Op::Read => {
                let mut data = vec![0; (request.b as usize).min(DATA_MAX)];
                let read = volume.read(id, request.a, &mut data)?;
                data.truncate(read);
                let status = volume.status(id).ok_or(Fault::Gone)?;
                Ok(Answer {
                    words: [status.size, status.stored, 0],
                    data,
                    ..Answer::default()
                })
            }
            Op::Map => {
                let (pieces, status) = volume.pieces(id, request.a)?;
                Ok(Answer {
                    words: [status.size, status.stored, 0],
                    data: encode(&pieces),
                    ..Answer::default()
                })
            }
            Op::Pin => self.pin(client, id),
            _ => {
                let status = volume.status(id).ok_or(Fault::Gone)?;
                Ok(Answer::of([status.size, status.stored, 0]))
            }
        }
    }

    /// Resizes the stand-in of a file, if its descriptor came along, to the file's length.
    fn stands(&self, client: &Client, id: FileId, along: Option<c_int>) -> Done {
        self.sharing.settle(id, client)?;
        if let Some(fd) = along {
            self.sharing.stands(id, fd)?;
        }
        let status = self.sharing.volume.status(id).ok_or(Fault::Gone)?;
        Ok(Answer::of([status.size, 0, 0]))
    }

    /// Pins the current contents of a file in the zones, so that they can be mapped.
    fn pin(&self, client: &Arc<Client>, id: FileId) -> Done {
        if client.held().pins.len() >= PINS_MAX {
            return Err(Fault::Errno(libc::ENOMEM));
        }
        let parts = self.sharing.volume.in_zones(id)?;
        let pieces = pieces(&parts);
        let mut held = client.held();
        held.next_pin += 1;
        let pin = held.next_pin;
        held.pins.insert(pin, parts);
        Ok(Answer {
            words: [pin, pieces.len() as u64, 0],
            data: encode(&pieces),
            ..Answer::default()
        })
    }
}
