//! The log of a drive file: at each instant the file with its log equals the drive.

use super::{bytes_of, contents, read, small};
use nand::Payload;
use sim::{Kernel, Rng, Seed};
use ssd::image::{self, Log, Mark};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Layout, Precondition, Preset};
use units::{Bytes, Extent, MIB, Origin, Placement};

/// A drive under power, its file, and the host's view of its contents.
struct Bench {
    config: DriveConfig,
    kernel: Kernel,
    drive: Drive,
    log: Log,
    file: Vec<u8>,
    rng: Rng,
    /// For each page: the pattern that the host wrote; `None` if deallocated or never written.
    written: Vec<Option<u64>>,
}

impl Bench {
    fn new(config: DriveConfig, past: Precondition, seed: u64) -> Self {
        let media = past.media(&config, Seed(seed)).unwrap();
        let mut file = Vec::new();
        let mark = image::write(&config, &media, &mut file).unwrap();
        let mut bench = Self::power_on(config, &media, file, mark, seed);
        let pages = bench.drive.layout().host_pages;
        bench.written = (0..pages).map(|page| bench.pattern(page)).collect();
        bench
    }

    fn power_on(
        config: DriveConfig,
        media: &DriveMedia,
        file: Vec<u8>,
        mark: Mark,
        seed: u64,
    ) -> Self {
        let kernel = Kernel::new();
        let drive = Drive::ready(&kernel.sim(), &config, media.clone(), Seed(seed)).unwrap();
        let log = Log::new(&drive, media, mark);
        Self {
            config,
            kernel,
            drive,
            log,
            file,
            rng: Seed(seed).stream("log"),
            written: Vec::new(),
        }
    }

    /// The pattern that a page repeats; `None` if it is unmapped.
    fn pattern(&self, page: u32) -> Option<u64> {
        let bytes = self.drive.peek(page)?[0].to_bytes();
        Some(u64::from_le_bytes(*bytes.first_chunk().unwrap()))
    }

    /// Runs one command of the host to its completion.
    fn command(&mut self) {
        let per_page = self.config.mapping.unit.0 / 512;
        let pages = self.written.len() as u64;
        let first = self.rng.below(pages);
        let count = 1 + self.rng.below((pages - first).min(5));
        let extent = Extent::new(first * per_page, (count * per_page) as u32);
        let pattern = match self.rng.below(6) {
            0 => None,
            _ => Some(self.rng.next_u64()),
        };
        let drive = self.drive.clone();
        self.kernel.block_on(async move {
            let answer = match pattern {
                None => drive.trim(extent).await,
                Some(pattern) => {
                    let bytes = pattern.to_le_bytes().repeat(extent.sectors as usize * 64);
                    // The log stores bytes once and later refers to them; patterns are stored each
                    // time.
                    let content = match pattern & 1 {
                        0 => Content::Fill(pattern),
                        _ => Content::Bytes(&bytes),
                    };
                    drive
                        .write(extent, content, Placement(0), Origin(0), false)
                        .await
                }
            };
            answer.unwrap();
        });
        let range = first as usize..(first + count) as usize;
        self.written[range].fill(pattern);
    }

    /// Advances the simulation by some events.
    fn idle(&mut self) {
        for _ in 0..self.rng.below(40) {
            self.kernel.step();
        }
    }

    fn note(&mut self) {
        self.log.append(&mut self.file, false).unwrap();
    }

    /// Checks that the file equals the settled drive.
    fn compare(&self) {
        let opened = image::open(&mut &self.file[..]).unwrap();
        assert_eq!(opened.end, self.log.mark());
        let settled = self.drive.settled();
        for index in 0..self.drive.layout().geometry.blocks() as usize {
            let block = self.drive.layout().geometry.block_at(index);
            assert_eq!(
                opened.media.cells.export(block),
                settled.cells.export(block)
            );
        }
        let found = contents(&self.config, opened.media);
        assert_eq!(found, contents(&self.config, settled));
        if self.config.controller.power_loss_protection {
            self.compare_with_host(&found);
        }
    }

    /// Checks that every acknowledged write and deallocation is present.
    fn compare_with_host(&self, found: &[Option<Vec<Payload>>]) {
        for (page, (found, pattern)) in found.iter().zip(&self.written).enumerate() {
            let expected = Payload::Fill(pattern.unwrap_or(0)).to_bytes();
            let found = found.as_ref().map_or(&Payload::Zero, |found| &found[0]);
            assert!(found.to_bytes() == expected, "page {page}");
        }
    }
}

