//! Invariants of the table, which hold between any two events.

use super::TxTable;

impl TxTable {
    /// Asserts the invariants: owners and transactions agree, a line has one open owner, and sums
    /// match.
    pub(in crate::lines) fn check(&self) {
        let mut lines = 0;
        for (number, block) in &self.blocks {
            let mut open = 0;
            assert!(!block.owners.is_empty());
            for owner in &block.owners {
                let tx = &self.txs[&owner.tx];
                assert_eq!(tx.copied, owner.copied);
                assert!(tx.blocks.contains(number));
                assert!(owner.copied || open & owner.mask == 0, "a line of two");
                open |= if owner.copied { 0 } else { owner.mask };
                lines += u64::from(owner.mask.count_ones());
            }
        }
        assert_eq!(lines, self.lines);
        assert_eq!(lines, self.txs.values().map(|tx| tx.lines).sum::<u64>());
        for (number, tx) in &self.txs {
            assert!(tx.open == 0 || !tx.copied);
            let own = |m: &&u64| self.handles.get(m).is_some_and(|h| h.tx == *number);
            assert_eq!(tx.members.iter().filter(own).count(), tx.open);
            let earlier = |a: &u64| self.txs.get(a).is_none_or(|tx| tx.copied);
            assert!(tx.after.iter().all(earlier));
        }
        let reserved: u64 = self.handles.values().map(|h| h.reserved).sum();
        assert_eq!(reserved, self.reserved);
        assert!(self.lines <= self.limits.lines, "more than was reserved");
        let members: usize = self.txs.values().map(|tx| tx.members.len()).sum();
        assert_eq!(members + self.lost, self.pending.len());
    }
}
