//! Persistent memory beside an open-channel drive.

use super::hostile::{changed, cut, put, refusal, seal};
use crate::raw::raw;
use sim::{Kernel, Seed};
use ssd::image::{self, Log, Memory, Opened};
use ssd::{Drive, DriveConfig, DriveMedia, Ppa};
use std::io;
use std::sync::Arc;
use units::{GIB, KIB};

/// Kind of the section of the memory.
const KIND: u32 = 10;

fn memory() -> Memory {
    let mut memory = Memory {
        bytes: 64 * KIB + 100,
        ..Memory::default()
    };
    for page in [0, 3, 16] {
        memory.pages.insert(page, Arc::new([page as u8 + 1; 4096]));
    }
    memory
}

fn media(config: &DriveConfig) -> DriveMedia {
    DriveMedia::new(config, Seed(1)).expect("it can be built")
}

fn written(memory: Option<&Memory>) -> Vec<u8> {
    let (config, mut file) = (raw(), Vec::new());
    image::write_with(&config, &media(&config), memory, &mut file).expect("it fits");
    file
}

fn opened(file: &[u8]) -> Opened {
    image::open(&mut &file[..]).expect("a good file")
}

#[test]
fn memory_round_trips_through_a_file() {
    let memory = memory();
    let file = written(Some(&memory));
    let found = opened(&file);
    assert_eq!(found.memory, Some(memory.clone()));
    assert_eq!(written(found.memory.as_ref()), file);
    // A file without such memory, and one with a page of zeros.
    assert_eq!(opened(&written(None)).memory, None);
    let mut with_zeros = memory.clone();
    with_zeros.pages.insert(9, Arc::new([0; 4096]));
    assert_eq!(written(Some(&with_zeros)), file);
}

#[test]
fn impossible_memory_is_rejected_by_writer_and_reader() {
    let refused = |config: &DriveConfig, memory: &Memory| {
        let written = image::write_with(config, &media(config), Some(memory), &mut Vec::new());
        let error = written.expect_err("it does not fit");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        error.to_string()
    };
    let mut larger = memory();
    larger.bytes = 2 * GIB;
    assert!(refused(&raw(), &larger).contains("at most"));
    let mut past = memory();
    past.pages.insert(17, Arc::new([1; 4096]));
    assert!(refused(&raw(), &past).contains("17 pages, and page 17"));
    let maps = super::small("block");
    assert!(refused(&maps, &memory()).contains("maps addresses itself"));
    let file = written(Some(&memory()));
    for (at, bytes, expected) in [
        (4, &[1][..], "the memory beside the drive is"),
        (8, &[99], "pages of memory is 99, expected at most 17"),
        (12, &[200], "a page of memory is 200, expected 0 or more"),
        (
            4_112,
            &[0],
            "a page of memory is 0, expected 1 or more, and below 17",
        ),
    ] {
        let said = refusal(&changed(&file, KIND, put(at, bytes)));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let twice: Vec<_> = cut(&file)
        .into_iter()
        .flat_map(|section| vec![section.clone(); 1 + usize::from(section.0 == KIND)])
        .collect();
    assert!(refusal(&seal(&twice)).contains("the kind of a section is 10, expected 5 (end)"));
}

/// Records have cells and memory as of one instant.
#[test]
fn every_record_has_cells_and_memory_of_one_instant() {
    let (config, mut memory) = (raw(), memory());
    let kernel = Kernel::new();
    let media = media(&config);
    let drive = Drive::ready(&kernel.sim(), &config, media.clone(), Seed(1)).expect("it runs");
    let mut file = Vec::new();
    let mark = image::write_with(&config, &media, Some(&memory), &mut file).expect("it fits");
    let mut log = Log::new(&drive, &media, mark).with_memory();
    let chunks = drive.chunks().expect("it has chunks").clone();
    let geometry = chunks.geometry();
    let (mut rng, mut ends) = (Seed(1).stream("lines"), vec![(file.len(), memory.clone())]);
    for turn in 0..20 {
        for _ in 0..rng.below(4) {
            let line = rng.below(memory.bytes.div_ceil(64)) as u32;
            let held = [rng.below(256) as u8; 64];
            let page = memory.pages.entry(line / 64);
            let page = Arc::make_mut(page.or_insert_with(|| Arc::new([0; 4096])));
            page[line as usize % 64 * 64..][..64].copy_from_slice(&held);
            log.remember([(line, [7; 64]), (line, held)]);
        }
        let writing = chunks.clone();
        let first = turn * geometry.write_min;
        kernel.block_on(async move {
            let blocks = first..first + geometry.write_min;
            let at: Vec<Ppa> = blocks.map(|n| geometry.ppa(geometry.nth(n))).collect();
            let written = crate::raw::write(&writing, &at, u64::from(turn)).await;
            written.expect("in order");
        });
        log.append(&mut file, false)
            .expect("memory takes everything");
        ends.push((file.len(), memory.clone()));
    }
    for (turn, (end, expected)) in ends.into_iter().enumerate() {
        let found = opened(&file[..end]);
        let has = found.memory.expect("it has memory");
        let used = expected
            .pages
            .iter()
            .filter(|(_, held)| held[..] != [0; 4096]);
        assert!(used.eq(has.pages.iter().filter(|(_, held)| held[..] != [0; 4096])));
        let kernel = Kernel::new();
        let drive = Drive::ready(&kernel.sim(), &config, found.media, Seed(1)).expect("it runs");
        let chunks = drive.chunks().expect("it has chunks");
        let all = (0..geometry.all_chunks()).filter_map(|chunk| chunks.info(chunk));
        let there: u32 = all.map(|info| info.write_pointer).sum();
        assert_eq!(there, turn as u32 * geometry.write_min);
    }
    // Without changes there is no record; then there is one of memory alone.
    let before = file.len();
    log.append(&mut file, false).expect("as above");
    assert_eq!(file.len(), before);
    log.remember([(1, [9; 64])]);
    log.append(&mut file, false).expect("as above");
    let pages = opened(&file).memory.expect("it has memory").pages;
    assert_eq!(pages[&0][64..128], [9; 64]);
}

/// Damaged payloads under valid checksums.
#[test]
fn memory_of_random_bytes_is_rejected_or_consistent() {
    let sections = cut(&written(Some(&memory())));
    let place = sections.iter().position(|(kind, _)| *kind == KIND);
    let place = place.expect("it is there");
    bolero::check!()
        .with_type::<Vec<(u8, u16, u8)>>()
        .for_each(|edits| {
            let mut sections = sections.clone();
            let payload = &mut sections[place].1;
            for &(near, at, byte) in edits {
                // Every other change hits the leading numbers.
                let most = if near % 2 == 0 { 20 } else { payload.len() };
                payload[usize::from(at) % most] = byte;
            }
            if let Ok(found) = image::open(&mut &seal(&sections)[..]) {
                let again = written(found.memory.as_ref());
                assert_eq!(written(opened(&again).memory.as_ref()), again);
            }
        });
}