fn all() -> impl Iterator<Item = (DriveConfig, Precondition, u64)> {
    let pasts = [Precondition::Fresh, Precondition::Aged];
    let kinds = [("block", true), ("block", false), ("fdp", true)];
    pasts.into_iter().flat_map(move |past| {
        kinds.into_iter().zip(1..).map(move |((name, plp), seed)| {
            let mut config = small(name);
            config.controller.power_loss_protection = plp;
            config.faults.program_failures = 3_000;
            config.faults.erase_failures = 1_000;
            (config, past, seed)
        })
    })
}

#[test]
fn file_with_log_matches_a_power_cut() {
    for (config, past, seed) in all() {
        let mut bench = Bench::new(config, past, seed);
        for round in 0..400 {
            bench.command();
            bench.idle();
            if bench.rng.below(3) == 0 || round % 40 == 39 {
                bench.note();
            }
            if round % 40 == 39 {
                bench.compare();
            }
        }
    }
}

/// Growth of the log over `writes` random writes, and the bytes programmed meanwhile.
fn growth(config: DriveConfig, writes: usize) -> (u64, u64) {
    let page = config.geometry.page_bytes;
    let mut bench = Bench::new(config, Precondition::Aged, 1);
    let mut rng = Seed(5).stream("growth");
    let mut write = |bench: &mut Bench| {
        let sectors = bench.config.mapping.unit.0 / 512;
        let first = rng.below(bench.written.len() as u64) * sectors;
        let (drive, value) = (bench.drive.clone(), rng.next_u64());
        bench.kernel.block_on(async move {
            let bytes = value.to_le_bytes().repeat(sectors as usize * 64);
            let extent = Extent::new(first, sectors as u32);
            let what = Content::Bytes(&bytes);
            let written = drive.write(extent, what, Placement(0), Origin(0), false);
            written.await.unwrap();
        });
        bench.kernel.run();
    };
    // From then on all relocated data are bytes that the host wrote.
    for _ in 0..2 * bench.written.len() {
        write(&mut bench);
        bench.note();
    }
    let before = (bench.file.len(), bench.drive.flash_counters().program_pages);
    for _ in 0..writes {
        write(&mut bench);
        bench.note();
    }
    let pages = bench.drive.flash_counters().program_pages - before.1;
    let opened = image::open(&mut &bench.file[..]).unwrap();
    let found = contents(&bench.config, opened.media);
    assert_eq!(found, contents(&bench.config, bench.drive.settled()));
    (
        (bench.file.len() - before.0) as u64,
        pages * u64::from(page),
    )
}

#[test]
fn log_stores_relocated_contents_only_once() {
    for plp in [true, false] {
        let preset = (Preset::named("block").unwrap().config)();
        let mut config = preset.resized(Bytes(16 * MIB));
        config.flash.keep_contents = true;
        config.controller.write_buffer = Bytes(MIB);
        config.controller.power_loss_protection = plp;
        // Leaves as little spare flash as the drive can do with.
        while Layout::new(&config).is_ok() {
            config.capacity.0 += MIB;
        }
        config.capacity.0 -= MIB;
        let (writes, unit) = (2000, config.mapping.unit.0);
        let (grown, programmed) = growth(config, writes);
        let written = writes as u64 * unit;
        assert!(
            programmed > written * 3 / 2,
            "much is moved: {programmed} of {written}"
        );
        // A record also has counters and the spare areas of the programmed pages.
        let most = written + writes as u64 * 2048 + programmed / 64;
        assert!((written..most).contains(&grown), "{grown} of {written}");
    }
}

