//! Writes, copies and resets. The durable point of a write is the completion of its last program.

use super::config::{Place, Ppa};
use super::report::Noticed;
use super::rules::{ChunkEvent, ChunkState, RawStatus, transition};
use super::{Chunks, Firmware, META, RawError};
use crate::ledger::{Cause, ReadCause};
use nand::{BlockState, NandError, Payload, Program, Row, UNIT};
use sim::join_all;
use units::{Origin, SECTOR};

/// Metadata that a host stores beside a block.
pub type Meta = [u8; META];

/// Metadata of an unwritten block.
pub(super) const META_ZERO: Meta = [0; META];

/// Cause and origin of a block write, for the counters only: the drive does not act on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Cause that the ledger counts the block for.
    pub cause: Cause,
    /// Origin that the ledger counts the block for.
    pub origin: Origin,
}

/// Data of a write: one item for each address. An empty `payload` writes zeros.
#[derive(Clone, Copy)]
struct Data<'a> {
    payload: &'a [Payload],
    meta: &'a [Meta],
    marks: &'a [Mark],
}

/// Blocks of one chunk in a list of addresses.
struct Run {
    chunk: u32,
    /// First of the blocks, as an index in the chunk.
    start: u32,
    /// Positions in the list, in the order of the chunk.
    members: Vec<usize>,
}

/// The metadata at the start of `words` of a spare area.
pub(super) fn meta_of(words: impl Iterator<Item = u32>) -> Meta {
    let mut meta = META_ZERO;
    for (bytes, word) in meta.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    meta
}

impl Chunks {
    /// Writes the blocks at `at`, up to 64 of them: in each chunk in order from its write pointer
    /// on, and in multiples of the smallest write. Each block has contents, metadata and a mark;
    /// `payload` may be empty where contents are not kept.
    ///
    /// # Errors
    /// For an impossible list, address or order, before any block is written; for programs that
    /// fail. The write pointer of a chunk shows the blocks written before the failure.
    //= ocssd-2.0 3.1
    pub async fn write(
        &self,
        at: &[Ppa],
        payload: &[Payload],
        meta: &[Meta],
        marks: &[Mark],
    ) -> Result<(), RawError> {
        let inner = &self.inner;
        inner.core.count_command(false);
        let fits = (payload.is_empty() || payload.len() == at.len())
            && meta.len() == at.len()
            && marks.len() == at.len();
        if !fits {
            return Err(RawError::all(RawStatus::InvalidField, at.len()));
        }
        let runs = inner.runs(at)?;
        let limits = &inner.core.config.controller.limits;
        inner.pass(limits.write, at.len()).await;
        let data = Data {
            payload,
            meta,
            marks,
        };
        inner.write_runs(&runs, data).await?;
        let sectors = at.len() as u64 * (UNIT as u64 / SECTOR);
        inner.core.state.borrow_mut().ledger.host_write_sectors += sectors;
        Ok(())
    }

    /// Copies the blocks at `from` to those at `to` inside the drive, with their metadata.
    ///
    /// # Errors
    /// As [`Chunks::read`] and [`Chunks::write`].
    //= ocssd-2.0 3.4
    pub async fn copy(&self, from: &[Ppa], to: &[Ppa], marks: &[Mark]) -> Result<(), RawError> {
        let inner = &self.inner;
        inner.core.count_command(false);
        if from.len() != to.len() || marks.len() != to.len() {
            return Err(RawError::all(RawStatus::InvalidField, to.len()));
        }
        let (sources, runs) = (inner.places(from)?, inner.runs(to)?);
        let limits = &inner.core.config.controller.limits;
        inner.pass(limits.write, to.len()).await;
        let read = inner.read(&sources, ReadCause::Gc).await?;
        let (payload, meta): (Vec<Payload>, Vec<Meta>) = read
            .into_iter()
            .map(|block| (block.payload, block.meta))
            .unzip();
        let data = Data {
            payload: &payload,
            meta: &meta,
            marks,
        };
        inner.write_runs(&runs, data).await
    }

