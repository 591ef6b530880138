//! Undo logs: pages of the system tablespace that transactions write to.
//!
//! A transaction has two logs, one for inserts and one for changes. The first is dropped when the
//! transaction ends. The second is kept until no transaction is left that began before that end; if
//! a quarter of its last page is free, the connection's next transaction continues there.
//!
//! Invariant: a page is in one log, or waits to be purged, or is free in its file.

//= mysql 14.6
//= innodb 5
use super::schema::{PAGE, PageId, SYSTEM, SYSTEM_FIRST, Space};
use std::collections::VecDeque;

/// Upper bound on the used bytes of a page on which the next transaction continues.
//= innodb 5
const REUSED: u64 = PAGE * 3 / 4;
/// Number of rollback segments that connections share; each has a page of its own.
//= mysql 14.15
const SEGMENTS: u32 = 96;
/// Page of the first rollback segment, behind the doublewrite buffer.
const SEGMENT_FIRST: u32 = 192;
/// Bytes of headers in an undo page.
const HEADERS: u64 = 100;

/// Choice of one of a transaction's two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Inserts,
    Changes,
}

/// Undo log in progress.
#[derive(Clone, Debug, Default)]
struct Log {
    /// Pages of the log, and the bytes used in the last one.
    pages: Vec<u32>,
    used: u64,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    inserts: Log,
    changes: Log,
    /// Number of transactions that had ended when the present one began; `None` before its first
    /// change.
    began: Option<u64>,
}

/// Undo logs of all connections.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    connections: Vec<Connection>,
    /// Pages that are complete, with the number of transactions that had ended at that time.
    history: VecDeque<(u32, u64)>,
    ended: u64,
}

const fn page(no: u32) -> PageId {
    PageId { space: SYSTEM, no }
}

impl Undo {
    pub(super) fn new(connections: u32) -> Self {
        Self {
            connections: vec![Connection::default(); connections as usize],
            history: VecDeque::new(),
            ended: 0,
        }
    }

    /// The system tablespace, with the pages of the rollback segments in use.
    pub(super) fn space() -> Space {
        let used = SEGMENT_FIRST + SEGMENTS;
        debug_assert!(used < SYSTEM_FIRST, "there is room for undo pages");
        Space::of_system(used)
    }

    /// Page of the rollback segment of a connection.
    pub(super) const fn segment(connection: usize) -> PageId {
        page(SEGMENT_FIRST + connection as u32 % SEGMENTS)
    }

    /// Whether the transaction of `connection` has changed anything.
    pub(super) fn has_begun(&self, connection: usize) -> bool {
        self.connections[connection].began.is_some()
    }

    /// Writes a record of `bytes`; returns its page and whether that page was taken for it.
    pub(super) fn write(
        &mut self,
        connection: usize,
        which: Which,
        bytes: u64,
        space: &mut Space,
    ) -> (PageId, bool) {
        let ended = self.ended;
        let connection = &mut self.connections[connection];
        connection.began.get_or_insert(ended);
        let log = match which {
            Which::Inserts => &mut connection.inserts,
            Which::Changes => &mut connection.changes,
        };
        let fresh = log.pages.is_empty() || log.used + bytes > PAGE;
        if fresh {
            log.pages.push(space.take());
            log.used = HEADERS;
        }
        log.used += bytes;
        (page(log.pages[log.pages.len() - 1]), fresh)
    }

    /// Last page of the changes of `connection`, if it has made any.
    pub(super) fn last(&self, connection: usize) -> Option<PageId> {
        let connection = &self.connections[connection];
        connection.began?;
        connection.changes.pages.last().copied().map(page)
    }

    /// Ends the transaction of `connection`, and purges the pages that no transaction needs any
    /// more.
    pub(super) fn end(&mut self, connection: usize, space: &mut Space) {
        self.ended += 1;
        let Connection {
            inserts,
            changes,
            began,
        } = &mut self.connections[connection];
        *began = None;
        inserts.pages.drain(..).for_each(|page| space.put(page));
        let keep = usize::from(changes.used <= REUSED);
        let full = changes.pages.len().saturating_sub(keep);
        let ended = changes.pages.drain(..full).map(|page| (page, self.ended));
        self.history.extend(ended);
        let oldest = self.connections.iter().filter_map(|c| c.began).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        while let Some((page, _)) = self.history.pop_front_if(|(_, ended)| *ended <= oldest) {
            space.put(page);
        }
    }
}

#[cfg(test)]
impl Undo {
    /// All undo pages in use.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageId> {
        let logs = self
            .connections
            .iter()
            .flat_map(|c| [&c.inserts, &c.changes]);
        let written = logs.flat_map(|log| log.pages.clone());
        written
            .chain(self.history.iter().map(|(no, _)| *no))
            .map(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_purged_after_the_oldest_transaction_ends() {
        let (mut undo, mut space) = (Undo::new(2), Undo::space());
        let room = space.room();
        // One transaction stays open while another fills pages.
        undo.write(0, Which::Changes, 50, &mut space);
        for _ in 0..10 {
            for _ in 0..130 {
                undo.write(1, Which::Changes, 100, &mut space);
            }
            undo.end(1, &mut space);
        }
        assert_eq!(
            room - space.room(),
            11,
            "ten pages are kept for the open one"
        );
        undo.end(0, &mut space);
        assert_eq!(room - space.room(), 1, "a page that has room is written on");
        assert!(undo.last(0).is_none() && !undo.has_begun(0));
    }

    #[test]
    fn insert_pages_are_freed_when_the_transaction_ends() {
        let (mut undo, mut space) = (Undo::new(1), Undo::space());
        let room = space.room();
        let (first, fresh) = undo.write(0, Which::Inserts, PAGE - HEADERS, &mut space);
        assert!(fresh);
        assert_ne!(undo.write(0, Which::Inserts, 1, &mut space).0, first);
        undo.end(0, &mut space);
        assert_eq!(space.room(), room);
    }
}
