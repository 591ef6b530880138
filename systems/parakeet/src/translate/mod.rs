//! Translation of directives to the interfaces of drives and of the kernel.
//!
//! Invariants: a translation is built once, from the streams and the number of targets, and is a
//! pure function afterwards. It can list its losses; the list is empty if nothing is lost. Streams
//! that must share a target are neighbours in lifetime.
//!
//! | interface | is told | is not told |
//! | --- | --- | --- |
//! | `fcntl(F_SET_RW_HINT)` | one of four classes of lifetime | groups; streams of one class |
//! | streams of NVMe | a stream, by number | how long it lives |
//! | placement handles (FDP) | a handle, by number | how long it lives |
//! | zones | all: a group has zones of its own | groups beyond the zones that may be open |
//!
//! The last column lists unavoidable losses. Groups of a stream with several targets take turns on
//! them.

mod fold;
mod hints;

pub(crate) use fold::cheapest;
pub use fold::{Fold, Loss};
pub(crate) use hints::ranks;
pub use hints::{HintMap, HintPlan};

use crate::directive::{Directive, Stream};

/// Streams of a drive with multiple streams (the streams directive of NVMe).
///
/// Stream 0 of NVMe means no stream; writes to unnamed files use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeStreams(Fold);

impl NvmeStreams {
    /// A translation for `streams` on a drive that allows `count` open streams.
    //= dissertation 6.1.1
    #[must_use]
    pub fn new(streams: &[Stream], count: u16) -> Self {
        Self(Fold::new(streams, u32::from(count)))
    }

    /// Stream identifier for a write, from 1; 0 for none.
    #[must_use]
    pub fn id(&self, directive: Option<Directive>) -> u16 {
        let target = directive.and_then(|directive| self.0.target(directive));
        target.map_or(0, |target| u16::try_from(target + 1).unwrap_or(0))
    }

    /// Losses of the translation; empty if there are none.
    #[must_use]
    pub fn lost(&self) -> Vec<Loss> {
        self.0.lost()
    }
}

/// Placement handles of a drive with flexible data placement.
///
/// Handle 0 is the default of writes without a directive. It is reserved for unnamed files if there
/// is another handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fdp {
    fold: Fold,
    first: u32,
    groups: u16,
}

impl Fdp {
    /// A translation for `streams` on a drive with `handles` placement handles and `groups` reclaim
    /// groups, both at least 1.
    //= dissertation 6.1.1
    #[must_use]
    pub fn new(streams: &[Stream], handles: u16, groups: u16) -> Self {
        let first = u32::from(handles > 1);
        let fold = Fold::new(streams, u32::from(handles.max(1)) - first);
        Self {
            fold,
            first,
            groups: groups.max(1),
        }
    }

    /// The placement handle for a write; 0 for unnamed files.
    #[must_use]
    pub fn handle(&self, directive: Option<Directive>) -> u16 {
        let target = directive.and_then(|directive| self.fold.target(directive));
        target.map_or(0, |target| u16::try_from(target + self.first).unwrap_or(0))
    }

    /// The placement identifier for a write to reclaim group `group`: the group in as many of the
    /// topmost bits as the number of groups requires, and the handle below.
    ///
    /// `None` if there is no such group, or the handle does not fit beside it.
    //= nvme-2.1 8.1.10
    #[must_use]
    pub fn identifier(&self, directive: Option<Directive>, group: u16) -> Option<u16> {
        let bits = u16::BITS - (self.groups - 1).leading_zeros();
        let handle = self.handle(directive);
        let fits = u32::from(handle) < 1 << (u16::BITS - bits);
        let high = u32::from(group) << (u16::BITS - bits);
        let high = u16::try_from(high).ok();
        high.filter(|_| fits && group < self.groups)
            .map(|high| high | handle)
    }

    /// Losses of the translation; empty if there are none.
    #[must_use]
    pub fn lost(&self) -> Vec<Loss> {
        let mut lost = self.fold.lost();
        if self.first == 0 {
            lost.push(Loss::Unnamed);
        }
        lost
    }
}

/// Pools of zones: each stream has a pool that grows as needed, with as many zones open for writing
/// as its part of the limit allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePools(Fold);

/// Pool and write point for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pool {
    /// Number of the pool. A zone changes its pool only while it is empty.
    pub pool: u32,
    /// Index of one of the pool's open zones.
    pub writer: u32,
}

