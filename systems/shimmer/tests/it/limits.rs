//! Full zones, few zones, and policies.

use crate::{BLOCKS, LIMITS, OPTIONS, Volume, bytes};
use shimmer::{BLOCK, FileId, Limits, Options, Placement, Refusal};
use units::NoSpace;

const B: usize = BLOCK as usize;

/// Writes files of `blocks` blocks until one is refused; returns those that fit, and the reason.
fn fill(volume: &mut Volume, blocks: usize) -> (Vec<FileId>, NoSpace) {
    let mut all = Vec::new();
    loop {
        let id = volume.create(&format!("/{}", all.len()), 1 + all.len() as u32 % 2);
        let written = volume
            .append(id, &bytes(id.0, blocks * B))
            .and_then(|()| volume.sync(id));
        volume.core.close_file(id);
        match written {
            Ok(()) => all.push(id),
            Err(Refusal::NoSpace(why)) => {
                volume
                    .core
                    .unlink(format!("/{}", all.len()).as_bytes())
                    .unwrap();
                volume.settle();
                return (all, *why);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn full_device_reports_the_holders_of_its_zones() {
    for relocate in [true, false] {
        let mut volume = Volume::new(
            Options {
                relocate,
                ..OPTIONS
            },
            LIMITS,
            8,
        );
        let (all, why) = fill(&mut volume, 3);
        // Six zones are for data; with relocation one of them is reserved.
        let room = (6 - usize::from(relocate)) * BLOCKS;
        assert!(all.len() * 3 + 6 > room, "{} files: {why}", all.len());
        assert_eq!(why.limit, "blocks of zones");
        assert_eq!(why.total, 6 * BLOCKS as u64);
        let held = |stream| why.held_by(&format!("files of stream {stream}, group {stream}"));
        assert!(held(1) + held(2) >= 3 * all.len() as u64, "{why}");
        // Acknowledged data are intact, and removal frees room again.
        for &id in &all {
            assert_eq!(volume.all(id), bytes(id.0, 3 * B));
        }
        for n in 0..all.len() {
            volume.core.unlink(format!("/{n}").as_bytes()).unwrap();
        }
        let (again, _) = fill(&mut volume, 3);
        assert!(
            again.len() + 1 >= all.len(),
            "{} then {}",
            all.len(),
            again.len()
        );
    }
}

#[test]
fn refusal_lists_data_in_memory_apart_from_invalid_blocks() {
    let mut volume = Volume::new(OPTIONS, LIMITS, 8);
    let mut blocks = 0;
    let why = loop {
        let id = volume.create(&format!("/{blocks}"), 1);
        match volume.append(id, &bytes(id.0, B)) {
            Ok(()) => blocks += 1,
            Err(Refusal::NoSpace(why)) => break why,
            Err(other) => panic!("{other}"),
        }
    };
    let memory = why.held_by("what is written and still in memory");
    assert!(memory > 0, "{why}");
    let files = why.held_by("files of stream 1, group 1");
    assert_eq!(files + memory, blocks, "{why}");
}

/// Removes every second file of each stream, so that every zone keeps live blocks.
fn thin_out(volume: &mut Volume, all: &[FileId]) -> Vec<FileId> {
    let goes = |n: usize| (n / 2).is_multiple_of(2);
    for n in (0..all.len()).filter(|&n| goes(n)) {
        volume.core.unlink(format!("/{n}").as_bytes()).unwrap();
    }
    (0..all.len())
        .filter(|&n| !goes(n))
        .map(|n| all[n])
        .collect()
}

#[test]
fn relocation_frees_zones_with_holes() {
    let mut volume = Volume::new(OPTIONS, LIMITS, 8);
    let (all, _) = fill(&mut volume, 2);
    let left = thin_out(&mut volume, &all);
    let id = volume.create("/new", 1);
    let data = bytes(99, 14 * B);
    volume.append(id, &data).unwrap();
    volume.sync(id).unwrap();
    assert!(volume.core.counts().moved > 0);
    assert_eq!(volume.all(id), data);
    for id in left {
        assert_eq!(volume.all(id), bytes(id.0, 2 * B));
    }
    let mut again = Volume::reopened(volume.device, OPTIONS);
    assert_eq!(again.all(id), data);
}

#[test]
fn without_relocation_nothing_is_moved() {
    let options = Options {
        relocate: false,
        ..OPTIONS
    };
    let mut volume = Volume::new(options, LIMITS, 8);
    let (all, _) = fill(&mut volume, 2);
    thin_out(&mut volume, &all);
    let id = volume.create("/new", 1);
    let outcome = volume
        .append(id, &bytes(99, 16 * B))
        .and_then(|()| volume.sync(id));
    assert!(matches!(outcome, Err(Refusal::NoSpace(_))), "{outcome:?}");
    assert_eq!(volume.core.counts().moved, 0);
}

#[test]
fn more_streams_than_open_zones_take_turns() {
    for (open, active) in [(2, 0), (4, 5), (3, 4), (2, 3)] {
        let limits = Limits { open, active };
        let mut volume = Volume::new(OPTIONS, limits, 18);
        let ids: Vec<_> = (0..5).map(|n| volume.create(&format!("/{n}"), n)).collect();
        for round in 0..5 {
            for id in &ids {
                volume.append(*id, &bytes(id.0 * 10 + round, B)).unwrap();
                volume.sync(*id).unwrap();
            }
        }
        for id in ids {
            let all: Vec<u8> = (0..5)
                .flat_map(|round| bytes(id.0 * 10 + round, B))
                .collect();
            assert_eq!(volume.all(id), all, "{limits:?}");
        }
    }
}

/// Writes one file for each group; returns the zone of each.
fn zones_of(options: Options, groups: &[u32]) -> Vec<usize> {
    let mut volume = Volume::new(options, Limits { open: 3, active: 4 }, 18);
    let place = |(n, &group): (usize, &u32)| {
        let path = format!("/{n}");
        let placement = Placement { stream: 1, group };
        let id = volume.core.create(path.as_bytes(), placement).unwrap();
        let data = bytes(n as u64, B);
        volume.append(id, &data).unwrap();
        volume.sync(id).unwrap();
        (2..18)
            .find(|&zone| volume.device.bytes(zone).ends_with(&data))
            .unwrap()
    };
    groups.iter().enumerate().map(place).collect()
}

#[test]
fn zenfs_policy_shares_the_zone_of_a_longer_lifetime() {
    // Two zones for data may be active: the third lifetime goes to the zone of longer-lived data.
    assert_eq!(
        zones_of(
            Options {
                extent: OPTIONS.extent,
                ..Options::zenfs()
            },
            &[5, 1, 3]
        ),
        [2, 3, 2]
    );
    let streams = zones_of(OPTIONS, &[5, 1, 5, 1]);
    assert_eq!(streams, [2, 3, 2, 3]);
}

#[test]
fn blocks_being_written_are_counted_once() {
    let mut volume = Volume::new(OPTIONS, LIMITS, 8);
    let id = volume.create("/a", 1);
    // The data fill five of six zones, while commands wait as long as they may.
    let all = bytes(1, 5 * BLOCKS * B);
    volume.append(id, &all).unwrap();
    volume.sync(id).unwrap();
    assert_eq!(volume.all(id), all);
    let more = volume.append(id, &[1]);
    assert!(matches!(more, Err(Refusal::NoSpace(_))), "{more:?}");
}
