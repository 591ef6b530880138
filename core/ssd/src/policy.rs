//! Policies: the next line to reclaim and the handle of a write, as pure functions from a view to a
//! choice.
//!
//! Ties go to the lower line number, so that a choice never depends on the order in which
//! candidates are found.
//!
//! A caller may supply functions of its own ([`Policies`]). They compare by name alone: two runs
//! with policies of one name count as equal.

use crate::config::VictimPolicy;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

/// A function that chooses among the candidate lines, each with an invalid page; there is at least
/// one.
type ChooseLine = dyn for<'a> Fn(&'a [LineView]) -> &'a LineView + Send + Sync;

/// A function that chooses the handle of a write.
type ChooseHandle = dyn Fn(&WriteView) -> u16 + Send + Sync;

/// Facts about a line that a policy may decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineView {
    /// Index of the line.
    pub line: u32,
    /// Pages with the newest issued version of a mapped page.
    pub valid: u32,
    /// Data pages that the line can hold, summary excluded.
    pub pages: u32,
    /// Programs that the drive issued since the line was closed.
    pub age: u64,
    /// Erase cycles so far.
    pub erases: u32,
}

/// Facts about a write that a placement policy may decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteView {
    /// First mapped page that the write touches.
    pub page: u32,
    /// Mapped pages that the write touches.
    pub pages: u32,
    /// Handle that the host named; the write goes through it unless the policy decides otherwise.
    pub handle: u16,
    /// Handles of the drive, over all reclaim groups.
    pub handles: u16,
    /// Programs issued since the line that holds the current version of `page` was closed. 0 for a
    /// line that is still open and for a version in the buffer, `None` if the page is unmapped.
    pub age: Option<u64>,
}

/// Named policies of the caller that replace the firmware's own.
///
/// A policy must be a pure function: it keeps no state and reads only its view. Otherwise runs
/// would no longer be functions of their plans.
#[derive(Clone, Default)]
pub struct Policies {
    victim: Option<(String, Arc<ChooseLine>)>,
    placement: Option<(String, Arc<ChooseHandle>)>,
}

impl Policies {
    /// Adds a victim policy: `choose` picks the line to reclaim next. It sees no line whose pages
    /// are all valid.
    #[must_use]
    pub fn victim<F>(mut self, name: &str, choose: F) -> Self
    where
        F: for<'a> Fn(&'a [LineView]) -> &'a LineView + Send + Sync + 'static,
    {
        self.victim = Some((name.to_owned(), Arc::new(choose)));
        self
    }

    /// Adds a placement policy: `choose` picks the handle of each write of the host, below
    /// [`WriteView::handles`]. A conventional drive has only one handle.
    #[must_use]
    pub fn placement<F>(mut self, name: &str, choose: F) -> Self
    where
        F: Fn(&WriteView) -> u16 + Send + Sync + 'static,
    {
        self.placement = Some((name.to_owned(), Arc::new(choose)));
        self
    }

    /// Names of the victim and the placement policy; `None` for the firmware's own.
    #[must_use]
    pub fn names(&self) -> (Option<&str>, Option<&str>) {
        let victim = self.victim.as_ref().map(|(name, _)| &**name);
        (victim, self.placement.as_ref().map(|(name, _)| &**name))
    }

    /// Whether the caller supplied a victim policy.
    pub(crate) fn choose_victims(&self) -> bool {
        self.victim.is_some()
    }

    /// The line to reclaim next by the caller's policy; `None` without a policy of the caller or a
    /// line that gains.
    pub(crate) fn line(&self, lines: impl Iterator<Item = LineView>) -> Option<u32> {
        let (_, choose) = self.victim.as_ref()?;
        let lines: Vec<LineView> = lines.filter(gains).collect();
        (!lines.is_empty()).then(|| choose(&lines).line)
    }

    /// The handle of the write that `view` describes; `None` without a placement policy.
    pub(crate) fn handle(&self, view: impl FnOnce() -> WriteView) -> Option<u16> {
        let (name, choose) = self.placement.as_ref()?;
        let view = view();
        let (handle, handles) = (choose(&view), view.handles);
        assert!(
            handle < handles,
            "{name} chose handle {handle} of {handles}"
        );
        Some(handle)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (victim, placement) = self.names();
        let mut policies = f.debug_struct("Policies");
        policies.field("victim", &victim);
        policies.field("placement", &placement).finish()
    }
}

