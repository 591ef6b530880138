//! Power cuts after every command, and in the middle of it.

use crate::device::Rng;
use crate::model::{Known, Run};
use crate::{OPTIONS, Volume, ZONES, bytes};
use shimmer::{Core, FileId, Options};

/// Whether a file with these bytes and this path is a valid outcome of a power cut.
fn may_be(known: &Known, read: &[u8], path: &[u8]) -> bool {
    let least = known
        .since
        .iter()
        .map(|(bytes, _)| bytes.len())
        .min()
        .unwrap_or(0);
    let least = if known.synced { least } else { 0 };
    let content = known.since.iter().any(|(bytes, _)| bytes.starts_with(read));
    let named = known
        .since
        .iter()
        .any(|(_, was)| was.as_deref() == Some(path));
    content && named && read.len() >= least
}

fn judge(run: &Run, volume: &mut Volume) {
    let found: Vec<(Vec<u8>, FileId)> = volume
        .core
        .files()
        .map(|(path, id)| (path.to_vec(), id))
        .collect();
    for (path, id) in &found {
        let Some(known) = run.known.get(id) else {
            continue;
        };
        let read = volume.all(*id);
        assert!(
            may_be(known, &read, path),
            "{id:?} at {}",
            String::from_utf8_lossy(path)
        );
    }
    for (id, known) in &run.known {
        let unlinked = known.since.iter().any(|(_, path)| path.is_none());
        let there = found.iter().any(|(_, there)| there == id);
        assert!(there || unlinked || !known.synced, "{id:?} is lost");
    }
}

/// Cuts the power, recovers and judges; then writes on, and cuts again.
fn cut(run: &Run, rng: &mut Rng, options: Options) {
    let mut device = run.volume.device.clone();
    let mut core = run.volume.core.clone();
    let held = run.volume.held.iter().cloned();
    let next = held.chain(std::iter::from_fn(|| core.next_command()));
    for (_, command) in next {
        device.run_torn(&command, rng);
    }
    device.cut(rng);
    let mut volume = Volume::reopened(device, options);
    judge(run, &mut volume);
    let id = volume
        .core
        .create(b"/after", shimmer::Placement::default())
        .unwrap();
    let written = volume
        .append(id, &bytes(1, 100))
        .and_then(|()| volume.sync(id));
    volume.device.cut(rng);
    let mut again = Volume::reopened(volume.device, options);
    judge(run, &mut again);
    if written.is_ok() {
        assert_eq!(again.all(id), bytes(1, 100));
    }
}

#[test]
fn synced_data_survive_a_cut_at_any_command() {
    let zenfs = Options {
        extent: OPTIONS.extent,
        buffers: 2,
        log_blocks_max: 5,
        ..Options::zenfs()
    };
    for (options, zones) in [(OPTIONS, ZONES), (OPTIONS, 8), (zenfs, ZONES)] {
        let mut cuts = 0;
        for seed in 0..12 {
            let mut run = Run::new(1000 + seed, options, zones);
            let mut rng = Rng(seed);
            for _ in 0..150 {
                run.call();
                for _ in 0..2 {
                    cut(&run, &mut rng, options);
                    run.commands();
                    cuts += 1;
                }
            }
        }
        assert_eq!(cuts, 12 * 300);
    }
}

/// Cuts the power after each command of a sync, also while a call waits for it.
#[test]
fn sync_survives_a_cut_at_each_of_its_commands() {
    let mut volume = Volume::small();
    let id = volume.create("/a", 1);
    let mut rng = Rng(5);
    let mut acked = 0;
    let mut data = Vec::new();
    for round in 0..40 {
        data.extend(bytes(round, 700));
        let at = data.len() as u64 - 700;
        volume.write(id, at, &data[at as usize..]).unwrap();
        let sync = volume.core.sync(id).unwrap();
        loop {
            let outcome = volume.core.poll_sync(sync);
            if let Some(outcome) = &outcome {
                outcome.as_ref().unwrap();
                acked = data.len();
            }
            for _ in 0..4 {
                let mut device = volume.device.clone();
                device.cut(&mut rng);
                let mut after = Volume::reopened(device, OPTIONS);
                let read = if acked > 0 || after.core.status(id).is_some() {
                    after.all(id)
                } else {
                    vec![]
                };
                assert!(
                    read.len() >= acked && data.starts_with(&read),
                    "round {round}"
                );
            }
            if outcome.is_some() {
                break;
            }
            assert!(volume.step());
        }
    }
}

#[test]
fn sync_of_all_files_restores_exactly_their_contents() {
    for seed in 0..20 {
        let mut run = Run::new(seed, OPTIONS, ZONES);
        let mut rng = Rng(seed);
        for _ in 0..200 {
            run.call();
            run.commands();
        }
        run.sync_all();
        let exact = run.known.values().all(|known| known.since.len() == 1);
        assert!(exact, "there is room in this run");
        let mut device = run.volume.device.clone();
        device.cut(&mut rng);
        let mut after = Volume::reopened(device, OPTIONS);
        let paths: Vec<_> = after
            .core
            .files()
            .map(|(path, id)| (path.to_vec(), id))
            .collect();
        assert_eq!(paths, run.paths.clone().into_iter().collect::<Vec<_>>());
        for (_, id) in paths {
            assert!(after.all(id) == run.known[&id].bytes, "{id:?}");
        }
    }
}

#[test]
fn a_volume_whose_first_snapshot_was_cut_is_blank() {
    let mut device = crate::device::Device::new(ZONES, crate::BLOCKS, crate::LIMITS);
    device.bytes_mut(0).extend([0xdb; 4096]);
    let logs = [device.bytes(0), device.bytes(1)];
    let error = Core::open(OPTIONS, crate::LIMITS, &device.reports(), logs).unwrap_err();
    assert_eq!(error, shimmer::OpenError::Unformatted { blank: true });
}
