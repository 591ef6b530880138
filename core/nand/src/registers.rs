//! Page registers: a page that was sensed serves further reads without sensing again.
//!
//! A die keeps the sensed page in its register, from which any column can be transferred (Change
//! Read Column in `onfi`). A read of a page that is being sensed, or waits for that, follows that sensing.
//!
//! Invariants: a held row has been in the registers since the array became idle, and any use of the
//! array or transfer of a program empties them; a follower has the reads behind it in its own list.

use crate::device::{Nand, Priority};
use crate::geometry::{MAX_PLANES, Row};
use crate::operation::{Doing, Queues};

/// End of a list of followers.
pub(crate) const NONE: u32 = u32::MAX;

/// Contents of a die's page registers, and the reads that will change them.
pub(crate) struct Registers {
    /// Row whose pages are held, if any of its planes takes part.
    held: Row,
    /// Reads that have not been sensed, in the order of their arrival.
    unsensed: Vec<u32>,
}

impl Registers {
    pub(crate) const fn new(die: u32) -> Self {
        Self {
            held: Row {
                die,
                page: 0,
                blocks: [0; MAX_PLANES],
                planes: 0,
            },
            unsensed: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn empty(&mut self) {
        self.held.planes = 0;
    }
}

impl Nand {
    /// Lets reads of pages in the registers skip the array, from now on.
    pub fn read_from_registers(&self) {
        self.registers.set(true);
    }

    /// Serves a new read from the registers, now or at the end of a sensing under way; false if it
    /// has to be sensed.
    pub(crate) fn joins_registers(&self, queues: &mut Queues, number: u32) -> bool {
        let operation = queues.operations[number as usize];
        let Doing::Read {
            bytes: Some(_),
            priority,
            ..
        } = operation.doing
        else {
            return false;
        };
        let registers = &queues.dies[operation.row.die as usize].registers;
        if registers.held.covers(&operation.row) {
            self.count_held(operation.row);
            self.to_channel(queues, number);
            return true;
        }
        let mut sensings = registers.unsensed.iter().copied();
        let leader = sensings.find(|&other| serves(queues, other, &operation.row, priority));
        if let Some(leader) = leader {
            queues.follow(leader, number);
            return true;
        }
        let registers = &mut queues.dies[operation.row.die as usize].registers;
        registers.unsensed.push(number);
        false
    }

    /// Keeps the pages of a sensed read, and lets its followers transfer theirs. If the read failed,
    /// the first follower is sensed for the others.
    pub(crate) fn keep_sensed(&self, queues: &mut Queues, number: u32, correct: bool) {
        let row = queues.operations[number as usize].row;
        let die = &mut queues.dies[row.die as usize];
        die.registers.unsensed.retain(|&other| other != number);
        if correct && die.array.is_idle() {
            die.registers.held = row;
        }
        let mut follower = queues.unlink(number);
        while follower != NONE {
            if !correct {
                queues.dies[row.die as usize]
                    .registers
                    .unsensed
                    .push(follower);
                return self.to_array(queues, follower);
            }
            self.count_held(queues.operations[follower as usize].row);
            self.to_channel(queues, follower);
            follower = queues.unlink(follower);
        }
    }

    fn count_held(&self, row: Row) {
        self.count(|c| c.held_pages += u64::from(row.planes.count_ones()));
    }
}

/// Whether the sensing of `other` serves a read of `row` no later than its own would.
fn serves(queues: &Queues, other: u32, row: &Row, priority: Priority) -> bool {
    let operation = &queues.operations[other as usize];
    matches!(operation.doing, Doing::Read { priority: theirs, .. } if theirs <= priority)
        && operation.row.covers(row)
}

impl Queues {
    /// Appends `number` to the followers of `leader`.
    fn follow(&mut self, leader: u32, number: u32) {
        let mut last = leader;
        while self.operations[last as usize].follower != NONE {
            last = self.operations[last as usize].follower;
        }
        self.operations[last as usize].follower = number;
    }

    /// Takes the follower of `number`, with those behind it.
    fn unlink(&mut self, number: u32) -> u32 {
        std::mem::replace(&mut self.operations[number as usize].follower, NONE)
    }
}