impl PartialEq for Policies {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

/// Whether the line has an invalid page, so that reclaiming it frees space.
fn gains(view: &LineView) -> bool {
    view.valid < view.pages
}

/// The line to reclaim next under `policy`. A line without an invalid page is never chosen: moving
/// it frees nothing.
#[must_use]
pub fn victim(policy: VictimPolicy, lines: impl Iterator<Item = LineView>) -> Option<u32> {
    let gains = lines.filter(gains);
    let chosen = match policy {
        VictimPolicy::Greedy => gains.min_by_key(|view| (view.valid, view.line)),
        VictimPolicy::CostBenefit => {
            gains.max_by_key(|view| (cost_benefit(view), Reverse(view.line)))
        }
        VictimPolicy::Fifo => gains.max_by_key(|view| (view.age, Reverse(view.line))),
    };
    chosen.map(|view| view.line)
}

/// Age times free space over cost: (1 − u) · age / 2u, scaled to an integer (Rosenblum and
/// Ousterhout 1992, with reading and writing counted).
pub(crate) fn cost_benefit(view: &LineView) -> u128 {
    let free = u128::from(view.pages - view.valid);
    let cost = 2 * u128::from(view.valid) + 1;
    ((free * u128::from(view.age)) << 20) / cost
}

/// View of a pool for the split of the spare space. A pool is the data that collection keeps
/// together: the data of one handle, or relocated data of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Valid pages of the pool, over all its lines.
    pub valid: u64,
    /// Pages that the host has lately overwritten or deallocated; older deaths decay at the same
    /// rate in all pools.
    pub died: u64,
    /// Line that the victim policy chooses within the pool.
    pub victim: LineView,
}

/// Floor of the death rate: every pool counts at least one death for this many valid pages. A pool
/// at rest is compacted, but not at any price.
const FEWEST_DEATHS: u64 = 256;

/// The line to reclaim next if the spare space follows demand: the victim of the pool in which a
/// copy costs the least.
///
/// A line with the empty share E costs (1 − E)/E copies for each page that it gives. If a share
/// λ of the valid pages of its pool dies in a unit of time, waiting lowers that cost by
/// λ(1 − E)/E² a unit of time; the victim is the line whose cost falls the slowest
/// (`lomet2021`, minimum declining cost, with λ counted over the pool in place of estimated
/// for each line). In the steady state E is then such that λ(1 − E)/E² is equal in all pools.
/// That is where copies in all are fewest: with the closed form of `desnoyers2014`, in which
/// a pool has the ratio α = ln(1/(1 − E))/E of space to data, a further line saves
/// λ/(E/(1 − E) + ln(1 − E)) copies, of which 2λ(1 − E)/E² is the first term.
//= lomet2021 3
#[must_use]
pub fn by_demand(pools: impl Iterator<Item = PoolView>) -> Option<u32> {
    let falls = |pool: &PoolView| {
        let died = u128::from(pool.died * FEWEST_DEATHS + pool.valid);
        let free = u128::from(pool.victim.pages - pool.victim.valid);
        let copies = died * u128::from(pool.victim.valid);
        (copies << 40) / (u128::from(pool.valid.max(1)) * free * free)
    };
    let gains = pools.filter(|pool| gains(&pool.victim));
    let chosen = gains.min_by_key(|pool| (falls(pool), pool.victim.line));
    chosen.map(|pool| pool.victim.line)
}

/// Whether data of which `died` of `valid` pages have died are hot among `all` data, given as the
/// same two counts: a larger share of them dies than on average. `lomet2021` estimates the update
/// frequency of each page; it is counted over a pool here.
//= lomet2021 3
#[must_use]
pub(crate) fn is_hot((died, valid): (u64, u64), all: (u64, u64)) -> bool {
    u128::from(died) * u128::from(all.1) > u128::from(all.0) * u128::from(valid)
}

