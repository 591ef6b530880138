//! Single rules, each shown by a minimal scenario.

use crate::device::Device;
use crate::{BLOCKS, LIMITS, OPTIONS, Volume, ZONES, bytes};
use shimmer::{
    BLOCK, Command, Core, Demote, FileId, Limits, OpenError, Options, Placement, Refusal,
};

const B: usize = BLOCK as usize;

#[test]
fn a_synced_tail_is_written_again_with_what_follows_it() {
    let mut volume = Volume::small();
    let id = volume.create("/wal", 1);
    let data = bytes(1, 300);
    let before = volume.device.written;
    for (n, part) in data.chunks(100).enumerate() {
        volume.append(id, part).unwrap();
        volume.sync(id).unwrap();
        let allocated = volume.core.status(id).unwrap().allocated;
        assert_eq!(allocated, BLOCK, "after {n}");
    }
    // Each sync writes a block of data and one of the log, and a snapshot where the log is full.
    let written = (volume.device.written - before) / BLOCK;
    assert!((6..=7).contains(&written), "{written}");
    assert_eq!(volume.all(id), data);
    let mut again = Volume::reopened(volume.device, OPTIONS);
    assert_eq!(again.all(id), data);
}

#[test]
fn sync_without_changes_writes_nothing() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    volume.append(id, &bytes(2, 5000)).unwrap();
    volume.sync(id).unwrap();
    let before = volume.device.written;
    volume.sync(id).unwrap();
    assert_eq!(volume.device.written, before);
}

#[test]
fn extents_do_not_cross_the_end_of_a_zone() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    let data = bytes(3, 13 * B);
    volume.append(id, &data).unwrap();
    volume.sync(id).unwrap();
    assert_eq!(
        volume.device.bytes(2).len(),
        BLOCKS * B,
        "the first zone is full"
    );
    assert_eq!(
        volume.device.bytes(3).len(),
        3 * B,
        "the rest is in the next one"
    );
    assert_eq!(volume.all(id), data);
}

#[test]
fn streams_fill_zones_of_their_own() {
    let mut volume = Volume::small();
    let ids = [1, 2].map(|stream| volume.create(&format!("/{stream}"), stream));
    for n in 0..4 {
        for (id, fill) in ids.iter().zip([b'1', b'2']) {
            volume.append(*id, &vec![fill; B]).unwrap();
            if n % 2 == 0 {
                volume.sync(*id).unwrap();
            }
        }
    }
    for id in ids {
        volume.sync(id).unwrap();
    }
    assert_eq!(volume.device.bytes(2), [b'1'; 4 * B]);
    assert_eq!(volume.device.bytes(3), [b'2'; 4 * B]);
}

#[test]
fn zone_is_reset_once_the_removal_of_its_files_is_durable() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    volume.append(id, &bytes(4, BLOCKS * B)).unwrap();
    volume.sync(id).unwrap();
    let resets = volume.device.resets;
    volume.core.close_file(id);
    volume.core.unlink(b"/a").unwrap();
    volume.settle();
    assert_eq!(volume.device.resets, resets, "the log still has the file");
    let sync = volume.core.sync_all();
    volume.wait(sync).unwrap();
    volume.settle();
    assert!(volume.device.bytes(2).is_empty());
}

#[test]
fn unlinked_file_exists_until_its_last_close() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    let data = bytes(5, 3 * B + 7);
    volume.append(id, &data).unwrap();
    volume.core.unlink(b"/a").unwrap();
    assert_eq!(volume.core.lookup(b"/a"), None);
    volume.sync(id).unwrap();
    volume.append(id, b"more").unwrap();
    assert_eq!(volume.all(id), [&data[..], b"more"].concat());
    volume.core.close_file(id);
    assert_eq!(volume.core.status(id), None);
    volume.settle();
    volume.core.check();
}

#[test]
fn a_zone_that_is_read_is_not_reset() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    let data = bytes(6, BLOCKS * B);
    volume.append(id, &data).unwrap();
    volume.sync(id).unwrap();
    let parts = volume.core.read(id, 0, 100).unwrap();
    volume.core.close_file(id);
    volume.core.unlink(b"/a").unwrap();
    let sync = volume.core.sync_all();
    volume.wait(sync).unwrap();
    volume.settle();
    assert_eq!(volume.device.bytes(2), data);
    volume.core.release(&parts);
    volume.settle();
    assert!(volume.device.bytes(2).is_empty());
}

#[test]
fn write_to_the_past_and_hole_are_refused() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    volume.append(id, &bytes(7, 100)).unwrap();
    // The range is still in the buffer, so the write succeeds.
    volume.write(id, 10, b"buffered").unwrap();
    assert_eq!(volume.read(id, 10, 8), b"buffered");
    assert_eq!(
        volume.write(id, 200, b"x"),
        Err(Refusal::Demote(Demote::Hole))
    );
    volume.append(id, &bytes(8, B)).unwrap();
    volume.sync(id).unwrap();
    assert_eq!(
        volume.write(id, 10, b"x"),
        Err(Refusal::Demote(Demote::Past))
    );
    assert_eq!(
        volume.core.truncate(id, 1 << 20),
        Err(Refusal::Demote(Demote::Hole))
    );
    // The last block is in the buffer, and can be changed.
    volume.write(id, B as u64 + 3, b"tail").unwrap();
    volume.sync(id).unwrap();
    let mut again = Volume::reopened(volume.device, OPTIONS);
    assert_eq!(again.read(id, B as u64 + 3, 4), b"tail");
}

