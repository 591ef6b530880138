//! Choice of the zone for data, as pure functions of the zone map.

use crate::config::{Placement, Policy};
use crate::zones::{State, Zone, Zones};

/// The zone for a write, or the step that must come before the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Write to this zone, which is active.
    Append(u32),
    /// Open this empty zone and write to it.
    Take(u32),
    /// Close this zone first: the limit of open zones is reached.
    Close(u32),
    /// Finish this zone first: the limit of active zones is reached.
    Finish(u32),
    /// Wait for a command in progress to end.
    Wait,
    /// No zone has room.
    Full,
}

/// Requirements of data that need a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) placement: Placement,
    /// Whether the data are relocated, in which case the reserve may be used.
    pub(crate) moving: bool,
    /// Number of free zones that only relocated data may use.
    pub(crate) reserve: u32,
    /// Blocks that may be lost by finishing a zone.
    pub(crate) slack: u64,
}

type Row<'a> = (u32, &'a Zone);

/// Chooses the zone for data, or the next step towards one.
pub(crate) fn choose(zones: &Zones, policy: Policy, want: Want) -> Choice {
    let kept = zones.data().find(|(_, zone)| zone.kept && zone.room() > 0);
    if let Some((number, zone)) = kept.filter(|_| want.moving) {
        return append(zones, number, zone);
    }
    let fits = match policy {
        Policy::Streams => same_pool(zones, want.placement),
        Policy::Lifetime => best_fit(zones, want.placement),
    };
    if let Some((number, zone)) = fits {
        return append(zones, number, zone);
    }
    let fresh = if zones.free > if want.moving { 0 } else { want.reserve } {
        fresh(zones, want)
    } else {
        Choice::Full
    };
    match fresh {
        Choice::Full => shared(zones),
        choice => choice,
    }
}

fn writable(zones: &Zones) -> impl Iterator<Item = Row<'_>> + Clone {
    zones
        .data()
        .filter(|(_, zone)| zone.state.is_active() && zone.room() > 0 && !zone.kept)
}

/// An active zone of this stream and group, preferably an open one.
fn same_pool(zones: &Zones, placement: Placement) -> Option<Row<'_>> {
    let mut own = writable(zones).filter(|(_, zone)| zone.placement == Some(placement));
    let first = own.clone().find(|(_, zone)| zone.state == State::Open);
    first.or_else(|| own.next())
}

/// The zone whose lifetime group is that of the data, or the next longer one.
fn best_fit(zones: &Zones, placement: Placement) -> Option<Row<'_>> {
    let fits = writable(zones).filter_map(|row| {
        let over = row.1.placement?.group.checked_sub(placement.group)?;
        Some((over, row))
    });
    let (over, row) = fits.min_by_key(|(over, (number, _))| (*over, *number))?;
    // A zone of longer lifetime is taken only if no zone can be opened for this group: otherwise
    // short-lived data would be mixed into a zone that lasts.
    let can_open = zones.free > 1 && zones.active < zones.limits.active;
    (over == 0 || !can_open).then_some(row)
}

fn append(zones: &Zones, number: u32, zone: &Zone) -> Choice {
    if zone.busy {
        Choice::Wait
    } else if zone.state == State::Open || zones.open < zones.limits.open {
        Choice::Append(number)
    } else {
        close_one(zones)
    }
}

/// Closes the least recently used open zone that is idle.
fn close_one(zones: &Zones) -> Choice {
    if zones.is_leaving() {
        return Choice::Wait;
    }
    let idle = writable(zones).filter(|(_, zone)| zone.state == State::Open && !zone.busy);
    idle.min_by_key(|(_, zone)| zone.used)
        .map_or(Choice::Wait, |(number, _)| Choice::Close(number))
}

/// An empty zone, or the step that makes the limits allow one.
//= dissertation 5.3.3
fn fresh(zones: &Zones, want: Want) -> Choice {
    if zones.active >= zones.limits.active {
        if zones.is_leaving() {
            return Choice::Wait;
        }
        let idle = writable(zones).filter(|(_, zone)| !zone.busy);
        let Some((number, zone)) = idle.min_by_key(|(_, zone)| zone.room()) else {
            return Choice::Wait;
        };
        // Finishing loses the rest of the zone; sharing a zone loses nothing.
        let affordable = u64::from(zone.room()) <= want.slack;
        return if affordable {
            Choice::Finish(number)
        } else {
            Choice::Full
        };
    }
    if zones.open >= zones.limits.open {
        return close_one(zones);
    }
    let mut empty = zones
        .data()
        .filter(|(_, zone)| zone.state == State::Empty && !zone.busy);
    empty
        .next()
        .map_or(Choice::Wait, |(number, _)| Choice::Take(number))
}

/// The idle zone with the most room, whatever its stream: sharing is better than failing.
fn shared(zones: &Zones) -> Choice {
    let most = writable(zones).max_by_key(|(_, zone)| (!zone.busy, zone.room()));
    match most {
        Some((number, zone)) => append(zones, number, zone),
        None => Choice::Full,
    }
}

