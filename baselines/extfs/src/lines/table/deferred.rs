//! Closed transactions that wait for a force, for their age or for room before they commit.
//!
//! Invariant: a deferred transaction is not copied, and no task waits for it.

use super::{Closing, TxTable};

impl TxTable {
    /// Defers the commit of a closed transaction. Returns it if it has to commit now: a task waits
    /// for it, it is copied, it is full, or transactions hold a quarter of all lines that they may.
    pub(in crate::lines) fn defer(&mut self, closing: Closing) -> Option<Closing> {
        let crowded = self.lines > self.limits.lines / 4;
        let (handles, copies) = (self.limits.handles, self.limits.copies);
        let tx = self.tx(closing.number);
        let full = tx.members.len() >= handles || tx.copies.len() >= copies;
        tx.deferred = !(tx.copied || tx.wanted || full || crowded);
        (!tx.deferred).then_some(closing)
    }

    /// Whether any handle up to `upto` is not durable. Transactions with such handles are marked
    /// as waited for and take no more handles.
    pub(in crate::lines) fn want(&mut self, upto: u64) -> bool {
        let pending = self.pending.first().is_some_and(|&first| first <= upto);
        if pending {
            let open = self.txs.values_mut().filter(|tx| !tx.copied);
            open.filter(|tx| tx.members.iter().any(|&m| m <= upto))
                .for_each(|tx| tx.wanted = true);
        }
        pending
    }

    /// Takes the deferred transactions with a handle up to `upto`; each has to commit now.
    pub(in crate::lines) fn undefer(&mut self, upto: u64) -> Vec<Closing> {
        let mut closings = Vec::new();
        for (&number, tx) in &mut self.txs {
            let waits = tx.deferred && tx.open == 0 && !tx.copied;
            if waits && tx.members.iter().any(|&member| member <= upto) {
                tx.deferred = false;
                closings.push(Closing {
                    number,
                    turn: tx.closings,
                    pieces: None,
                });
            }
        }
        closings
    }
}
