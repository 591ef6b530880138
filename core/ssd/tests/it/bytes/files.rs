//! Drives with fronts in files: the battery-backed state survives the process too.

use super::model::{Left, Workers};
use super::{all, fronted, run, weak};
use crate::support::recover;
use sim::{Kernel, Rng, Seed};
use ssd::image::{self, ImageError, Log};
use ssd::{Drive, DriveConfig, DriveMedia};
use units::Origin;

fn bytes_of(config: &DriveConfig, media: &DriveMedia) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::write(config, media, &mut bytes).unwrap();
    bytes
}

#[test]
fn front_round_trips_through_a_file() {
    for (seed, (name, config)) in (21..).zip(all().into_iter().chain(weak())) {
        let mut rng = Seed(seed).stream("files");
        run(&config, 300, seed, |event, drive, workers| {
            if rng.below(100) > 0 {
                return;
            }
            let bytes = bytes_of(&config, &drive.at_power_cut());
            let (read_config, media) = image::read(&mut &bytes[..]).unwrap();
            assert_eq!(read_config, config);
            assert_eq!(bytes_of(&config, &media), bytes, "the same bytes again");
            let context = format!("{name}, event {event}");
            super::cut_media(&config, media, workers, event % 41, &context);
        });
    }
}

/// A drive, its file and the log that keeps the file up to date.
struct Followed {
    log: Option<Log>,
    file: Vec<u8>,
}

impl Followed {
    fn note(&mut self, config: &DriveConfig, drive: &Drive) {
        let log = self.log.get_or_insert_with(|| {
            let media = drive.settled();
            let mark = image::write(config, &media, &mut self.file).unwrap();
            Log::new(drive, &media, mark)
        });
        log.append(&mut self.file, false).unwrap();
    }

    /// Checks that the drive in the file is in a state that a power cut may leave.
    fn compare(&self, workers: &Workers, context: &str) -> Left {
        let opened = image::open(&mut &self.file[..]).unwrap();
        let (_kernel, drive) = recover(&opened.config, opened.media);
        drive.check();
        workers.after_cut(&drive, context)
    }
}

#[test]
fn file_with_log_matches_a_power_cut() {
    let [weak @ .., _groups, _failures] = weak();
    for (seed, (name, config)) in (31..).zip(all().into_iter().chain(weak)) {
        let mut rng = Seed(seed).stream("log");
        let mut followed = Followed {
            log: None,
            file: Vec::new(),
        };
        run(&config, 400, seed, |event, drive, workers| {
            if rng.below(25) > 0 && followed.log.is_some() {
                return;
            }
            followed.note(&config, drive);
            let context = format!("{name}, event {event}");
            let left = followed.compare(workers, &context);
            if rng.below(4) == 0 {
                let file = recover_in_file(&followed.file, &left, &mut rng, &context);
                left.check(
                    &recover(&config, image::read(&mut &file[..]).unwrap().1).1,
                    &context,
                );
            }
            if rng.below(12) == 0 {
                // The file is rewritten, with commits that have no lines in its log.
                (followed.log, followed.file) = (None, Vec::new());
            }
        });
    }
}

/// Continues the file in a new process that recovers and stores, and tears its last record at a
/// random point. Returns the file.
fn recover_in_file(file: &[u8], left: &Left, rng: &mut Rng, context: &str) -> Vec<u8> {
    let mut file = file.to_vec();
    let opened = image::open(&mut &file[..]).unwrap();
    let kernel = Kernel::new();
    let (sim, config) = (kernel.sim(), opened.config.clone());
    let drive = Drive::ready(&sim, &config, opened.media.clone(), Seed(3)).unwrap();
    let mut log = Log::new(&drive, &opened.media, opened.end);
    let task = drive.clone();
    sim.spawn_detached(async move {
        task.recover().await.unwrap();
        for line in 0..5 {
            let (at, bytes) = (700 * 4096 + line * 64, [9; 64]);
            task.store(at, &bytes, 0, Origin(0)).await.unwrap();
        }
        if task.has_transactions() {
            task.store(700 * 4096, &[1; 64], 1, Origin(0))
                .await
                .unwrap();
            task.commit(1).await.unwrap();
        }
    });
    for _ in 0..rng.below(90) {
        kernel.step();
        if rng.below(5) == 0 {
            log.append(&mut file, false).unwrap();
        }
    }
    log.append(&mut file, true).unwrap();
    left.check(&drive, context);
    let whole = file.len();
    kernel.run();
    log.append(&mut file, true).unwrap();
    let torn = rng.below((file.len() - whole) as u64) as usize;
    file.truncate(whole + torn);
    file
}

