//! The host of each design: a `memsys` computer with the design's mechanisms enabled.
//!
//! `memsys` implements the mechanisms (exceptions, the promotion buffer, page lists) for
//! every host. This module chooses the enabled ones, their costs, and the hints to the drive.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | threads | 24 with switches, else 8 | `skybyte` 6.1; 24 for AstriFlash too, which switches as well |
//! | switch | 2 µs; 1,300 ns in the simulator | `skybyte` Table II; its code |
//! | policy | CFS; round robin in the simulator's runs | `skybyte` 3.1; its configurations |
//! | set of a line in the last cache | a hash, as in processors; the end of its number in the simulator | `memsys`; MacSim |
//! | host memory for moved pages | 2 GiB | `skybyte` Table II |
//! | prices of a move | those of `memsys`; none in the simulator | `skybyte` 3.3 gives none |

use crate::design::{Design, Migration};
use crate::profile::Profile;
use memsys::{
    Config, LastIndex, Moves, NodeConfig, PageCache, Place, Policy, Sampling, StoreMiss, Tiering,
};
use units::{Bytes, GIB, Ns};

/// Host DRAM of a design without a drive: as large as the drive of the others.
const UNLIMITED: Bytes = Bytes(128 * GIB);

/// Threads on the eight cores of a design: 24 if it switches on long accesses, else 8.
//= skybyte 6.1
#[must_use]
pub fn threads(design: &Design) -> u32 {
    if design.switches || design.migration == Migration::HostCache {
        24
    } else {
        8
    }
}

/// Configuration of the host computer of a design, under the given profile.
//= skybyte 6.1
#[must_use]
pub fn computer(profile: Profile, design: &Design) -> Config {
    let mut config = Config::default();
    let mut moves = Moves::default();
    if profile == Profile::Artifact {
        config.os.policy = Policy::RoundRobin;
        config.os.switch = Ns(1_300);
        config.store_miss = StoreMiss::Write;
        config.llc_index = LastIndex::Plain;
        // The simulator charges nothing for a move.
        moves.handler = Ns::ZERO;
        moves.shootdown = Ns::ZERO;
        moves.interrupted = Ns::ZERO;
        moves.command = Ns::ZERO;
    }
    config.tiering = match design.migration {
        Migration::Stay => Tiering::None,
        Migration::Counted => Tiering::Hinted(moves),
        Migration::Sampled => Tiering::Sampled(moves, Sampling::default()),
        Migration::HostCache => Tiering::Cached(PageCache::default()),
    };
    if !design.drive {
        config.place = Place::Local;
        config.nodes = vec![NodeConfig { memory: UNLIMITED }];
    }
    config
}

/// Divides the host memory for pages of the drive by `by` (at least 1 MiB stays), to match
/// scaled programs and drives.
pub fn shrink(config: &mut Config, by: u64) {
    let smaller = |bytes: &mut Bytes| bytes.0 = (bytes.0 / by.max(1)).max(1 << 20);
    match &mut config.tiering {
        Tiering::None => {}
        Tiering::Hinted(moves) | Tiering::Sampled(moves, _) => smaller(&mut moves.limit),
        Tiering::Cached(cache) => smaller(&mut cache.size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::DESIGNS;

    #[test]
    fn every_design_has_a_computer_that_can_exist() {
        for profile in Profile::ALL {
            for design in DESIGNS {
                let mut config = computer(profile, design);
                assert_eq!(config.check(), Ok(()), "{}", design.name);
                shrink(&mut config, 16);
                assert_eq!(config.check(), Ok(()), "{}", design.name);
                let moves = config.tiering.moves().map(|moves| moves.limit);
                assert!(moves.is_none_or(|limit| limit == Bytes(GIB / 8)));
                assert_eq!(config.place == Place::Local, !design.drive);
            }
        }
    }

    #[test]
    fn a_wait_is_long_if_a_switch_is_shorter() {
        let full = Design::named("skybyte-full").unwrap();
        let switch = computer(Profile::Paper, full).os.switch;
        assert_eq!(switch, Profile::Paper.device(full).hints.threshold);
        assert_eq!(threads(full), 24);
        assert_eq!(threads(Design::named("skybyte-wp").unwrap()), 8);
    }
}