/// The line with the fewest erases, if it lags behind `most_erases` by more than `threshold`: its
/// data are cold, and move so that its blocks take part in the wear. `None` if `threshold` is 0.
#[must_use]
pub fn coldest(
    threshold: u32,
    most_erases: u32,
    lines: impl Iterator<Item = LineView>,
) -> Option<u32> {
    let least = lines.min_by_key(|view| (view.erases, view.line))?;
    (threshold > 0 && most_erases - least.erases.min(most_erases) > threshold).then_some(least.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn view(line: u32, valid: u32, age: u64, erases: u32) -> LineView {
        LineView {
            line,
            valid,
            pages: 100,
            age,
            erases,
        }
    }

    const LINES: [LineView; 4] = [
        view(0, 100, 900, 0),
        view(1, 60, 800, 5),
        view(2, 20, 10, 9),
        view(3, 20, 10, 9),
    ];

    #[test]
    fn greedy_takes_the_emptiest_line_with_the_lowest_number() {
        assert_eq!(victim(VictimPolicy::Greedy, LINES.into_iter()), Some(2));
    }

    #[test]
    fn fifo_takes_the_oldest_line_that_gains() {
        assert_eq!(victim(VictimPolicy::Fifo, LINES.into_iter()), Some(1));
    }

    #[test]
    fn cost_benefit_prefers_old_to_slightly_emptier() {
        // (1-u)·age/2u: line 1 has 40·800/121 = 264, line 2 has 80·10/41 = 19.
        assert_eq!(
            victim(VictimPolicy::CostBenefit, LINES.into_iter()),
            Some(1)
        );
    }

    const fn pool(line: u32, victim: u32, valid: u64, died: u64) -> PoolView {
        PoolView {
            valid,
            died,
            victim: view(line, victim, 0, 0),
        }
    }

    #[test]
    fn by_demand_takes_the_fuller_line_of_the_colder_pool() {
        // λ(1−E)/E²: 800/2000·0.5/0.25 = 0.8 when hot, 200/8000·0.75/0.0625 = 0.3 when cold.
        let pools = [pool(4, 50, 2_000, 800), pool(7, 75, 8_000, 200)];
        assert_eq!(by_demand(pools.into_iter()), Some(7));
        // At 0.86 the cold line costs 200/8000·0.86/0.0196 = 1.1 and has to wait.
        let pools = [pool(4, 50, 2_000, 800), pool(7, 86, 8_000, 200)];
        assert_eq!(by_demand(pools.into_iter()), Some(4));
    }

    #[test]
    fn by_demand_is_greedy_without_deaths_and_among_equals() {
        let pools = |died| [pool(4, 50, 2_000, died), pool(7, 49, 8_000, died * 4)];
        for died in [0, 10, 1_000] {
            assert_eq!(by_demand(pools(died).into_iter()), Some(7), "{died}");
        }
        let equal = [pool(9, 20, 100, 5), pool(3, 20, 100, 5)];
        assert_eq!(by_demand(equal.into_iter()), Some(3));
    }

    #[test]
    fn pool_is_hot_if_it_dies_faster_than_the_average() {
        let all = (1_000, 10_000);
        assert!(is_hot((800, 2_000), all) && !is_hot((200, 8_000), all));
        assert!(!is_hot((0, 0), all) && !is_hot((5, 5), (0, 0)) && !is_hot(all, all));
    }

    #[test]
    fn by_demand_takes_an_empty_line_first_and_never_a_full_one() {
        let pools = [pool(0, 100, 900, 0), pool(1, 0, 10, 10), pool(2, 1, 900, 0)];
        assert_eq!(by_demand(pools.into_iter()), Some(1));
        assert_eq!(by_demand(pools[..1].iter().copied()), None);
    }

    #[test]
    fn full_line_is_no_victim() {
        let full = [view(0, 100, 9, 0)];
        assert_eq!(victim(VictimPolicy::Greedy, full.into_iter()), None);
    }

    #[test]
    fn victim_policy_sees_only_lines_that_gain() {
        let policies = Policies::default().victim("fullest", |lines| {
            assert!(lines.iter().all(|view| view.line != 0));
            lines
                .iter()
                .max_by_key(|view| view.valid)
                .expect("not none")
        });
        assert_eq!(policies.line(LINES.into_iter()), Some(1));
        let full = [view(0, 100, 9, 0)];
        assert_eq!(policies.line(full.into_iter()), None);
    }

    #[test]
    fn default_policies_change_nothing() {
        let policies = Policies::default();
        assert_eq!(policies.line(LINES.into_iter()), None);
        assert_eq!(policies.handle(|| unreachable!("nobody asks")), None);
    }

    #[test]
    #[should_panic(expected = "astray chose handle 4 of 4")]
    fn placement_out_of_range_panics() {
        let view = WriteView {
            page: 0,
            pages: 1,
            handle: 0,
            handles: 4,
            age: None,
        };
        let _ = Policies::default()
            .placement("astray", |view| view.handles)
            .handle(|| view);
    }

    #[test]
    fn policies_compare_by_name() {
        let named = |name: &str| Policies::default().placement(name, |view| view.handle);
        assert_eq!(named("a"), named("a"));
        assert_ne!(named("a"), named("b"));
        assert_ne!(named("a"), Policies::default());
    }

    #[test]
    fn cold_data_move_only_beyond_the_threshold() {
        assert_eq!(coldest(9, 10, LINES.into_iter()), Some(0));
        assert_eq!(coldest(10, 10, LINES.into_iter()), None);
        assert_eq!(coldest(0, 1000, LINES.into_iter()), None);
    }
}
