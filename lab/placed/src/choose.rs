//! The destination of each file: Parakeet's decisions, as placements of the core and as hints.
//!
//! Invariant: a decision is a function of the rules and of the events so far. A file system does
//! not see all of an open (other flags than those of creation, the program, the thread), so no rule
//! can depend on that here.

use parakeet::decide::{Decider, Limits};
use parakeet::directive::Directive;
use parakeet::event::{Call, Event, FileKey, Opening};
use parakeet::flags::Flags;
use parakeet::rules::RuleSet;
use parakeet::translate::{Fdp, HintMap, HintPlan, ZonePools};
use shimmer::Placement;
use std::cell::RefCell;
use units::{Ns, Placement as Handle};
use vfs::{Hint, Ino};

/// Zones written at the same time on a device without a limit: as many as the ZN540 of the
/// dissertation can have open.
const OPEN_ZONES: u32 = 14;

/// The way in which a directive becomes a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Streams have pools of zones, and groups have zones within them.
    //= dissertation 6.1.1
    Pools,
    /// Only the lifetime of a file counts, as in the kernel's hints: `ZenFS` gets no more from
    /// RocksDB.
    Lifetimes,
}

/// Decides where files go.
pub struct Chooser {
    decider: RefCell<Decider>,
    policy: Policy,
    hints: HintPlan,
    pools: ZonePools,
    /// Handles of contents, on a drive with more than one of them.
    handles: Option<Fdp>,
}

impl Chooser {
    /// A chooser with `rules`, on a drive that allows `open` open zones; 0 is no limit.
    #[must_use]
    pub fn new(rules: &RuleSet, policy: Policy, open: u32) -> Self {
        let open = match open {
            0 => OPEN_ZONES,
            // The log has one of the open zones.
            open => (open - 1).max(1),
        };
        Self {
            decider: RefCell::new(Decider::new(rules.clone(), Limits::default())),
            policy,
            hints: HintPlan::new(&rules.streams, HintMap::default()),
            pools: ZonePools::new(&rules.streams, open),
            handles: None,
        }
    }

    /// Adds a drive with this many placement handles: the first one is for files without a rule,
    /// and the last one for the structures of the file system.
    #[must_use]
    pub fn with_handles(mut self, handles: u16) -> Self {
        let streams = &self.decider.get_mut().rules().streams;
        self.handles = (handles > 2).then(|| Fdp::new(streams, handles - 1, 1));
        self
    }

    fn tell(&self, at: Ns, ino: Ino, call: Call<'_>) -> Option<Directive> {
        let event = Event {
            at,
            thread: 0,
            file: FileKey(ino.0),
            call,
        };
        self.decider.borrow_mut().tell(&event)
    }

    /// Notes that a file is in use, and newly made if its size is 0.
    pub(crate) fn opened(&self, at: Ns, ino: Ino, open: (&[u8], u16, u64)) -> Option<Directive> {
        let (path, mode, size) = open;
        let made = if size == 0 {
            Flags::WRITE.and(Flags::CREATE)
        } else {
            Flags::READ_WRITE
        };
        let opening = Opening {
            path,
            flags: made,
            mode: u32::from(mode),
            size,
            ..Opening::default()
        };
        self.tell(at, ino, Call::Open(opening))
    }

    /// Notes the lifetime hint of a program.
    pub(crate) fn hinted(&self, at: Ns, ino: Ino, hint: Hint) -> Option<Directive> {
        self.tell(at, ino, Call::Hint(hint))
    }

    /// Notes a new path.
    pub(crate) fn renamed(&self, at: Ns, ino: Ino, to: &[u8]) -> Option<Directive> {
        self.tell(at, ino, Call::Rename { to })
    }

    /// Notes that space was allocated.
    pub(crate) fn allocated(&self, at: Ns, ino: Ino, len: u64) -> Option<Directive> {
        self.tell(at, ino, Call::Allocate { len })
    }

    /// Notes that bytes were written.
    pub(crate) fn wrote(&self, at: Ns, ino: Ino, (offset, len): (u64, u64)) {
        self.tell(at, ino, Call::Write { offset, len });
    }

    /// Notes that a file is not in use any more; its data is dead if it is `gone`.
    pub(crate) fn left(&self, at: Ns, ino: Ino, gone: bool) {
        self.tell(at, ino, if gone { Call::Gone } else { Call::Close });
    }

    /// The placement of the core for the data of a file.
    pub(crate) fn placement(&self, directive: Directive) -> Placement {
        match self.policy {
            Policy::Lifetimes => Placement {
                stream: 0,
                group: self.hint(directive) as u32,
            },
            Policy::Pools => {
                let pool = self.pools.pool(directive);
                pool.map_or_else(Placement::default, |pool| Placement {
                    stream: pool.pool,
                    group: pool.writer,
                })
            }
        }
    }

    /// The placement handle for the data of a file; `None` on a drive without handles.
    //= dissertation 6.1.1
    pub(crate) fn handle(&self, directive: Directive) -> Option<Handle> {
        let handles = self.handles.as_ref()?;
        Some(Handle(handles.handle(Some(directive))))
    }

    /// The kernel's lifetime hint for a file.
    //= dissertation 5.2
    pub(crate) fn hint(&self, directive: Directive) -> Hint {
        self.hints.hint(Some(directive)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parakeet::rules::sets;

    fn chooser(policy: Policy) -> Chooser {
        let text = sets::text("rocksdb").unwrap();
        Chooser::new(&RuleSet::read("rocksdb", text).unwrap(), policy, 8)
    }

    #[test]
    fn program_hint_moves_a_table_to_another_pool() {
        for policy in [Policy::Pools, Policy::Lifetimes] {
            let chooser = chooser(policy);
            let table = |ino, hint| {
                let deep = chooser.opened(Ns(0), ino, (b"/db/000009.sst", 0o644, 0));
                let said = chooser.hinted(Ns(1), ino, hint).unwrap();
                (
                    chooser.placement(deep.unwrap()).group,
                    chooser.placement(said),
                    chooser.hint(said),
                )
            };
            let (_, upper, short) = table(Ino(7), Hint::Medium);
            let (_, deep, long) = table(Ino(8), Hint::Extreme);
            assert_ne!(upper, deep);
            assert_eq!((short, long), (Hint::Medium, Hint::Extreme));
            if policy == Policy::Lifetimes {
                assert_eq!((upper.group, deep.group), (3, 5), "longer is larger");
            }
            let other = chooser.opened(Ns(2), Ino(9), (b"/db/MANIFEST-000001", 0o644, 0));
            assert_eq!(other, None);
        }
    }
}
