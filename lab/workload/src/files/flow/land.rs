//! Effects of the results of calls on workers and sets.

use super::OpKind;
use super::run::Flow;
use super::thread::{Flight, OpenFile, Step};
use crate::files::Errno;

impl Flow {
    /// Applies `result` to the call in progress of worker `index`. A failed call changes nothing.
    pub(super) fn land(&mut self, index: usize, result: Result<u64, Errno>) {
        let flight = std::mem::take(&mut self.workers[index].flight);
        let fine = result.is_ok();
        match flight {
            Flight::None => {}
            Flight::Open {
                fd,
                set,
                file,
                existed,
            } => self.opened(index, fd, (set, file), existed, fine),
            Flight::Close { fd } => self.closed(index, fd),
            Flight::Delete { set, file, own } => self.deleted(index, set, file, own, fine),
            Flight::Stat { set, file } => {
                self.sets[set].pool.give_back(file, true, true);
                self.changed(set);
                self.finish_op(index, 0);
            }
            Flight::Dir { set, dir, makes } => {
                let there = if fine { makes } else { !makes };
                self.sets[set].leaf_pool.give_back(dir, !makes, there);
                self.changed(set);
                self.finish_op(index, 0);
            }
            moved => self.moved(index, moved, result.unwrap_or(0)),
        }
    }

    fn opened(&mut self, index: usize, fd: u32, at: (usize, u32), existed: bool, fine: bool) {
        let (set, file) = at;
        self.sets[set]
            .pool
            .give_back(file, existed, existed || fine);
        self.changed(set);
        if fine {
            self.sets[set].files[file as usize].open += 1;
            self.workers[index].fds[fd as usize] = Some(OpenFile {
                set,
                file,
                at: 0,
                deleted: false,
            });
        }
        if matches!(self.op(index).kind, OpKind::OpenFile | OpKind::CreateFile) {
            self.finish_op(index, 0);
        }
    }

    fn closed(&mut self, index: usize, fd: u32) {
        let open = self.workers[index].fds[fd as usize].take();
        if let Some(open) = open.filter(|open| !open.deleted) {
            self.sets[open.set].files[open.file as usize].open -= 1;
            self.changed(open.set);
        }
        self.finish_op(index, 0);
    }

    fn deleted(&mut self, index: usize, set: usize, file: u32, own: Option<u32>, fine: bool) {
        if fine {
            let gone = &mut self.sets[set].files[file as usize];
            (gone.len, gone.open) = (0, 0);
            let open = own.and_then(|fd| self.workers[index].fds[fd as usize].as_mut());
            if let Some(open) = open {
                open.deleted = true;
            }
        }
        self.sets[set].pool.give_back(file, true, !fine);
        self.changed(set);
        self.finish_op(index, 0);
    }

    /// Applies the result of a call that moves bytes or directory entries.
    fn moved(&mut self, index: usize, flight: Flight, count: u64) {
        match flight {
            Flight::ReadWhole { at } if count > 0 => {
                self.workers[index].step = Step::Whole { at: at + count };
            }
            Flight::ReadWhole { at } => self.finish_op(index, at),
            Flight::WriteWhole { at, left } if left > 0 && count > 0 => {
                self.workers[index].step = Step::Whole { at: at + count };
            }
            Flight::WriteWhole { at, .. } => self.finish_op(index, at + count),
            Flight::Read { fd, moves } => {
                let open = self.workers[index].fds[fd as usize].as_mut();
                if let Some(open) = open.filter(|_| moves) {
                    open.at = if count == 0 { 0 } else { open.at + count };
                }
                self.finish_op(index, count);
            }
            Flight::Write { bytes } => self.finish_op(index, bytes),
            Flight::SyncOne { fd } => self.workers[index].step = Step::Sync { fd: fd + 1 },
            Flight::ListOpen => self.workers[index].step = Step::Listing { more: true },
            Flight::ListRead => self.workers[index].step = Step::Listing { more: count > 0 },
            _ => self.finish_op(index, 0),
        }
    }
}