    /// Resets the chunks that contain the blocks at `at`; they must be closed.
    ///
    /// # Errors
    /// The specification's status for a chunk that is not closed, and for one whose erase fails.
    //= ocssd-2.0 3.3
    pub async fn reset(&self, at: &[Ppa]) -> Result<(), RawError> {
        let inner = &self.inner;
        inner.core.count_command(false);
        let places = inner.places(at)?;
        inner.core.sim.sleep(inner.config.controller.command).await;
        let resets = places.iter().map(|&place| inner.reset(place)).collect();
        errors(join_all(resets).await.into_iter().enumerate())
    }
}

/// Combines the errors of a command's addresses: the first status, and all failed addresses.
fn errors(results: impl Iterator<Item = (usize, Result<(), RawStatus>)>) -> Result<(), RawError> {
    let mut error: Option<RawError> = None;
    for (index, result) in results {
        if let Err(status) = result {
            let error = error.get_or_insert(RawError { status, failed: 0 });
            error.failed |= 1 << index;
        }
    }
    error.map_or(Ok(()), Err)
}

impl Firmware {
    /// Groups a list of addresses by chunk.
    fn runs(&self, at: &[Ppa]) -> Result<Vec<Run>, RawError> {
        let invalid = RawError::all(RawStatus::InvalidField, at.len());
        let mut runs: Vec<Run> = Vec::new();
        for (index, place) in self.places(at)?.into_iter().enumerate() {
            let chunk = self.geometry.chunk_index(place);
            match runs.iter_mut().find(|run| run.chunk == chunk) {
                Some(run) if place.block == run.start + run.members.len() as u32 => {
                    run.members.push(index);
                }
                Some(_) => return Err(invalid),
                None => runs.push(Run {
                    chunk,
                    start: place.block,
                    members: vec![index],
                }),
            }
        }
        let unit = self.geometry.write_min as usize;
        if runs
            .iter()
            .any(|run| !run.members.len().is_multiple_of(unit))
        {
            return Err(invalid);
        }
        Ok(runs)
    }

    async fn write_runs(&self, runs: &[Run], data: Data<'_>) -> Result<(), RawError> {
        let writes = runs.iter().map(|run| self.write_run(run, data)).collect();
        let done = join_all(writes).await;
        let each = runs.iter().zip(done);
        errors(each.flat_map(|(run, (count, result))| {
            let failed = run.members[count..].iter();
            failed.map(move |&member| (member, result))
        }))
    }

    /// Writes the blocks of one chunk. Returns how many of them are on flash.
    async fn write_run(&self, run: &Run, data: Data<'_>) -> (usize, Result<(), RawStatus>) {
        let turn = &self.turns[run.chunk as usize];
        turn.take(1).await;
        let mut count = 0;
        let mut result = self.begin(run);
        for unit in run.members.chunks(self.geometry.write_min as usize) {
            if result.is_err() {
                break;
            }
            result = self.write_unit(run, unit, data).await;
            count += if result.is_ok() { unit.len() } else { 0 };
        }
        turn.put(1);
        (count, result)
    }

    /// Checks that a chunk accepts a write, and opens it.
    fn begin(&self, run: &Run) -> Result<(), RawStatus> {
        let mut table = self.table.borrow_mut();
        let chunk = &mut table.chunks[run.chunk as usize];
        let next = transition(chunk.state, ChunkEvent::Write)?;
        if chunk.wp != run.start {
            return Err(RawStatus::OutOfOrder);
        }
        chunk.state = next;
        Ok(())
    }

