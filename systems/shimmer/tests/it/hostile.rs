//! Logs with hostile contents.

use crate::device::Rng;
use crate::model::Run;
use crate::{LIMITS, OPTIONS, Volume, ZONES};
use shimmer::{BLOCK, Core, OpenError, Piece, ZoneReport};

const B: usize = BLOCK as usize;

fn open(reports: &[ZoneReport], logs: [&[u8]; 2]) -> Result<Core, OpenError> {
    Core::open(OPTIONS, LIMITS, reports, logs)
}

/// Recomputes a block's checksum.
fn seal(block: &mut [u8]) {
    let sum = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A volume with a history of random calls, synced.
fn used() -> Run {
    let mut run = Run::new(3, OPTIONS, ZONES);
    for _ in 0..120 {
        run.call();
        run.commands();
    }
    run.sync_all();
    run
}

#[test]
fn random_bytes_as_a_log_cause_no_panic() {
    let run = used();
    let reports = run.volume.device.reports();
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let _ = open(&reports, [bytes, &[]]);
    });
}

#[test]
fn log_with_changed_records_is_consistent_or_refused() {
    let run = used();
    let reports = run.volume.device.reports();
    let logs = [0, 1].map(|zone| run.volume.device.bytes(zone).to_vec());
    bolero::check!()
        .with_type::<Vec<(u8, u16, u8)>>()
        .for_each(|changes| {
            let mut logs = logs.clone();
            for &(block, at, value) in changes {
                let log = &mut logs[usize::from(block & 1)];
                let count = (log.len() / B).max(1);
                let start = usize::from(block / 2) % count * B;
                let Some(block) = log.get_mut(start..start + B) else {
                    continue;
                };
                block[8 + usize::from(at) % 300] = value;
                seal(block);
            }
            if let Ok(core) = open(&reports, [&logs[0], &logs[1]]) {
                core.check();
            }
        });
}

#[test]
fn a_hole_in_the_log_is_damage_and_not_its_end() {
    let run = used();
    let reports = run.volume.device.reports();
    let logs = [0, 1].map(|zone| run.volume.device.bytes(zone).to_vec());
    for zone in [0, 1] {
        let blocks = logs[zone].len() / B;
        for block in 0..blocks.saturating_sub(1) {
            let mut bad = logs.clone();
            bad[zone][block * B + 100] ^= 1;
            let error = open(&reports, [&bad[0], &bad[1]]).unwrap_err();
            assert!(
                matches!(error, OpenError::Damaged { .. }),
                "{zone}, {block}: {error}"
            );
        }
    }
}

#[test]
fn files_beyond_the_written_zones_are_damage() {
    let run = used();
    let logs = [0, 1].map(|zone| run.volume.device.bytes(zone));
    let mut reports = run.volume.device.reports();
    for report in &mut reports[2..] {
        report.written = report.written.min(BLOCK);
    }
    let error = open(&reports, logs).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn nonsensical_reports_cause_no_panic() {
    let mut rng = Rng(1);
    for _ in 0..500 {
        let any = |rng: &mut Rng| match rng.below(4) {
            0 => u64::MAX - rng.below(3),
            1 => rng.below(3),
            _ => rng.below(100 * BLOCK),
        };
        let reports: Vec<_> = (0..6)
            .map(|_| ZoneReport {
                capacity: any(&mut rng),
                written: any(&mut rng),
            })
            .collect();
        let _ = open(&reports, [&[], &[]]);
        if let Ok(core) = Core::format(OPTIONS, LIMITS, &reports, 0) {
            core.check();
        }
    }
}

#[test]
fn logs_of_different_volumes_are_refused() {
    let run = used();
    let other = Volume::small();
    let logs = [other.device.bytes(0), run.volume.device.bytes(1)];
    let reports = run.volume.device.reports();
    // Both logs are of volume 7: change the number of one.
    let mut first = logs[0].to_vec();
    for block in first.chunks_exact_mut(B) {
        block[32] = 9;
        seal(block);
    }
    if !logs[1].is_empty() {
        let error = open(&reports, [&first, logs[1]]).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
    let piece = Piece {
        zone: 0,
        at: 0,
        len: BLOCK,
    };
    assert_eq!(other.device.read(piece), logs[0][..B]);
}
