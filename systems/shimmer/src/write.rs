//! Writes: buffers are filled, sealed, and placed in zones when they are written.
//!
//! Invariant: blocks that a successful call was promised have room in zones, unless zones fail.

use crate::Core;
use crate::choose::{Choice, Want, choose};
use crate::command::{Command, Data, Demote, FileId, Refusal};
use crate::config::{BLOCK, Placement};
use crate::file::{Chunk, File, Filling};
use crate::flight::Flight;
use crate::record::Record;
use crate::zones::State;
use std::sync::Arc;

/// Result of an attempt to write a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    Yes,
    Waits,
    Full,
}

impl Core {
    /// Writes bytes to a file at `offset`, in memory; returns the number of bytes accepted, at
    /// least one if there are any.
    ///
    /// # Errors
    /// [`Refusal::Busy`] and [`Refusal::Tail`] require a step of the caller and a repetition;
    /// [`Refusal::Demote`] if this is neither an append nor within the buffer.
    //= dissertation 5.4.2
    pub fn write(&mut self, id: FileId, offset: u64, data: &[u8]) -> Result<usize, Refusal> {
        if data.is_empty() {
            return self.files.get(&id).map(|_| 0).ok_or(Refusal::Missing);
        }
        if self.log.failed {
            return Err(Refusal::Failed(crate::Failure));
        }
        self.ready_to_fill(id, offset)?;
        let extent = self.options.extent.0;
        let file = self.files.get(&id).expect("it is filled");
        let filling = file.filling.as_ref().expect("it was made ready");
        let at = (offset - filling.offset) as usize;
        let room = (extent - filling.offset % extent) as usize;
        let take = data.len().min(room - at);
        self.admit(filling, at + take)?;
        self.uses += 1;
        self.change(id, |file, uses| {
            let filling = file.filling.as_mut().expect("it was made ready");
            let end = filling.bytes.len().max(at + take);
            filling.bytes.resize(end, 0);
            filling.bytes[at..at + take].copy_from_slice(&data[..take]);
            filling.clean = filling.clean.min(at);
            filling.used = uses;
            file.size = filling.end();
        });
        if at + take == room {
            self.seal(id);
            self.pump();
        }
        Ok(take)
    }

    /// Changes a file and updates the count of promised blocks.
    pub(crate) fn change(&mut self, id: FileId, change: impl FnOnce(&mut File, u64)) {
        let file = self.files.get_mut(&id).expect("the caller found it");
        let before = file.owed();
        change(file, self.uses);
        self.promised = self.promised + file.owed() - before;
    }

    /// Whether the zones have room for the buffer to grow to `len` bytes.
    fn admit(&self, filling: &Filling, len: usize) -> Result<(), Refusal> {
        let blocks = |bytes: usize| (bytes as u64).div_ceil(BLOCK);
        let owed = if filling.is_dirty() {
            blocks(filling.bytes.len())
        } else {
            0
        };
        let more = blocks(len.max(filling.bytes.len())) - owed;
        if more == 0 {
            return Ok(());
        }
        let count = || {
            self.zones
                .room(self.options.relocate, self.reserve().into())
        };
        let room = self.room.get().unwrap_or_else(count);
        self.room.set(Some(room));
        let left = room.saturating_sub(self.promised);
        if more <= left {
            return Ok(());
        }
        // Blocks being written occupy room in a zone and are still promised, so they may be counted
        // twice until their command completes.
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        Err(Refusal::NoSpace(Box::new(self.zones.refuse(
            more,
            left,
            self.promised,
        ))))
    }

    /// Number of free zones reserved for relocation.
    pub(crate) fn reserve(&self) -> u32 {
        u32::from(self.options.relocate)
    }

    /// The reason why a write at `offset` cannot stay in zones; `None` if it can.
    #[must_use]
    pub fn demotes(&self, id: FileId, offset: u64) -> Option<Demote> {
        let file = self.files.get(&id)?;
        let first = file.filling.as_ref().map_or(file.size, |it| it.offset);
        match () {
            () if offset > file.size => Some(Demote::Hole),
            () if offset < first => Some(Demote::Past),
            () => None,
        }
    }

    /// Makes sure that the file has a buffer that `offset` falls into.
    fn ready_to_fill(&mut self, id: FileId, offset: u64) -> Result<(), Refusal> {
        let file = self.files.get(&id).ok_or(Refusal::Missing)?;
        if let Some(why) = self.demotes(id, offset) {
            return Err(Refusal::Demote(why));
        }
        if file.filling.is_some() {
            return Ok(());
        }
        if self.sealed >= self.options.buffers {
            self.pump();
            return Err(self.busy_or_full());
        }
        let tail = match file.size % BLOCK {
            0 => None,
            _ => Some(file.tail_in_memory().ok_or_else(|| {
                Refusal::Tail(file.tail_in_zone().expect("the zones have its beginning"))
            })?),
        };
        let bytes = tail.map_or_else(Vec::new, |data| data.to_vec());
        self.fill(id, &bytes);
        Ok(())
    }

    /// The refusal of a call that must wait for buffers to be written.
    pub(crate) fn busy_or_full(&self) -> Refusal {
        if self.is_busy() {
            return Refusal::Busy;
        }
        let left = self
            .zones
            .room(self.options.relocate, self.reserve().into());
        Refusal::NoSpace(Box::new(self.zones.refuse(self.promised, left, 0)))
    }

    /// Provides the bytes that [`Refusal::Tail`] requested. They are ignored if the file has
    /// changed since.
    pub fn load_tail(&mut self, id: FileId, bytes: &[u8]) {
        let wanted = |file: &File| {
            file.filling.is_none()
                && file.sealed.is_empty()
                && file.size % BLOCK == bytes.len() as u64
        };
        if self.files.get(&id).is_some_and(wanted) {
            self.fill(id, bytes);
        }
    }

