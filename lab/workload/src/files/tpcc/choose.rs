//! Choice of the pages that the cleaner writes: number per second, and which.
//!
//! `InnoDB` averages in the rates of earlier seconds; this model does not.

use super::pool::Pool;
use super::redo::Redo;
use super::schema::PageId;
use std::collections::BTreeSet;

/// Upper bound on the pages of a batch: the room of the doublewrite buffer.
//= innodb 3
pub(super) const BATCH: usize = 120;
/// Hundredths of the log's capacity at which flushing by age begins
/// (`innodb_adaptive_flushing_lwm`), and hundredths of the pool that may be dirty
/// (`innodb_max_dirty_pages_pct`).
//= mysql 14.15
const AGE_MIN: u64 = 10;
const DIRTY_MAX: usize = 75;
/// Lower bound of the most pages written in a second (`innodb_io_capacity_max`), which is otherwise
/// twice the `io` parameter.
//= mysql 14.15
const IO_MAX: u64 = 2_000;
/// Pages at the tail of the LRU list that are kept clean (`innodb_lru_scan_depth`), at most one in
/// eight of the pool; that share is our own choice, for small pools.
//= mysql 14.15
const TAIL: usize = 1_024;
const TAIL_SHARE: usize = 8;
/// Pages of an area within which dirty neighbours are written together (`innodb_flush_neighbors`);
/// at most a sixteenth of the pool.
//= mysql 14.15
const AREA: usize = 64;

/// Pages to write in the next second, by the dirty share of the pool and the age of the oldest
/// dirty page.
//= innodb 2
pub(super) fn quota(pool: &Pool, redo: &Redo, io: u64) -> u64 {
    let by_dirt = if pool.dirty_percent() >= DIRTY_MAX {
        100
    } else {
        0
    };
    let age = pool.oldest().map_or(0, |oldest| redo.stream.end - oldest);
    let most = IO_MAX.max(2 * io);
    let by_age = if age < redo.limits.capacity * AGE_MIN / 100 {
        0
    } else {
        // The age in hundredths of the flush limit, to the power 3/2, over 7.5.
        let factor = age * 100 / redo.limits.flush;
        (most / io) * factor.pow(3).isqrt() * 2 / 15
    };
    (io * by_age.max(by_dirt) / 100).min(most)
}

/// Number of pages at the tail of the LRU list that are kept clean.
pub(super) fn depth(pool: &Pool) -> usize {
    TAIL.min(pool.capacity() / TAIL_SHARE)
}

/// Up to `most` of `pages`, in their order, each with its dirty neighbours.
pub(super) fn batch(
    pool: &Pool,
    pages: impl Iterator<Item = PageId>,
    most: usize,
) -> BTreeSet<PageId> {
    let most = most.min(BATCH);
    let area = AREA.min(pool.capacity() / 16) as u32;
    let mut chosen = BTreeSet::new();
    for page in pages {
        if chosen.len() >= most {
            break;
        }
        let start = page.no / area * area;
        let at = |no| PageId { no, ..page };
        let dirty = |no: &u32| pool.can_write(at(*no));
        let below = (start..page.no).rev().take_while(dirty);
        let above = (page.no..start + area).take_while(dirty);
        for no in above.chain(below) {
            if chosen.len() < BATCH {
                chosen.insert(at(no));
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::pool::Io;
    use super::super::schema::PAGE;
    use super::*;
    use units::Ns;

    fn dirty(nos: &[u32]) -> Pool {
        let mut pool = Pool::new(1_024 * PAGE);
        for (age, &no) in nos.iter().enumerate() {
            let page = PageId { space: 1, no };
            pool.insert(page, Io::None, Ns(0));
            pool.change(page, age as u64, 100);
        }
        pool
    }

    #[test]
    fn dirty_neighbours_within_the_area_join_the_batch() {
        let pool = dirty(&[70, 71, 63, 64, 66, 69, 10, 128]);
        let chosen = batch(&pool, pool.by_age(), 1);
        assert!(chosen.iter().map(|page| page.no).eq([69, 70, 71]));
        let chosen = batch(&pool, pool.by_age(), 4);
        assert!(chosen.iter().map(|page| page.no).eq([63, 69, 70, 71]));
        let many: Vec<u32> = (0..500).map(|no| no * 2).collect();
        let pool = dirty(&many);
        assert_eq!(batch(&pool, pool.by_age(), 2_000).len(), BATCH);
    }

    #[test]
    fn quota_grows_with_the_age_of_the_oldest_page() {
        let mut redo = Redo::new(4 << 20);
        let mut pool = dirty(&[1]);
        assert_eq!(quota(&pool, &redo, 200), 0);
        let mut last = 0;
        for _ in 0..50 {
            redo.append(100_000);
            let pages = quota(&pool, &redo, 200);
            let age = redo.stream.end;
            assert_eq!(pages > 0, age >= redo.limits.capacity / 10, "{age}");
            assert!(pages >= last && pages <= 2_000);
            // At the limit it is 10 · 100^1.5 / 7.5 % of 200.
            if age.abs_diff(redo.limits.flush) < 60_000 {
                assert!((2_500..2_800).contains(&(pages.max(2_667))), "{pages}");
                assert_eq!(pages, 2_000);
            }
            last = pages;
        }
        pool = dirty(&(0..800).collect::<Vec<u32>>());
        assert_eq!(quota(&pool, &Redo::new(4 << 20), 200), 200, "by dirt");
    }
}