#[test]
fn rename_replaces_files_and_moves_folders() {
    let mut volume = Volume::small();
    let [a, b] = ["/d/a", "/d/b"].map(|path| volume.create(path, 1));
    volume.append(a, b"a").unwrap();
    volume.core.close_file(b);
    volume.core.rename(b"/d/a", b"/d/b").unwrap();
    assert_eq!(volume.core.lookup(b"/d/b"), Some(a));
    assert_eq!(volume.core.status(b), None);
    volume.core.rename(b"/d", b"/e/f").unwrap();
    assert_eq!(volume.core.list(b"/e/f"), [b"b"]);
    assert_eq!(volume.core.rename(b"/none", b"/x"), Err(Refusal::Missing));
    volume.sync(a).unwrap();
    let again = Volume::reopened(volume.device, OPTIONS);
    assert_eq!(again.core.lookup(b"/e/f/b"), Some(a));
}

#[test]
fn reopened_file_continues_in_its_last_block() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    let data = bytes(9, B + 9);
    volume.append(id, &data).unwrap();
    volume.core.close_file(id);
    volume.settle();
    volume.core.open_file(id).unwrap();
    let first = volume.core.write(id, data.len() as u64, b"!");
    assert!(
        matches!(first, Err(Refusal::Tail(piece)) if piece.len == 9),
        "{first:?}"
    );
    volume.append(id, b"!").unwrap();
    volume.core.truncate(id, 5).unwrap();
    volume.append(id, b"end").unwrap();
    volume.sync(id).unwrap();
    let mut again = Volume::reopened(volume.device, OPTIONS);
    assert_eq!(again.all(id), [&data[..5], b"end"].concat());
}

#[test]
fn data_of_a_failed_zone_go_to_another_one() {
    let mut volume = Volume::small();
    volume.device.broken = vec![2, 3];
    let id = volume.create("/a", 1);
    let data = bytes(10, 3 * B);
    volume.append(id, &data).unwrap();
    volume.sync(id).unwrap();
    assert_eq!(volume.device.bytes(4), data);
    assert_eq!(volume.all(id), data);
}

#[test]
fn first_failure_of_a_log_zone_is_survived() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    volume.append(id, b"first").unwrap();
    volume.sync(id).unwrap();
    volume.device.broken = vec![0];
    let mut rest = b"first".to_vec();
    let outcome = (0..3 * OPTIONS.log_blocks_max).try_for_each(|_| {
        volume.append(id, b"x")?;
        volume.sync(id)?;
        rest.push(b'x');
        Ok(())
    });
    // The other zone of the log is used until it is full; then syncs fail.
    assert_eq!(outcome, Err(Refusal::Failed(shimmer::Failure)));
    assert!(rest.len() > 6);
    volume.device.broken.clear();
    let mut again = Volume::reopened(volume.device, OPTIONS);
    assert!(again.all(id).starts_with(&rest));
}

#[test]
fn invalid_volume_or_options_are_refused() {
    let device = Device::new(ZONES, BLOCKS, LIMITS);
    let reports = device.reports();
    let open = |options, limits, zones: usize| {
        Core::open(options, limits, &reports[..zones], [&[], &[]]).unwrap_err()
    };
    assert_eq!(
        open(OPTIONS, LIMITS, ZONES),
        OpenError::Unformatted { blank: true }
    );
    assert_eq!(open(OPTIONS, LIMITS, 4), OpenError::TooFewZones(4));
    let few = Limits { open: 1, active: 0 };
    assert_eq!(open(OPTIONS, few, ZONES), OpenError::TooFewOpen(few));
    let odd = Options {
        extent: units::Bytes(3 << 12),
        ..OPTIONS
    };
    assert_eq!(open(odd, LIMITS, ZONES), OpenError::Options);
}

#[test]
fn the_first_command_of_a_new_volume_is_its_snapshot() {
    let device = Device::new(ZONES, BLOCKS, LIMITS);
    let mut core = Core::format(OPTIONS, LIMITS, &device.reports(), 1).unwrap();
    let sync = core.sync_all();
    assert_eq!(core.poll_sync(sync), None);
    let (ticket, first) = core.next_command().unwrap();
    assert_eq!(first, Command::Flush);
    core.complete(ticket, Ok(()));
    let next = core.next_command().unwrap().1;
    assert!(
        matches!(next, Command::Write { zone: 0, at: 0, .. }),
        "{next:?}"
    );
    assert_eq!(core.next_command(), None);
    let placement = Placement::default();
    assert_eq!(core.create(b"/a", placement), Ok(FileId(1 << 32)));
    assert_eq!(core.create(b"/a", placement), Err(Refusal::Exists));
}