    /// Gives a file a buffer that begins with its partial last block.
    fn fill(&mut self, id: FileId, tail: &[u8]) {
        if self.filled.len() >= self.options.buffers as usize {
            let oldest = |id: &&FileId| {
                self.files[*id]
                    .filling
                    .as_ref()
                    .map_or(0, |filling| filling.used)
            };
            let oldest = self.filled.iter().min_by_key(oldest).copied();
            if let Some(oldest) = oldest {
                self.seal(oldest);
                self.drop_buffer(oldest);
            }
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(tail);
        self.filled.insert(id);
        self.change(id, |file, used| {
            file.filling = Some(Filling {
                offset: file.size - tail.len() as u64,
                clean: tail.len(),
                bytes,
                used,
            });
        });
    }

    /// Drops the buffer of a file, whose bytes must all be sealed or in zones.
    pub(crate) fn drop_buffer(&mut self, id: FileId) {
        self.filled.remove(&id);
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        if let Some(filling) = file.filling.take() {
            assert!(!filling.is_dirty(), "what is dropped is elsewhere");
            self.spare.push(filling.bytes);
            self.spare.truncate(self.options.buffers as usize);
        }
    }

    /// Seals the buffer of a file for writing. The bytes of a partial last block are sealed, too,
    /// and stay in the buffer: they are written again with the data that follow.
    pub(crate) fn seal(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        let Some(filling) = file.filling.take_if(|filling| filling.is_dirty()) else {
            return;
        };
        let Filling {
            offset,
            mut bytes,
            used,
            ..
        } = filling;
        let len = bytes.len();
        let tail = len % BLOCK as usize;
        if tail > 0 {
            file.filling = Some(Filling {
                offset: offset + (len - tail) as u64,
                bytes: bytes[len - tail..].to_vec(),
                clean: tail,
                used,
            });
            bytes.resize(len.next_multiple_of(BLOCK as usize), 0);
        } else {
            self.filled.remove(&id);
        }
        self.chunks += 1;
        self.sealed += 1;
        file.sealed.push_back(Chunk {
            number: self.chunks,
            offset,
            len: len as u64,
            data: Arc::new(bytes),
            done: 0,
        });
        if file.sealed.len() == 1 {
            self.waiting.push_back(id);
        }
    }

    /// Starts to write waiting chunks, as far as zones allow.
    pub(crate) fn start_chunks(&mut self) {
        let mut full = false;
        for _ in 0..self.waiting.len() {
            let id = self.waiting.pop_front().expect("they were counted");
            let waits = |file: &File| !file.writing && !file.sealed.is_empty();
            if !self.files.get(&id).is_some_and(waits) {
                continue;
            }
            let started = self.start_chunk(id);
            full |= started == Started::Full;
            if started != Started::Yes {
                self.waiting.push_back(id);
            }
        }
        self.starved = full;
        self.look |= full;
    }

    //= dissertation 5.3.2
    fn start_chunk(&mut self, id: FileId) -> Started {
        let file = &self.files[&id];
        let chunk = file.sealed.front().expect("it waits");
        let (done, left) = (chunk.done, chunk.blocks() - chunk.done);
        let buffer = Arc::clone(&chunk.data);
        let placement = file.placement;
        let zone = match self.choose_zone(placement, false) {
            Ok(zone) => zone,
            Err(started) => return started,
        };
        let blocks = left.min(self.zones.get(zone).room());
        let at = self.zones.take(zone, blocks);
        let data = Data {
            buffer,
            from: (u64::from(done) * BLOCK) as usize,
            len: (u64::from(blocks) * BLOCK) as usize,
        };
        self.files.get_mut(&id).expect("it waits").writing = true;
        let start = u64::from(at) * BLOCK;
        let flight = Flight::Chunk {
            file: id,
            zone,
            at,
            blocks,
        };
        self.issue(
            flight,
            Command::Write {
                zone,
                at: start,
                data,
            },
        );
        Started::Yes
    }

    /// An open zone with room for data of `placement`; else the reason to wait.
    fn choose_zone(&mut self, placement: Placement, moving: bool) -> Result<u32, Started> {
        let reserve = self.reserve();
        let room = self.zones.room(false, reserve.into());
        let slack = room.saturating_sub(self.promised);
        let want = Want {
            placement,
            moving,
            reserve,
            slack,
        };
        match choose(&self.zones, self.options.policy, want) {
            Choice::Append(zone) => {
                self.zones.set(zone, State::Open);
                Ok(zone)
            }
            Choice::Take(zone) => {
                self.zones.set(zone, State::Open);
                let row = self.zones.get_mut(zone);
                (row.placement, row.kept) = (Some(placement), moving);
                self.note(&Record::Take { zone, placement }, None);
                Ok(zone)
            }
            Choice::Close(zone) => {
                self.manage(zone, State::Closed);
                Err(Started::Waits)
            }
            Choice::Finish(zone) => {
                self.manage(zone, State::Full);
                Err(Started::Waits)
            }
            Choice::Wait => Err(Started::Waits),
            Choice::Full => Err(Started::Full),
        }
    }

    /// An open zone to relocate data of `placement` to, if need be the reserved one. `Err(false)`
    /// if there is none for now, `Err(true)` if there is none at all.
    pub(crate) fn choose_target(&mut self, placement: Placement) -> Result<u32, bool> {
        self.choose_zone(placement, true)
            .map_err(|why| why == Started::Full)
    }
}
