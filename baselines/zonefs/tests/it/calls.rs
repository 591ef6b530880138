//! The rules of `zonefs.rst`, call by call.

use crate::bench::{
    APPEND, BLOCK, CACHED, DIRECT, MOST, SOME, cnv, config, mounted, on, seq, text,
};
use host::ZonedPort;
use ssd::{ZoneAction, ZoneState};
use vfs::Errno;
use zonefs::{Group, How, MountError, Options, Superblock, SuperblockError, ZoneFs};

//= zonefs 2
#[test]
fn every_zone_but_the_first_is_a_file() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        assert_eq!(
            (fs.count(Group::Conventional), fs.count(Group::Sequential)),
            (0, 9)
        );
        // The zone of the superblock is finished: it accepts no more writes.
        assert_eq!(device.zone(0).unwrap().state, ZoneState::Full);
        let attributes = fs.attributes(seq(8)).unwrap();
        assert_eq!((attributes.size, attributes.sectors), (0, MOST / 512));
        assert_eq!(attributes.perm, 0o640);
        assert_eq!(fs.attributes(seq(9)), Err(Errno::ENOENT));
        assert_eq!(fs.space(), (9 * MOST, 0));
    });
}

#[test]
fn neighbours_are_one_file_if_the_superblock_says_so() {
    for (aggregates, files, size) in [(false, 2, 16 << 20), (true, 1, 32 << 20)] {
        let config = config(|zones| zones.conventional = 3);
        on(&config, async move |sim, device| {
            let superblock = Superblock {
                aggregates,
                uid: 5,
                perm: 0o444,
                ..Superblock::default()
            };
            let fs = mounted(&sim, &device, &superblock, Options::default()).await;
            assert_eq!(fs.count(Group::Conventional), files);
            let attributes = fs.attributes(cnv(files - 1)).unwrap();
            assert_eq!(
                (attributes.size, attributes.uid, attributes.perm),
                (size, 5, 0o444)
            );
        });
    }
}

#[test]
fn mount_rejects_other_contents() {
    on(&config(|_| {}), async |sim, device| {
        let refused = ZoneFs::mount(&sim, &device, Options::default()).await.err();
        let magic = MountError::Superblock(SuperblockError::Magic);
        assert_eq!(refused.unwrap().to_string(), magic.to_string());
    });
}

//= zonefs 3
#[test]
fn a_sequential_file_is_written_at_its_end_directly_in_whole_blocks() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        let two = text(0, 2);
        let write = async |at, bytes, how| fs.write(seq(0), at, bytes, how).await;
        assert_eq!(write(0, &two, DIRECT).await, Ok(8192));
        for (at, bytes, how, expected) in [
            (8192, &two[..], CACHED, Errno::EIO),
            (0, &two[..], DIRECT, Errno::EINVAL),
            (4096, &two[..], DIRECT, Errno::EINVAL),
            (12288, &two[..], DIRECT, Errno::EINVAL),
            (8192, &two[..100], DIRECT, Errno::EINVAL),
            (8100, &two[..4096], DIRECT, Errno::EINVAL),
            (MOST, &two[..], DIRECT, Errno::EFBIG),
        ] {
            assert_eq!(write(at, bytes, how).await, Err(expected), "{at} {how:?}");
        }
        assert_eq!(fs.attributes(seq(0)).unwrap().size, 8192);
        assert_eq!(device.zone(1).unwrap().written(), 16);
        assert_eq!(fs.read(seq(0), 100, 9000, false).await.unwrap(), two[100..]);
        assert!(fs.read(seq(0), 8192, 10, false).await.unwrap().is_empty());
        // Direct reads are of whole blocks, or end at the end of the file.
        assert_eq!(
            fs.read(seq(0), 4096, 9000, true).await.unwrap(),
            two[4096..]
        );
        for (at, len) in [(100, 4096), (0, 100), (4096, 512)] {
            let refused = fs.read(seq(0), at, len, true).await;
            assert_eq!(refused, Err(Errno::EINVAL), "{at} {len}");
        }
        assert!(fs.read(seq(0), 9000, 10, true).await.unwrap().is_empty());
    });
}

#[test]
fn append_writes_at_the_current_end() {
    let config = config(|zones| zones.conventional = 2);
    on(&config, async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        let append = async |at, bytes, how| fs.write(seq(0), at, bytes, how).await;
        let blocks = text(0, 3);
        for (block, at) in blocks.chunks(4096).zip([0, 77, u64::MAX]) {
            assert_eq!(append(at, block, APPEND).await, Ok(4096));
        }
        assert_eq!(fs.read(seq(0), 0, 1 << 20, true).await.unwrap(), text(0, 3));
        let cached = How {
            append: true,
            ..CACHED
        };
        assert_eq!(append(0, b"x", cached).await, Err(Errno::EIO));
        assert_eq!(append(0, b"x", APPEND).await, Err(Errno::EINVAL));
        fs.truncate(seq(0), MOST).await.unwrap();
        assert_eq!(append(0, &blocks, APPEND).await, Err(Errno::EFBIG));
        for how in [APPEND, cached] {
            let refused = fs.write(cnv(0), 0, &text(0, 1), how).await;
            assert_eq!(refused, Err(Errno::EINVAL));
        }
    });
}