/// The sections of a file, as kind and payload.
fn sections(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut sections, mut rest) = (Vec::new(), &file[12..]);
    while !rest.is_empty() {
        let kind = u32::from_le_bytes(rest[..4].try_into().unwrap());
        let length = u64::from_le_bytes(rest[4..12].try_into().unwrap()) as usize;
        sections.push((kind, rest[16..16 + length].to_vec()));
        rest = &rest[16 + length..];
    }
    sections
}

/// The file with its front section changed, and all checksums valid.
fn changed(file: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = file[..12].to_vec();
    for (number, (kind, mut payload)) in sections(file).into_iter().enumerate() {
        match kind {
            8 => change(&mut payload),
            5 => {
                payload = (number as u64).to_le_bytes().to_vec();
                payload.extend(crc32c::crc32c(&out).to_le_bytes());
            }
            _ => {}
        }
        let mut head = kind.to_le_bytes().to_vec();
        head.extend((payload.len() as u64).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &payload);
        out.extend(head);
        out.extend(checksum.to_le_bytes());
        out.extend(payload);
    }
    out
}

/// A file with two writes in its log, each of 20 bytes and a line; one has committed.
fn with_log() -> Vec<u8> {
    let config = fronted(true, 8, false);
    let kernel = Kernel::new();
    let media = DriveMedia::new(&config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let task = drive.clone();
    kernel.block_on(async move {
        task.store(64, &[1; 64], 1, Origin(2)).await.unwrap();
        task.store(128, &[2; 64], 2, Origin(2)).await.unwrap();
        task.commit(1).await.unwrap();
    });
    bytes_of(&config, &drive.at_power_cut())
}

#[test]
fn impossible_fronts_are_rejected() {
    let file = with_log();
    let kinds: Vec<u32> = sections(&file).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 8, 5]);
    assert_eq!(changed(&file, |_| ()), file);
    let set = |at: usize, with: &'static [u8]| {
        move |front: &mut Vec<u8>| front[at..at + with.len()].copy_from_slice(with)
    };
    let committed = 4 + 2 * 84;
    let wrong = [
        (set(4, &[0xe8, 3, 0, 0]), "page of a write"),
        (set(8, &[64]), "end of a write"),
        (set(9, &[0]), "lines too few"),
        (set(9, &[255]), ""),
        (set(10, &[0, 1]), "origin"),
        (set(16, &[2]), "lines of a write that it has not"),
        (set(committed, &[9]), ""),
        (set(committed + 8, &[1]), ""),
    ];
    for (change, what) in wrong {
        let refused = image::read(&mut &changed(&file, change)[..]);
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(what), "{what}: {refused}");
    }
    let twice = changed(&file, |front| {
        front[committed] = 2;
        let one = front[committed + 4..committed + 8].to_vec();
        let rest = front.split_off(committed + 8);
        front.extend(one);
        front.extend(rest);
    });
    let refused = image::read(&mut &twice[..]).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("commits"), "{refused}");
}

#[test]
fn front_of_random_bytes_does_not_panic() {
    let file = with_log();
    let mut rng = Seed(7).stream("front");
    let mut read = 0;
    for _ in 0..3_000 {
        let changes: Vec<_> = (0..1 + rng.below(3))
            .map(|_| (rng.below(180) as usize, rng.below(256) as u8))
            .collect();
        let file = changed(&file, |front| {
            for &(at, byte) in &changes {
                let at = at % front.len();
                front[at] = byte;
            }
        });
        match image::read(&mut &file[..]) {
            Ok((config, media)) => {
                let (_kernel, drive) = recover(&config, media);
                drive.check();
                read += 1;
            }
            Err(ImageError::Value { .. } | ImageError::Truncated { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(read > 100, "{read}");
}