#[test]
fn log_continues_after_its_last_whole_record() {
    for (config, past, seed) in all() {
        let mut bench = Bench::new(config, past, seed);
        for life in 0..4 {
            for _ in 0..60 {
                bench.command();
                bench.idle();
                bench.note();
            }
            bench.compare();
            // The process dies while it writes a record.
            let whole = bench.file.len();
            bench.command();
            bench.kernel.run();
            bench.log.append(&mut bench.file, true).unwrap();
            let written = std::mem::take(&mut bench.written);
            let torn = bench.rng.below((bench.file.len() - whole) as u64) as usize;
            let mut file = bench.file[..whole + torn].to_vec();
            let opened = image::open(&mut &file[..]).unwrap();
            assert_eq!(opened.end.offset, whole as u64);
            file.truncate(whole);
            let next = Bench::power_on(bench.config, &opened.media, file, opened.end, seed + life);
            bench = next;
            bench.written = written;
            // Whether the interrupted command took effect is unknown.
            for page in 0..bench.written.len() {
                bench.written[page] = bench.pattern(page as u32);
            }
        }
    }
}

#[test]
fn second_log_continues_from_settled_media() {
    for (config, past, seed) in all() {
        let mut bench = Bench::new(config, past, seed);
        for _ in 0..3 {
            for _ in 0..50 {
                bench.command();
                bench.idle();
                bench.note();
            }
            let settled = bench.drive.settled();
            let mut next = Log::new(&bench.drive, &settled, Mark::default());
            for _ in 0..20 {
                bench.command();
                bench.idle();
                bench.note();
            }
            let mut file = Vec::new();
            next.set_mark(image::write(&bench.config, &settled, &mut file).unwrap());
            next.append(&mut file, true).unwrap();
            (bench.log, bench.file) = (next, file);
            bench.compare();
        }
    }
}

#[test]
fn last_record_of_a_shut_down_drive_counts_no_power_cut() {
    for (config, past, seed) in all() {
        let mut bench = Bench::new(config, past, seed);
        for _ in 0..10 {
            bench.command();
            bench.idle();
            bench.note();
        }
        let cuts = |file: &[u8]| {
            image::open(&mut &file[..])
                .unwrap()
                .media
                .smart
                .unsafe_shutdowns
        };
        assert_eq!(cuts(&bench.file), 1);
        let drive = bench.drive.clone();
        let left = bench.kernel.block_on(async move { drive.shutdown().await });
        bench.log.append_last(&mut bench.file).unwrap();
        assert_eq!((left.smart.unsafe_shutdowns, cuts(&bench.file)), (0, 0));
        bench.compare();
    }
}

/// A small file with a few records, and the length of the file without them.
fn logged() -> (Vec<u8>, usize) {
    let (config, past, seed) = all().next().unwrap();
    let mut bench = Bench::new(config, past, seed);
    let base = bench.file.len();
    for _ in 0..6 {
        bench.command();
        bench.idle();
        bench.note();
    }
    (bench.file, base)
}

#[test]
fn truncated_log_ends_at_a_whole_record() {
    let (file, base) = logged();
    let mut ends = Vec::new();
    for end in (base..file.len()).step_by(7).chain([file.len()]) {
        let opened = image::open(&mut &file[..end]).unwrap();
        assert_eq!(opened.base.offset, base as u64);
        assert!(opened.end.offset <= end as u64);
        ends.push(opened.end.offset);
    }
    ends.dedup();
    assert_eq!(ends.len(), 7, "six records, and none");
    assert!(ends.is_sorted());
}

#[test]
fn changed_log_is_rejected_or_ends_earlier() {
    let (file, base) = logged();
    let whole = bytes_of(
        &read(&file).unwrap().0,
        &image::open(&mut &file[..]).unwrap().media,
    );
    for at in (base..file.len()).step_by(5) {
        let mut file = file.clone();
        file[at] ^= 1;
        let Ok(opened) = image::open(&mut &file[..]) else {
            continue;
        };
        // A changed length that reaches past the end looks like a truncated record.
        assert!(opened.end.offset <= at as u64, "byte {at}");
        assert_ne!(bytes_of(&opened.config, &opened.media), whole);
    }
}

#[test]
fn records_after_another_file_are_rejected() {
    let (file, base) = logged();
    let (config, media) = read(&file[..base]).unwrap();
    let mut other = media.clone();
    other.smart.power_cycles += 1;
    let mut mixed = bytes_of(&config, &other);
    mixed.extend_from_slice(&file[base..]);
    let refused = read(&mixed).unwrap_err().to_string();
    assert!(refused.contains("checksum"), "{refused}");
    let mut twice = file.clone();
    twice.extend_from_slice(&file[base..]);
    assert!(read(&twice).is_err(), "records are not laid twice");
}