#[test]
fn a_write_past_the_zone_is_cut() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        let all = text(7, MOST / BLOCK - 1);
        assert_eq!(fs.write(seq(2), 0, &all, DIRECT).await, Ok(all.len()));
        let at = all.len() as u64;
        assert_eq!(fs.write(seq(2), at, &text(1, 2), DIRECT).await, Ok(4096));
        assert_eq!(fs.attributes(seq(2)).unwrap().size, MOST);
        assert_eq!(device.zone(3).unwrap().state, ZoneState::Full);
        assert_eq!(
            fs.read(seq(2), 0, usize::MAX >> 1, false).await.unwrap()[..at as usize],
            all
        );
    });
}

//= zonefs 4
#[test]
fn truncation_resets_or_finishes_a_zone() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        fs.write(seq(0), 0, &text(0, 3), DIRECT).await.unwrap();
        for size in [1, SOME, 3 * BLOCK, MOST - 1, MOST + 1, u64::MAX] {
            assert_eq!(fs.truncate(seq(0), size).await, Err(Errno::EPERM), "{size}");
        }
        fs.truncate(seq(0), 0).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Empty);
        fs.write(seq(0), 0, &text(9, 1), DIRECT).await.unwrap();
        fs.truncate(seq(0), MOST).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Full);
        assert_eq!(fs.attributes(seq(0)).unwrap().size, MOST);
        assert_eq!(fs.read(seq(0), 0, 4096, false).await.unwrap(), text(9, 1));
        // A repeated truncation changes nothing.
        fs.truncate(seq(0), MOST).await.unwrap();
        assert_eq!(
            fs.write(seq(0), MOST, b"x", DIRECT).await,
            Err(Errno::EFBIG)
        );
    });
}

#[test]
fn a_conventional_file_is_written_anywhere_in_any_way() {
    let config = config(|zones| zones.conventional = 2);
    on(&config, async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        let most = fs.attributes(cnv(0)).unwrap().size;
        let mut model = vec![0; most as usize];
        let mut rng = sim::Seed(1).stream("writes");
        for _ in 0..200 {
            let at = rng.below(64 << 10) as usize;
            let len = 1 + rng.below(20_000) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            assert_eq!(fs.write(cnv(0), at as u64, &bytes, CACHED).await, Ok(len));
            model[at..at + len].copy_from_slice(&bytes);
        }
        let read = fs.read(cnv(0), 0, 100 << 10, false).await.unwrap();
        assert!(read == model[..100 << 10]);
        assert_eq!(fs.write(cnv(0), most - 2, b"four", CACHED).await, Ok(2));
        assert_eq!(fs.read(cnv(0), most - 2, 10, false).await.unwrap(), b"fo");
        assert_eq!(
            fs.write(cnv(0), 1, b"four", DIRECT).await,
            Err(Errno::EINVAL)
        );
        assert_eq!(
            fs.write(cnv(0), most, b"x", CACHED).await,
            Err(Errno::EFBIG)
        );
        for size in [0, 1, most] {
            assert_eq!(fs.truncate(cnv(0), size).await, Err(Errno::EPERM));
        }
    });
}

#[test]
fn a_mount_finds_what_the_last_one_left() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        fs.write(seq(0), 0, &text(3, 5), DIRECT).await.unwrap();
        fs.truncate(seq(1), MOST).await.unwrap();
        fs.fsync(seq(0)).await.unwrap();
        let read_only = Options {
            read_only: true,
            ..Options::default()
        };
        let again = ZoneFs::mount(&sim, &device, read_only).await.unwrap();
        assert_eq!(again.attributes(seq(0)).unwrap().size, 5 * BLOCK);
        assert_eq!(again.attributes(seq(1)).unwrap().size, MOST);
        assert_eq!(
            again.read(seq(0), 0, 1 << 20, false).await.unwrap(),
            text(3, 5)
        );
        assert_eq!(again.open(seq(0), true).await, Err(Errno::EROFS));
        assert_eq!(again.truncate(seq(0), 0).await, Err(Errno::EROFS));
        // Formatting again empties every file.
        device.manage(3, ZoneAction::Finish).await.unwrap();
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        assert_eq!(fs.space().1, 0);
        assert_eq!(device.zone(3).unwrap().state, ZoneState::Empty);
    });
}

#[test]
fn permissions_and_owners_can_be_changed_until_it_is_unmounted() {
    on(&config(|_| {}), async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), Options::default()).await;
        fs.set_attributes(seq(0), Some(0o104_777), (Some(3), None))
            .unwrap();
        let now = fs.attributes(seq(0)).unwrap();
        assert_eq!((now.perm, now.uid, now.gid), (0o4777, 3, 0));
        let again = ZoneFs::mount(&sim, &device, Options::default())
            .await
            .unwrap();
        assert_eq!(again.attributes(seq(0)).unwrap().perm, 0o640);
    });
}