impl ZonePools {
    /// A translation for `streams` on a drive that allows `open` open zones.
    //= dissertation 6.1.1
    #[must_use]
    pub fn new(streams: &[Stream], open: u32) -> Self {
        Self(Fold::new(streams, open))
    }

    /// The pool for `directive`; `None` if no zone may be open, or the stream does not exist.
    #[must_use]
    pub fn pool(&self, directive: Directive) -> Option<Pool> {
        let target = self.0.target(directive)?;
        let (pool, _) = self.0.targets_of(directive.stream)?;
        Some(Pool {
            pool,
            writer: target - pool,
        })
    }

    /// Every pool and the number of zones it may hold open.
    #[must_use]
    pub fn pools(&self) -> Vec<(u32, u32)> {
        let mut pools: Vec<_> = self.0.all().collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// Losses of the translation; empty if there are none.
    #[must_use]
    pub fn lost(&self) -> Vec<Loss> {
        self.0.lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::{Grouping, Life, StreamId};

    fn streams(count: usize) -> Vec<Stream> {
        let stream = |at: usize| Stream {
            life: Some(Life::ALL[at * 4 / count]),
            grouping: Grouping::One,
            ..Stream::new(format!("s{at}"))
        };
        (0..count).map(stream).collect()
    }

    fn directive(stream: usize, group: u64) -> Directive {
        Directive {
            stream: StreamId(stream as u16),
            group,
        }
    }

    //= dissertation 6.1.1
    #[test]
    fn unnamed_files_have_handle_0_and_stream_0_to_themselves() {
        for handles in 1..=12 {
            let fdp = Fdp::new(&streams(5), handles, 1);
            let nvme = NvmeStreams::new(&streams(5), handles);
            assert_eq!((fdp.handle(None), nvme.id(None)), (0, 0));
            for stream in 0..5 {
                let handle = fdp.handle(Some(directive(stream, 3)));
                assert_eq!(handle == 0, handles == 1);
                assert!(handle < handles);
                assert!((1..=handles).contains(&nvme.id(Some(directive(stream, 3)))));
            }
            assert_eq!(fdp.lost().contains(&Loss::Unnamed), handles == 1);
            assert_eq!(fdp.lost().is_empty(), handles >= 6);
            assert_eq!(nvme.lost().is_empty(), handles >= 5);
        }
        assert_eq!(
            NvmeStreams::new(&streams(5), 0).id(Some(directive(0, 0))),
            0
        );
    }

    //= nvme-2.1 8.1.10
    #[test]
    fn an_identifier_has_the_group_above_the_handle() {
        let of = |groups| Fdp::new(&streams(5), 8, groups);
        let some = Some(directive(4, 0));
        let handle = of(1).handle(some);
        assert_eq!(of(1).identifier(some, 0), Some(handle));
        assert_eq!(of(2).identifier(some, 1), Some(1 << 15 | handle));
        assert_eq!(of(3).identifier(some, 2), Some(2 << 14 | handle));
        assert_eq!(of(4).identifier(some, 3), Some(3 << 14 | handle));
        assert_eq!(of(5).identifier(some, 4), Some(4 << 13 | handle));
        assert_eq!(of(5).identifier(some, 5), None, "there is no such group");
        assert_eq!(
            of(1 << 15).identifier(some, 1),
            None,
            "one bit holds no such handle"
        );
        assert_eq!(of(u16::MAX).identifier(None, 7), Some(7));
    }

    //= dissertation 6.1.1
    #[test]
    fn each_stream_has_a_pool_and_all_zones_that_may_be_open() {
        let mut grouped = streams(3);
        for stream in &mut grouped {
            stream.grouping = Grouping::File;
        }
        for open in 0..12 {
            let pools = ZonePools::new(&grouped, open);
            let used: u32 = pools.pools().iter().map(|&(_, zones)| zones).sum();
            assert_eq!(used, open, "zones that may be open are used");
            assert_eq!(pools.pools().len(), 3.min(open as usize));
            for stream in 0..3 {
                for group in 0..9 {
                    let at = pools.pool(directive(stream, group));
                    assert_eq!(at.is_some(), open > 0);
                    if let Some(at) = at {
                        let zones = pools.pools().iter().find(|p| p.0 == at.pool).unwrap().1;
                        assert_eq!(u64::from(at.writer), group % u64::from(zones));
                    }
                }
            }
        }
        assert_eq!(ZonePools::new(&grouped, 3).pool(directive(3, 0)), None);
    }
}
