//! Chunks that go bad: failed programs, failed erases, factory defects, unreadable blocks.

use super::{list, on_chunks, on_media, raw, shape, write};
use sim::Seed;
use ssd::{ChunkState, DriveMedia, Noticed, RawStatus, ReadCause};

//= ocssd-2.0 2.3
#[test]
fn failed_program_closes_chunk_and_reset_takes_it_offline() {
    let mut config = raw();
    config.faults.program_failures = 200_000;
    let geometry = shape(&config);
    let (closed, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        let mut closed = Vec::new();
        for chunk in 0..20 {
            let all = list(&geometry, chunk, 0, 32);
            let Err(error) = write(&chunks, &all, 0).await else {
                continue;
            };
            assert_eq!(error.status, RawStatus::EarlyClose);
            let info = chunks.info(chunk).unwrap();
            let wp = info.write_pointer;
            assert_eq!((info.state, info.blocks), (ChunkState::Closed, wp));
            assert!(info.blocks < geometry.blocks);
            assert_eq!(
                error.failed,
                u64::from(u32::MAX) >> wp << wp,
                "all from there on"
            );
            if wp > 0 {
                let kept = &all[..wp as usize];
                assert!(super::holds(&chunks, kept, kept, 0).await);
            }
            closed.push(chunk);
        }
        closed
    });
    assert!(closed.len() > 5, "{closed:?}");
    let notices = drive.chunks().unwrap().take_notices();
    let told: Vec<_> = notices
        .iter()
        .map(|n| (geometry.place(n.chunk).unwrap(), n.what))
        .collect();
    let expected: Vec<_> = closed
        .iter()
        .map(|&chunk| (geometry.chunk_place(chunk), Noticed::EarlyClose))
        .collect();
    assert_eq!(told, expected);
    assert!(notices.iter().map(|n| n.number).eq(1..=closed.len() as u64));
    let left = resets_make_them_offline(&config, &drive, &closed);
    stays_offline(&config, left, &closed);
}

/// Cuts the power: chunks closed early are unchanged after it, and resets take them offline.
fn resets_make_them_offline(
    config: &ssd::DriveConfig,
    drive: &ssd::Drive,
    closed: &[u32],
) -> DriveMedia {
    let before: Vec<_> = closed
        .iter()
        .map(|&c| drive.chunks().unwrap().info(c))
        .collect();
    let (again, left) = (closed.to_vec(), drive.at_power_cut());
    let (after, drive, _kernel) = on_media(config, left, move |_, chunks| async move {
        let mut after = Vec::new();
        for &chunk in &again {
            let info = chunks.info(chunk).unwrap();
            after.push(Some(info));
            let reset = chunks.reset(&[info.start]).await;
            let bad = info.state == ChunkState::Closed;
            assert!(!bad || reset.unwrap_err().status == RawStatus::OfflineChunk);
        }
        after
    });
    for (before, after) in before
        .into_iter()
        .zip(after)
        .map(|(b, a)| (b.unwrap(), a.unwrap()))
    {
        let same = before == after;
        // An empty chunk with a bad block may be found offline.
        let lost = before.write_pointer == 0 && after.state == ChunkState::Offline;
        assert!(same || lost, "{before:?} {after:?}");
    }
    drive.at_power_cut()
}

/// Checks that chunks are offline after a power cycle and reject every command.
fn stays_offline(config: &ssd::DriveConfig, media: DriveMedia, offline: &[u32]) {
    let (geometry, offline) = (shape(config), offline.to_vec());
    on_media(config, media, move |_, chunks| async move {
        for chunk in offline {
            let at = list(&geometry, chunk, 0, 4);
            assert_eq!(chunks.info(chunk).unwrap().state, ChunkState::Offline);
            let status = |result: Result<(), ssd::RawError>| result.unwrap_err().status;
            assert_eq!(
                status(chunks.reset(&at[..1]).await),
                RawStatus::OfflineChunk
            );
            assert_eq!(status(write(&chunks, &at, 0).await), RawStatus::OutOfOrder);
            let read = chunks.read(&at, ReadCause::Host).await;
            assert_eq!(read.unwrap_err().status, RawStatus::Unwritten);
        }
    });
}

#[test]
fn failed_erase_takes_chunk_offline_permanently() {
    let mut config = raw();
    // One plane: with several, the other blocks of the chunk could still be read after a failed
    // erase.
    config.geometry.planes = 1;
    config.capacity = units::Bytes(500 * 4096);
    config.faults.erase_failures = 500_000;
    let geometry = shape(&config);
    let (offline, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        let mut offline = Vec::new();
        for chunk in 0..12 {
            write(&chunks, &list(&geometry, chunk, 0, 16), 0)
                .await
                .unwrap();
            let info = chunks.info(chunk).unwrap();
            if let Err(error) = chunks.reset(&[info.start]).await {
                assert_eq!(error.status, RawStatus::OfflineChunk);
                offline.push(chunk);
            }
        }
        offline
    });
    assert!(!offline.is_empty() && offline.len() < 12, "{offline:?}");
    let notices = drive.chunks().unwrap().take_notices();
    assert!(notices.iter().all(|notice| notice.what == Noticed::Offline));
    assert_eq!(notices.len(), offline.len());
    stays_offline(&config, drive.at_power_cut(), &offline);
}

#[test]
fn factory_bad_chunks_are_offline() {
    let mut config = raw();
    config.faults.factory_bad_blocks = 200_000;
    let media = DriveMedia::new(&config, Seed(4)).unwrap();
    let (_, drive, _kernel) = on_media(&config, media, |_, _| async {});
    let states = (0..52).map(|c| drive.chunks().unwrap().info(c).unwrap().state);
    let offline = states.filter(|&state| state == ChunkState::Offline).count();
    assert!((5..40).contains(&offline), "{offline}");
    assert_eq!(drive.free_lines() as usize, 52 - offline);
}

#[test]
fn uncorrectable_read_is_notified() {
    let mut config = raw();
    config.faults.read_retries = 1_000_000;
    config.faults.read_passes = 2;
    let geometry = shape(&config);
    let (_, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        let at = list(&geometry, 2, 0, 4);
        write(&chunks, &at, 0).await.unwrap();
        let error = chunks.read(&at, ReadCause::Host).await.unwrap_err();
        assert_eq!(
            (error.status, error.failed),
            (RawStatus::UnrecoveredRead, 0b1111)
        );
    });
    let notices = drive.chunks().unwrap().take_notices();
    assert!(notices.iter().all(|n| n.what == Noticed::Unrecoverable) && !notices.is_empty());
    assert_eq!(drive.smart().media_errors, 1);
}
