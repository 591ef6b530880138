//! Commands in progress, and the effects of their completion.

use crate::Core;
use crate::command::{Command, Failure, FileId, Piece, Ticket};
use crate::config::BLOCK;
use crate::runs::Run;
use crate::zones::State;

/// Purpose of a command in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// The write of a file's first chunk, or of a part of it.
    Chunk {
        file: FileId,
        zone: u32,
        at: u32,
        blocks: u32,
    },
    /// The relocation of a file's blocks; `from` is their old place.
    Move {
        file: FileId,
        from: Run,
        zone: u32,
        at: u32,
    },
    /// The change of a zone's state to `next`.
    Manage { zone: u32, next: State },
    /// A command to a zone of the log.
    Log { zone: u32 },
    /// A flush, for the log.
    Force,
}

/// The zone that a command changes; `None` for a flush.
fn target(command: &Command) -> Option<u32> {
    match *command {
        Command::Write { zone, .. }
        | Command::Copy { zone, .. }
        | Command::Reset { zone }
        | Command::Finish { zone }
        | Command::Close { zone } => Some(zone),
        Command::Flush => None,
    }
}

impl Core {
    /// Queues a command for the driver.
    pub(crate) fn issue(&mut self, flight: Flight, command: Command) {
        if let Some(zone) = target(&command) {
            self.zones.begin(zone);
        }
        self.room.set(None);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.flights.insert(ticket, flight);
        self.ready.push_back((ticket, command));
    }

    /// Takes the next command to execute; `None` if there is none now.
    pub fn next_command(&mut self) -> Option<(Ticket, Command)> {
        self.ready.pop_front()
    }

    /// Whether a command is queued.
    #[must_use]
    pub fn has_command(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The file whose data a command writes or relocates; `None` for commands of the log and on
    /// zones as a whole.
    #[must_use]
    pub fn file_of(&self, ticket: Ticket) -> Option<FileId> {
        match self.flights.get(&ticket)? {
            Flight::Chunk { file, .. } | Flight::Move { file, .. } => Some(*file),
            Flight::Manage { .. } | Flight::Log { .. } | Flight::Force => None,
        }
    }

    /// Whether any command is queued or not yet completed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Reports that a command was executed, or has failed.
    ///
    /// # Panics
    /// If no such command is in progress.
    pub fn complete(&mut self, ticket: Ticket, result: Result<(), Failure>) {
        let flight = self
            .flights
            .remove(&ticket)
            .expect("a command is answered once");
        self.room.set(None);
        match flight {
            Flight::Chunk {
                file,
                zone,
                at,
                blocks,
            } => {
                self.zones.end(zone);
                self.chunk_ends(file, (zone, at, blocks), result);
            }
            Flight::Move {
                file,
                from,
                zone,
                at,
            } => {
                self.zones.end(zone);
                self.zones.get_mut(from.zone).readers -= 1;
                self.move_ends(file, from, (zone, at), result);
            }
            Flight::Manage { zone, next } => {
                self.zones.get_mut(zone).closing = false;
                self.zones.end(zone);
                self.managed(zone, next, result);
            }
            Flight::Log { zone } => {
                self.zones.end(zone);
                self.logged(zone, result);
            }
            Flight::Force => self.forced(result),
        }
        self.pump();
    }

    fn chunk_ends(
        &mut self,
        id: FileId,
        (zone, at, blocks): (u32, u32, u32),
        result: Result<(), Failure>,
    ) {
        self.log.unforced = true;
        self.look = true;
        if result.is_err() {
            self.zones.set(zone, State::Failed);
        }
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        file.writing = false;
        if result.is_ok() {
            let chunk = file.sealed.front_mut().expect("a chunk is under way");
            let first = chunk.offset / BLOCK + u64::from(chunk.done);
            chunk.done += blocks;
            file.stored = chunk.stored();
            self.promised -= u64::from(blocks);
            if chunk.done == chunk.blocks() {
                let chunk = file.sealed.pop_front().expect("it is there");
                self.sealed -= 1;
                self.spare.extend(std::sync::Arc::try_unwrap(chunk.data));
                self.spare.truncate(self.options.buffers as usize);
            }
            self.map(
                id,
                Run {
                    first,
                    zone,
                    at,
                    blocks,
                },
            );
        }
        if self.files[&id].sealed.front().is_some() {
            self.waiting.push_back(id);
        }
    }

    /// Maps blocks of a file to their new place in a zone.
    pub(crate) fn map(&mut self, id: FileId, run: Run) {
        let file = self.files.get_mut(&id).expect("its blocks were written");
        let old = file.runs.put(run);
        let (size, named) = (file.stored, file.path.is_some());
        self.zones.get_mut(run.zone).live += run.blocks;
        self.free(old);
        if named {
            self.note(&crate::record::Record::Put { id, run, size }, Some(id));
        }
    }

    /// Marks blocks as invalid; their zone can be reset once the log has recorded this.
    pub(crate) fn free(&mut self, runs: Vec<Run>) {
        for run in runs {
            let zone = self.zones.get_mut(run.zone);
            zone.live -= run.blocks;
            zone.barrier = zone.barrier.max(self.log.collecting);
            self.look = true;
            self.room.set(None);
        }
    }

    fn managed(&mut self, zone: u32, next: State, result: Result<(), Failure>) {
        self.look = true;
        if result.is_err() {
            self.zones.set(zone, State::Failed);
        } else if self.zones.get(zone).state != State::Full || next == State::Empty {
            self.zones.set(zone, next);
        }
    }

    /// Starts a change of a zone's state.
    pub(crate) fn manage(&mut self, zone: u32, next: State) {
        let command = match next {
            State::Empty => Command::Reset { zone },
            State::Closed => Command::Close { zone },
            State::Full => Command::Finish { zone },
            State::Open | State::Failed => unreachable!("no command does that"),
        };
        self.zones.get_mut(zone).closing = next == State::Closed;
        if next == State::Full {
            let row = self.zones.get_mut(zone);
            row.written = row.capacity;
        }
        self.issue(Flight::Manage { zone, next }, command);
    }

    /// The bytes of a run, as a piece of its zone.
    pub(crate) fn piece(run: &Run) -> Piece {
        Piece {
            zone: run.zone,
            at: u64::from(run.at) * BLOCK,
            len: u64::from(run.blocks) * BLOCK,
        }
    }
}