    /// Programs one unit of a chunk; `members` are its positions in the list.
    async fn write_unit(
        &self,
        run: &Run,
        members: &[usize],
        data: Data<'_>,
    ) -> Result<(), RawStatus> {
        let (at, stamp) = {
            let mut table = self.table.borrow_mut();
            table.stamp += 1;
            (table.chunks[run.chunk as usize].wp, table.stamp - 1)
        };
        let row = self.row_at(run.chunk, at);
        let spare = self.core.nand.geometry().spare_words as usize;
        let mut words = vec![0; members.len() * spare];
        for (words, &member) in words.chunks_exact_mut(spare).zip(members) {
            let meta = data.meta[member].chunks_exact(4);
            for (word, bytes) in words.iter_mut().zip(meta) {
                *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            }
        }
        let payload: Vec<Payload> = match data.payload {
            [] => Vec::new(),
            all => members.iter().map(|&member| all[member].clone()).collect(),
        };
        for &member in members {
            let Mark { cause, origin } = data.marks[member];
            let tag = self.core.tag(origin);
            let ledger = &mut self.core.state.borrow_mut().ledger;
            ledger.program(cause as u8, tag, 1);
        }
        let program = Program {
            row,
            stamp,
            label: u64::from(run.chunk),
            words: &words,
            payload: &payload,
        };
        let ticket = self.core.nand.submit_program(program);
        let ticket = ticket.expect("the firmware keeps the rules of the flash");
        let done = self.core.nand.finish_program(ticket).await;
        self.end_unit(run.chunk, row, done)
    }

    /// The row of the program at block `at` of a chunk, in all planes.
    fn row_at(&self, chunk: u32, at: u32) -> Row {
        let step = self.core.nand.geometry().pages_per_program;
        Row {
            page: at / self.geometry.write_min * step,
            ..self.geometry.blocks_of(chunk)
        }
    }

    /// Handles the end of a program: advances the write pointer, or closes the chunk early.
    fn end_unit(
        &self,
        number: u32,
        row: Row,
        done: Result<(), NandError>,
    ) -> Result<(), RawStatus> {
        let mut table = self.table.borrow_mut();
        let chunk = &mut table.chunks[number as usize];
        if done.is_ok() {
            chunk.wp += self.geometry.write_min;
            if chunk.wp == self.geometry.blocks {
                chunk.state = transition(chunk.state, ChunkEvent::Filled)?;
            }
            return Ok(());
        }
        assert_eq!(done, Err(NandError::ProgramFailed), "the rules are kept");
        chunk.state = transition(chunk.state, ChunkEvent::ProgramFailed)?;
        drop(table);
        row.blocks().for_each(|block| self.core.nand.retire(block));
        self.notice(number, Noticed::EarlyClose);
        Err(RawStatus::EarlyClose)
    }

    async fn reset(&self, place: Place) -> Result<(), RawStatus> {
        let number = self.geometry.chunk_index(place);
        let turn = &self.turns[number as usize];
        turn.take(1).await;
        let result = self.reset_now(number).await;
        turn.put(1);
        result
    }

    async fn reset_now(&self, number: u32) -> Result<(), RawStatus> {
        let entry = |table: &mut super::Table| table.chunks[number as usize];
        let state = entry(&mut self.table.borrow_mut()).state;
        let next = transition(state, ChunkEvent::Reset)?;
        // From here on no block of the chunk can be read.
        self.table.borrow_mut().chunks[number as usize].wp = 0;
        while entry(&mut self.table.borrow_mut()).readers > 0 {
            self.read.wait(&self.core.sim).await;
        }
        let row = self.geometry.blocks_of(number);
        let is_bad = |block| self.core.nand.media().state(block) == BlockState::Bad;
        let bad = row.blocks().any(is_bad);
        let erased = !bad && self.core.nand.erase(row).await.is_ok();
        let mut table = self.table.borrow_mut();
        let chunk = &mut table.chunks[number as usize];
        if erased {
            chunk.state = next;
            return Ok(());
        }
        chunk.state = transition(chunk.state, ChunkEvent::EraseFailed)?;
        debug_assert_eq!(chunk.state, ChunkState::Offline);
        drop(table);
        row.blocks().for_each(|block| self.core.nand.discard(block));
        self.notice(number, Noticed::Offline);
        Err(RawStatus::OfflineChunk)
    }
}
