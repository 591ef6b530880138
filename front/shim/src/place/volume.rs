//! A program's view of the volume: appends go to the ring, reads to the zones, and all else to the
//! daemon.
//!
//! Invariants: a write is in the ring or with the daemon before its call returns, so that later
//! requests of any process find it. Bytes read from a zone are valid only if the generation of the
//! zones is unchanged after the read.

use super::fault::Fault;
use super::files::{File, Map};
use super::link::Link;
use super::marks::Mark;
use super::zones::Readers;
use crate::share;
use crate::share::memory::{Lease, RECORD_MAX};
use crate::share::message::{Answer, DATA_MAX, END, HERE, NO_LEASE, Op, Request};
use crate::sys::{self, Errno};
use core::ffi::c_int;
use shimmer::{BLOCK, FileId, Piece, Placement};
use std::ffi::CStr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Room that a write by the ring may take in the zones beyond its bytes: the block before it, and
/// the rest of its last block.
const ROUNDING: i64 = 2 * BLOCK as i64;

/// Number of waits for a full ring, of at most 20 ms each, before a request checks whether the
/// daemon lives.
const WAITS: u32 = 25;

pub(super) struct Volume {
    pub(super) link: Link,
    pub(super) zones: Readers,
}

/// Target of a write.
#[derive(Clone, Copy)]
pub(super) enum Where {
    /// An explicit offset in bytes.
    At(u64),
    /// The end of the file.
    End,
    /// The kernel's offset of a descriptor, which the write moves.
    Here(c_int),
}

impl Where {
    /// Target of the next part of a write whose last part ended at `end`.
    pub(super) fn behind(self, end: u64) -> Self {
        match self {
            Self::At(_) => Self::At(end),
            Self::End | Self::Here(_) => self,
        }
    }
}

/// The pieces of a whole file in zones, which are not reset until it is unpinned.
pub(super) struct Pinned {
    pub(super) pieces: Vec<Piece>,
    pin: u64,
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = Piece> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(24).map(move |piece| Piece {
        zone: word(&piece[..8]) as u32,
        at: word(&piece[8..16]),
        len: word(&piece[16..]),
    })
}