/// The full zone with the most invalid blocks; the lowest number among equals.
//= dissertation 5.3.3
pub(crate) fn victim(zones: &Zones) -> Option<u32> {
    let full = zones.data().filter(|(_, zone)| {
        zone.state == State::Full && !zone.busy && zone.live > 0 && zone.invalid() > 0
    });
    // `max_by_key` would return the highest number among equals.
    let most = full.min_by_key(|(number, zone)| (u32::MAX - zone.invalid(), *number));
    most.map(|(number, _)| number)
}

/// The active zone with the most invalid blocks, to be finished and then reclaimed if no full zone
/// can be.
pub(crate) fn unfinished_victim(zones: &Zones) -> Option<u32> {
    let idle = zones
        .data()
        .filter(|(_, zone)| zone.state.is_active() && !zone.busy);
    let most = idle.filter(|(_, zone)| zone.invalid() > 0);
    let most = most.min_by_key(|(number, zone)| (u32::MAX - zone.invalid(), *number));
    most.map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BLOCK, Limits, ZoneReport};

    const A: Placement = Placement {
        stream: 1,
        group: 1,
    };
    const B: Placement = Placement {
        stream: 2,
        group: 5,
    };
    const NONE: Limits = Limits {
        open: u32::MAX,
        active: u32::MAX,
    };

    fn zones(limits: Limits) -> Zones {
        let report = ZoneReport {
            capacity: 10 * BLOCK,
            written: 0,
        };
        Zones::new(&[report; 8], limits)
    }

    fn want(placement: Placement) -> Want {
        Want {
            placement,
            moving: false,
            reserve: 1,
            slack: 5,
        }
    }

    fn fill(zones: &mut Zones, zone: u32, placement: Placement, blocks: u32) {
        zones.set(zone, State::Open);
        zones.get_mut(zone).placement = Some(placement);
        zones.take(zone, blocks);
        zones.end(zone);
    }

    #[test]
    fn streams_have_zones_of_their_own() {
        let mut all = zones(NONE);
        assert_eq!(choose(&all, Policy::Streams, want(A)), Choice::Take(2));
        fill(&mut all, 2, A, 3);
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Take(3));
        fill(&mut all, 3, B, 3);
        assert_eq!(choose(&all, Policy::Streams, want(A)), Choice::Append(2));
        all.begin(2);
        assert_eq!(choose(&all, Policy::Streams, want(A)), Choice::Wait);
    }

    #[test]
    fn last_free_zone_is_reserved_and_zones_are_shared_instead() {
        let mut all = zones(NONE);
        for zone in 2..7 {
            fill(&mut all, zone, A, 10);
        }
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Full);
        let mover = Want {
            moving: true,
            ..want(B)
        };
        assert_eq!(choose(&all, Policy::Streams, mover), Choice::Take(7));
        fill(&mut all, 7, A, 1);
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Append(7));
    }

    #[test]
    fn limits_close_the_least_recently_used_and_finish_the_fullest() {
        let mut all = zones(Limits { open: 2, active: 2 });
        fill(&mut all, 2, A, 9);
        fill(
            &mut all,
            3,
            Placement {
                stream: 9,
                group: 9,
            },
            2,
        );
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Finish(2));
        // The room of zone 2, one block, exceeds `slack`: the emptiest zone is shared instead.
        let poor = Want {
            slack: 0,
            ..want(B)
        };
        assert_eq!(choose(&all, Policy::Streams, poor), Choice::Append(3));
        all.limits.active = 3;
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Close(2));
        all.begin(2);
        all.get_mut(2).closing = true;
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Wait);
        all.end(2);
        all.set(2, State::Closed);
        assert_eq!(choose(&all, Policy::Streams, want(B)), Choice::Take(4));
    }

    #[test]
    fn lifetime_goes_to_the_zone_of_the_closest_longer_one() {
        let mut all = zones(Limits { open: 2, active: 2 });
        fill(&mut all, 2, B, 1);
        let long = Placement {
            stream: 7,
            group: 5,
        };
        assert_eq!(
            choose(&all, Policy::Lifetime, want(long)),
            Choice::Append(2)
        );
        assert_eq!(choose(&all, Policy::Lifetime, want(A)), Choice::Take(3));
        fill(&mut all, 3, A, 1);
        let middle = Placement {
            stream: 1,
            group: 3,
        };
        // The limit of active zones is reached: a longer lifetime does the least harm.
        assert_eq!(
            choose(&all, Policy::Lifetime, want(middle)),
            Choice::Append(2)
        );
    }

    #[test]
    fn zone_with_the_most_invalid_blocks_is_the_victim() {
        let mut all = zones(NONE);
        for (zone, live) in [(2, 10), (3, 4), (4, 2), (5, 2)] {
            fill(&mut all, zone, A, 10);
            all.get_mut(zone).live = live;
        }
        assert_eq!(victim(&all), Some(4));
    }
}