impl Volume {
    /// Connects to the daemon of a folder of zones.
    pub(super) fn open(folder: &CStr) -> Result<Self, Errno> {
        let fd = sys::open(folder, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let name = share::name(fd);
        sys::close(fd);
        let link = Link::new(&name?, 0)?;
        let zones = Readers::new(folder);
        Ok(Self { link, zones })
    }

    /// A volume for a forked child, with a connection of its own.
    pub(super) fn heir(&self) -> Result<Self, Errno> {
        let (link, zones) = (self.link.heir()?, self.zones.heir());
        Ok(Self { link, zones })
    }

    /// Number that tells this volume from others.
    pub(super) fn number(&self) -> u64 {
        self.link.number
    }

    fn ask(&self, op: Op, id: FileId) -> Result<Answer, Fault> {
        self.link.ask(Request::new(op, id.0))
    }

    fn ask_with(&self, op: Op, id: FileId, (a, b): (u64, u64)) -> Result<Answer, Fault> {
        let request = Request::new(op, id.0);
        self.link.ask(Request { a, b, ..request })
    }

    /// Creates a file, open once, at a path; `stands` is a descriptor of its stand-in.
    pub(super) fn create(
        &self,
        path: &[u8],
        placement: Placement,
        stands: c_int,
    ) -> Result<FileId, Fault> {
        let request = Request {
            a: placement.stream.into(),
            b: placement.group.into(),
            data: path,
            ..Request::new(Op::Create, 0)
        };
        let answer = self.link.ask_along(request, Some(stands))?;
        Ok(FileId(answer.words[0]))
    }

    /// Requests a new number for a file whose number the log does not know.
    pub(super) fn renew(&self, old: FileId, path: &[u8], stands: c_int) -> Result<FileId, Fault> {
        let request = Request {
            data: path,
            ..Request::new(Op::Renew, old.0)
        };
        let answer = self.link.ask_along(request, Some(stands))?;
        Ok(FileId(answer.words[0]))
    }

    /// Sets the stream and group of later writes to a file.
    pub(super) fn belongs(&self, id: FileId, placement: Placement) -> Result<(), Fault> {
        let Placement { stream, group } = placement;
        self.ask_with(Op::Place, id, (stream.into(), group.into()))
            .map(drop)
    }

    pub(super) fn opened(&self, id: FileId) -> Result<(), Fault> {
        self.ask(Op::Open, id).map(drop)
    }

    pub(super) fn closed(&self, id: FileId) {
        let _ = self.ask(Op::Close, id);
    }

    pub(super) fn size(&'static self, file: &File) -> Result<u64, Fault> {
        match self.size_at_once(file) {
            Some(size) => Ok(size),
            None => Ok(self.ask(Op::Size, file.id)?.words[0]),
        }
    }

    /// Length in bytes of a file that only this process writes, by its lease; never waits.
    pub(super) fn size_at_once(&'static self, file: &File) -> Option<u64> {
        let lease = file.lease(self)?;
        let size = file.size.load(Ordering::Acquire);
        self.link.memory.holds(lease).then_some(size)
    }

    /// Writes `data`; returns the offset behind the last byte, and the number of bytes written.
    //= dissertation 5.3.2
    pub(super) fn write(
        &'static self,
        file: &File,
        mut at: Where,
        data: &[u8],
    ) -> Result<(u64, usize), Fault> {
        let mut done = 0;
        let mut end = None;
        while done < data.len() {
            let part = &data[done..data.len().min(done + RECORD_MAX)];
            file.writes();
            let written = match self.by_ring(file, at, part) {
                Ok(Some(end)) => Ok((end, part.len())),
                Ok(None) => self.by_message(file, at, part),
                Err(fault) => Err(fault),
            };
            match written {
                Ok((to, count)) => {
                    done += count;
                    end = Some(to);
                    at = at.behind(to);
                    if count == 0 {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(fault) => return Err(fault),
            }
        }
        let end = match (end, at) {
            (Some(end), _) | (None, Where::At(end)) => end,
            (None, Where::Here(fd)) => sys::seek(fd, 0, libc::SEEK_CUR)?,
            (None, Where::End) => self.size(file)?,
        };
        Ok((end, done))
    }

    /// Writes by the ring and returns the new end. Only possible for appends, with a lease, and
    /// while the credit guarantees room in the zones; else `None`.
    #[inline]
    fn by_ring(
        &'static self,
        file: &File,
        place: Where,
        data: &[u8],
    ) -> Result<Option<u64>, Fault> {
        let memory = &self.link.memory;
        let cost = data.len() as i64 + ROUNDING;
        let (mut busy, mut waits) = (0, 0);
        loop {
            let Some(lease) = file.lease(self) else {
                if file.waits() || !self.ask_for_lease(file)? {
                    return Ok(None);
                }
                continue;
            };
            match memory.enter(lease) {
                Lease::Taken => {}
                Lease::Gone => {
                    file.drop_lease(lease);
                    continue;
                }
                Lease::Busy => {
                    busy += 1;
                    if busy % 64 == 0 {
                        sys::yields();
                    }
                    core::hint::spin_loop();
                    continue;
                }
            }
            let size = file.size.load(Ordering::Relaxed);
            let at = match place {
                Where::At(at) => at,
                Where::End => size,
                // Every process that shares this offset needs the lease for a write at it.
                Where::Here(fd) => sys::seek(fd, 0, libc::SEEK_CUR).unwrap_or(END),
            };
            if at != size || !memory.spend(cost) {
                memory.leave(lease);
                return Ok(None);
            }
            let end = at + data.len() as u64;
            if memory.put(file.id.0, at, data) {
                file.size.store(end, Ordering::Release);
                if let Where::Here(fd) = place {
                    let _ = sys::seek(fd, end, libc::SEEK_SET);
                }
                let kept = memory.leave(lease);
                return kept.then_some(Some(end)).ok_or_else(|| self.link.lose());
            }
            memory.spend(-cost);
            memory.leave(lease);
            waits += 1;
            memory.wait_for_room();
            if waits % WAITS == 0 {
                self.ask(Op::Size, file.id)?;
            }
        }
    }

    #[cold]
    fn ask_for_lease(&'static self, file: &File) -> Result<bool, Fault> {
        let _one = file.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if file.lease(self).is_some() {
            return Ok(true);
        }
        let [size, lease, _] = self.ask(Op::Lease, file.id)?.words;
        if lease == NO_LEASE {
            file.refused();
            return Ok(false);
        }
        file.take_lease(self, lease, size);
        Ok(true)
    }

    #[cold]
    fn by_message(&self, file: &File, place: Where, data: &[u8]) -> Result<(u64, usize), Fault> {
        let (a, along) = match place {
            Where::At(at) => (at, None),
            Where::End => (END, None),
            Where::Here(fd) => (HERE, Some(fd)),
        };
        let request = Request {
            a,
            data: &data[..data.len().min(DATA_MAX)],
            ..Request::new(Op::Write, file.id.0)
        };
        let answer = self.link.ask_along(request, along)?;
        Ok((answer.words[0], answer.words[1] as usize))
    }

    /// Moves an offset that other processes may share, while none of them writes; returns the new
    /// offset.
    #[cold]
    pub(super) fn seek(
        &self,
        file: &File,
        fd: c_int,
        (by, whence): (i64, c_int),
    ) -> Result<u64, Fault> {
        let request = Request {
            a: by as u64,
            b: whence as u64,
            ..Request::new(Op::Seek, file.id.0)
        };
        Ok(self.link.ask_along(request, Some(fd))?.words[0])
    }

    /// Reads from `offset`; returns the number of bytes read.
    pub(super) fn read(
        &'static self,
        file: &File,
        offset: u64,
        to: &mut [u8],
    ) -> Result<usize, Fault> {
        let mut done = 0;
        while done < to.len() {
            let at = offset + done as u64;
            let rest = &mut to[done..];
            if let Some(read) = self.read_zones(file, at, rest)? {
                done += read;
                continue;
            }
            let asked = rest.len().min(DATA_MAX);
            let answer = self.ask_with(Op::Read, file.id, (at, asked as u64))?;
            let read = answer.data.len().min(asked);
            rest[..read].copy_from_slice(&answer.data[..read]);
            done += read;
            if read < asked {
                break;
            }
            let [_, stored, _] = answer.words;
            if stored >= at + read as u64 {
                self.look(file)?;
            }
        }
        Ok(done)
    }

    /// Reads bytes that the map locates in zones; `None` if it does not, or is outdated.
    fn read_zones(
        &'static self,
        file: &File,
        offset: u64,
        to: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let map = file.map.read().unwrap_or_else(PoisonError::into_inner);
        let here = core::ptr::from_ref(self).addr();
        let generation = self.link.memory.generation();
        if map.of != here || map.generation != generation || offset >= map.stored {
            return Ok(None);
        }
        let len = (to.len() as u64).min(map.stored - offset) as usize;
        let read = self.gather(&map, offset, &mut to[..len]);
        if self.link.memory.generation() != generation {
            return Ok(None);
        }
        read?;
        Ok(Some(len))
    }

    fn gather(&self, map: &Map, mut offset: u64, mut to: &mut [u8]) -> Result<(), Errno> {
        let first = map.pieces.partition_point(|(start, _)| *start <= offset);
        for (start, piece) in &map.pieces[first.saturating_sub(1)..] {
            if to.is_empty() {
                break;
            }
            let skip = offset - start;
            let len = (piece.len.saturating_sub(skip)).min(to.len() as u64) as usize;
            let (here, rest) = to.split_at_mut(len);
            sys::pread_all(self.zones.get(piece.zone)?, here, piece.at + skip)?;
            offset += len as u64;
            to = rest;
        }
        if to.is_empty() {
            Ok(())
        } else {
            Err(libc::EIO)
        }
    }

    /// Fetches the map of a file's pieces from the daemon.
    #[cold]
    fn look(&'static self, file: &File) -> Result<(), Fault> {
        let mut map = Map {
            of: core::ptr::from_ref(self).addr(),
            generation: self.link.memory.generation(),
            ..Map::default()
        };
        let mut at = 0;
        loop {
            // Pieces may have been merged since the last request, so the map is continued by byte
            // offset.
            let answer = self.ask_with(Op::Map, file.id, (at, 0))?;
            for piece in decode(&answer.data) {
                map.pieces.push((at, piece));
                at += piece.len;
            }
            let [_, stored, _] = answer.words;
            if at >= stored || answer.data.is_empty() {
                map.stored = stored.min(at);
                break;
            }
        }
        *file.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }

    /// Writes a file back and pins its pieces until [`Volume::unpin`].
    pub(super) fn pin(&self, file: &File) -> Result<Pinned, Fault> {
        let answer = self.ask(Op::Pin, file.id)?;
        let [pin, count, _] = answer.words;
        let mut pieces: Vec<_> = decode(&answer.data).collect();
        while (pieces.len() as u64) < count {
            let asked = self.ask_with(Op::Pinned, file.id, (pin, pieces.len() as u64));
            let more = asked.inspect_err(|_| self.unpin_number(pin))?;
            if more.data.is_empty() {
                break;
            }
            pieces.extend(decode(&more.data));
        }
        Ok(Pinned { pieces, pin })
    }

    fn unpin_number(&self, pin: u64) {
        let _ = self.ask_with(Op::Unpin, FileId(0), (pin, 0));
    }

    /// Releases the pin of a file.
    pub(super) fn unpin(&self, pinned: &Pinned) {
        self.unpin_number(pinned.pin);
    }

    /// Writes a file back to the zones, so that none of it is in memory alone.
    pub(super) fn drain(&self, file: &File) -> Result<(), Fault> {
        self.unpin(&self.pin(file)?);
        Ok(())
    }

    /// Syncs a file. Its stand-in, if given, is resized to the file's length.
    //= dissertation 5.4.3
    pub(super) fn sync(&self, file: &File, stands: Option<c_int>) -> Result<(), Fault> {
        let written = file.written();
        let request = Request::new(Op::Sync, file.id.0);
        self.link.ask_along(request, stands)?;
        file.forced(written);
        Ok(())
    }

    /// Resizes the stand-in of a file to the file's length.
    pub(super) fn stand(&self, file: &File, stands: c_int) -> Result<(), Fault> {
        let request = Request::new(Op::Stand, file.id.0);
        self.link.ask_along(request, Some(stands)).map(drop)
    }

    pub(super) fn sync_all(&self) -> Result<(), Fault> {
        self.ask(Op::SyncAll, FileId(0)).map(drop)
    }

    pub(super) fn truncate(&self, id: FileId, size: u64) -> Result<(), Fault> {
        self.ask_with(Op::Truncate, id, (size, 0)).map(drop)
    }

    /// Reports that the last name of a file was removed from `folder`.
    pub(super) fn unlinked(&self, id: FileId, folder: &[u8]) {
        let request = Request::new(Op::Unlinked, id.0);
        let _ = self.link.ask(Request {
            data: folder,
            ..request
        });
    }

    /// Reports the new path of a file.
    pub(super) fn renamed(&self, id: FileId, to: &[u8]) {
        let request = Request::new(Op::Renamed, id.0);
        let _ = self.link.ask(Request {
            data: to,
            ..request
        });
    }

    /// Moves a file to its stand-in `fd`, which is an ordinary file once its mark is removed. The
    /// daemon keeps other clients from the file meanwhile.
    pub(super) fn demote(&'static self, file: &File, fd: i32, mark: &Mark) -> Result<(), Fault> {
        let begins = Request::new(Op::MoveBegin, file.id.0);
        self.link.ask_along(begins, Some(fd))?;
        let moved = self.copy_out(file, fd, mark);
        self.ask_with(Op::MoveEnd, file.id, (moved.is_ok().into(), 0))?;
        if moved.is_err() {
            let _ = self.stand(file, fd);
        }
        moved
    }

    fn copy_out(&'static self, file: &File, fd: i32, mark: &Mark) -> Result<(), Fault> {
        let copied = self.copy_bytes(file, fd);
        if let Err(fault) = copied.and_then(|()| Ok(mark.remove(fd)?)) {
            // Frees the space that the failed copy took; the file system may be full of it.
            let _ = sys::truncate(fd, 0);
            return Err(fault);
        }
        Ok(sys::force(fd)?)
    }

    fn copy_bytes(&'static self, file: &File, fd: i32) -> Result<(), Fault> {
        let size = self.ask(Op::Size, file.id)?.words[0];
        let mut room = vec![0; 1 << 20];
        let mut at = 0;
        while at < size {
            let read = self.read(file, at, &mut room)?;
            if read == 0 {
                return Err(Fault::Errno(libc::EIO));
            }
            sys::pwrite_all(fd, &room[..read], at)?;
            at += read as u64;
        }
        sys::truncate(fd, size)?;
        Ok(sys::force(fd)?)
    }
}
