//! Open channels: the operations and the reports of a host that holds the mapping.

mod cuts;
mod faults;

use crate::support::tiny;
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::{
    Cause, ChunkState, Chunks, Content, Drive, DriveConfig, DriveMedia, Interface, Mark, Meta,
    Place, Ppa, Preset, RawConfig, RawError, RawGeometry, RawStatus, ReadCause, Unwritten, image,
};
use std::future::Future;
use units::{Bytes, Extent, Ns, Origin, Placement};

/// Two channels of one unit: 26 chunks each of 8 programs of 4 blocks.
pub(crate) fn raw() -> DriveConfig {
    let mut config = tiny(true);
    config.interface = Interface::OpenChannel;
    config.geometry.spare_words = 4;
    config.geometry.spare_bytes = 128;
    config.raw = Some(RawConfig {
        cached: 0,
        read_unwritten: Unwritten::Error,
    });
    config
}

/// Host data without a known origin.
const MARK: Mark = Mark {
    cause: Cause::Host,
    origin: Origin(0),
};

fn shape(config: &DriveConfig) -> RawGeometry {
    RawGeometry::new(config).unwrap().unwrap()
}

/// Runs `work` on the chunks of a new drive.
fn on_chunks<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    work: impl FnOnce(Sim, Chunks) -> F,
) -> (T, Drive, Kernel) {
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    on_media(config, media, work)
}

fn on_media<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    media: DriveMedia,
    work: impl FnOnce(Sim, Chunks) -> F,
) -> (T, Drive, Kernel) {
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    let chunks = drive.chunks().unwrap().clone();
    let done = kernel.block_on(work(kernel.sim(), chunks));
    drive.check();
    (done, drive, kernel)
}

/// `count` blocks of a chunk from block `from` on.
fn list(geometry: &RawGeometry, chunk: u32, from: u32, count: u32) -> Vec<Ppa> {
    let place = |block| Place {
        block,
        ..geometry.chunk_place(chunk)
    };
    (from..from + count)
        .map(|block| geometry.ppa(place(block)))
        .collect()
}

fn meta(number: u64) -> Meta {
    let mut meta = [0xa5; 16];
    meta[..8].copy_from_slice(&number.to_le_bytes());
    meta
}

/// Writes blocks whose contents and metadata encode their address and `tag`.
pub(crate) async fn write(chunks: &Chunks, at: &[Ppa], tag: u64) -> Result<(), RawError> {
    let payload: Vec<Payload> = at
        .iter()
        .map(|ppa| Payload::Fill(ppa.0 ^ tag << 32))
        .collect();
    let metas: Vec<Meta> = at.iter().map(|ppa| meta(ppa.0 ^ tag << 32)).collect();
    let marks = vec![MARK; at.len()];
    chunks.write(at, &payload, &metas, &marks).await
}

/// Whether the blocks at `at` have the contents that [`write`] wrote at `were`.
async fn holds(chunks: &Chunks, at: &[Ppa], were: &[Ppa], tag: u64) -> bool {
    let read = chunks.read(at, ReadCause::Host).await.unwrap();
    let same = |(block, ppa): (&ssd::RawBlock, &Ppa)| {
        let number = ppa.0 ^ tag << 32;
        block.payload == Payload::Fill(number) && block.meta == meta(number)
    };
    read.len() == were.len() && read.iter().zip(were).all(same)
}

//= ocssd-2.0 1.2.3
//= ocssd-2.0 2.1
#[test]
fn geometry_matches_the_flash_and_addresses_are_unique() {
    let geometry = shape(&raw());
    assert_eq!(
        (geometry.groups, geometry.units, geometry.chunks),
        (2, 1, 26)
    );
    assert_eq!((geometry.blocks, geometry.write_min), (32, 4));
    let mut last = None;
    for number in 0..geometry.all_chunks() * geometry.blocks {
        let place = geometry.nth(number);
        let ppa = geometry.ppa(place);
        assert_eq!(geometry.place(ppa), Some(place));
        assert_eq!(geometry.number(place), number);
        assert!(last.replace(ppa) < Some(ppa), "addresses grow");
    }
    // 26 chunks take five bits, so six chunk numbers are invalid.
    assert_eq!(geometry.place(Ppa(26 << 5)), None);
    assert_eq!(geometry.place(Ppa(2 << 10)), None);
    assert_eq!(geometry.place(Ppa(u64::MAX)), None);
}

//= hyfim 4
#[test]
fn hyfim_preset_has_the_published_geometry() {
    let config = (Preset::named("hyfim-ocssd").unwrap().config)();
    let geometry = shape(&config);
    assert_eq!(
        (geometry.groups, geometry.units, geometry.chunks),
        (8, 2, 1_478)
    );
    // 768 pages of 16 KiB in each of two planes, and one page of both at a time.
    assert_eq!((geometry.blocks, geometry.write_min), (6_144, 8));
    assert_eq!(config.geometry.bytes(), 595_121_405_952);
    assert_eq!(config.capacity.0 / 1_000_000_000, 507);
    assert!(geometry.all_chunks() * geometry.blocks < u32::MAX / 2);
}

#[test]
fn write_reads_back_with_metadata_and_is_counted() {
    let config = raw();
    let geometry = shape(&config);
    let (ok, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        // Two chunks of different units, interleaved in one command.
        let (a, b) = (list(&geometry, 3, 0, 8), list(&geometry, 30, 0, 8));
        let both: Vec<Ppa> = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]).collect();
        write(&chunks, &both, 1).await.unwrap();
        let mut back = both.clone();
        back.reverse();
        holds(&chunks, &back, &back, 1).await
    });
    assert!(ok);
    let info = |chunk| drive.chunks().unwrap().info(chunk).unwrap();
    assert_eq!(
        (info(3).state, info(3).write_pointer),
        (ChunkState::Open, 8)
    );
    assert_eq!(
        (info(4).state, info(4).write_pointer),
        (ChunkState::Free, 0)
    );
    let ledger = drive.ledger();
    assert_eq!(ledger.by_cause(Cause::Host), 16);
    assert_eq!(
        (ledger.host_write_sectors, ledger.host_read_sectors),
        (128, 128)
    );
    // 8 KiB pages: four rows of two planes in each chunk, half of them used by 8 blocks.
    assert_eq!(ledger.reads[ReadCause::Host as usize], 8);
    assert_eq!(drive.flash_counters().program_pages, 8);
}

//= ocssd-2.0 1.2.5
//= ocssd-2.0 4
#[test]
fn impossible_lists_are_rejected_with_their_status() {
    let config = raw();
    let geometry = shape(&config);
    on_chunks(&config, move |_, chunks| async move {
        let at = |chunk, from, count| list(&geometry, chunk, from, count);
        let invalid = [
            vec![],
            at(0, 0, 3),
            [at(0, 0, 4), at(0, 0, 4)].concat(),
            [at(0, 0, 32), at(1, 0, 32), at(2, 0, 4)].concat(),
        ];
        for list in invalid {
            let error = write(&chunks, &list, 0).await.unwrap_err();
            assert_eq!(error.status, RawStatus::InvalidField, "{list:?}");
        }
        let none = [at(0, 0, 1), vec![Ppa(26 << 5)]].concat();
        let none = write(&chunks, &none, 0).await.unwrap_err();
        assert_eq!((none.status, none.failed), (RawStatus::OutOfRange, 0b10));
    });
}

//= ocssd-2.0 1.2.5
//= ocssd-2.0 4
#[test]
fn illegal_chunk_commands_are_rejected_with_their_status() {
    use RawStatus::{InvalidReset, OutOfOrder, Unwritten};
    let config = raw();
    let geometry = shape(&config);
    on_chunks(&config, move |_, chunks| async move {
        let at = |chunk, from, count| list(&geometry, chunk, from, count);
        let status = |result: Result<(), RawError>| result.unwrap_err().status;
        let state = |chunk| chunks.info(chunk).unwrap().state;
        let (head, rest) = (at(0, 0, 4), at(0, 4, 28));
        assert_eq!(status(write(&chunks, &rest, 0).await), OutOfOrder);
        write(&chunks, &head, 0).await.unwrap();
        assert_eq!(status(write(&chunks, &head, 0).await), OutOfOrder);
        // A rejected chunk does not prevent the write to another chunk of the command.
        let half = write(&chunks, &[head.clone(), at(1, 0, 4)].concat(), 0).await;
        assert_eq!(half.unwrap_err().failed, 0b1111);
        assert_eq!(chunks.info(1).unwrap().write_pointer, 4);
        let read = chunks.read(&at(0, 2, 4), ReadCause::Host).await;
        let read = read.unwrap_err();
        assert_eq!((read.status, read.failed), (Unwritten, 0b1100));
        for chunk in [5, 0] {
            let reset = chunks.reset(&at(chunk, 0, 1)).await;
            assert_eq!(status(reset), InvalidReset, "{:?}", state(chunk));
        }
        write(&chunks, &rest, 0).await.unwrap();
        assert_eq!(state(0), ChunkState::Closed);
        assert_eq!(status(write(&chunks, &head, 0).await), OutOfOrder);
        chunks.reset(&at(0, 7, 1)).await.unwrap();
        assert_eq!(state(0), ChunkState::Free);
        assert_eq!(status(chunks.reset(&head[..1]).await), InvalidReset);
        let read = chunks.read(&head[..1], ReadCause::Host).await;
        assert_eq!(read.unwrap_err().status, Unwritten);
    });
}

//= ocssd-2.0 3.4
#[test]
fn copy_moves_contents_and_metadata() {
    let config = raw();
    let geometry = shape(&config);
    let (ok, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        let from = list(&geometry, 0, 0, 8);
        write(&chunks, &from, 9).await.unwrap();
        let picked = [from[5], from[1], from[7], from[2]];
        let to = list(&geometry, 27, 0, 4);
        let mark = Mark {
            cause: Cause::Copy,
            ..MARK
        };
        chunks.copy(&picked, &to, &[mark; 4]).await.unwrap();
        holds(&chunks, &to, &picked, 9).await
    });
    assert!(ok);
    assert_eq!(drive.ledger().by_cause(Cause::Copy), 4);
}

//= ocssd-2.0 1.2.5
#[test]
fn cached_blocks_become_readable_after_later_writes() {
    let mut config = raw();
    for unwritten in [Unwritten::Error, Unwritten::Zeros] {
        config.raw = Some(RawConfig {
            cached: 8,
            read_unwritten: unwritten,
        });
        let geometry = shape(&config);
        on_chunks(&config, move |_, chunks| async move {
            let all = list(&geometry, 0, 0, 32);
            write(&chunks, &all[..12], 0).await.unwrap();
            assert!(holds(&chunks, &all[..4], &all[..4], 0).await);
            let early = chunks.read(&all[4..5], ReadCause::Host).await;
            match unwritten {
                Unwritten::Error => assert_eq!(early.unwrap_err().status, RawStatus::Unwritten),
                Unwritten::Zeros => assert_eq!(early.unwrap()[0].payload, Payload::Zero),
            }
            write(&chunks, &all[12..], 0).await.unwrap();
            assert!(
                holds(&chunks, &all, &all, 0).await,
                "a closed chunk is read to its end"
            );
        });
    }
}

#[test]
fn idle_latency_is_the_sum_of_its_parts() {
    let config = raw();
    let (geometry, timing) = (shape(&config), config.timing().unwrap());
    let (spans, ..) = on_chunks(&config, move |sim, chunks| async move {
        let at = list(&geometry, 0, 0, 4);
        let begin = sim.now();
        write(&chunks, &at, 0).await.unwrap();
        let written = sim.now();
        let _ = chunks.read(&at[..1], ReadCause::Host).await.unwrap();
        (written.since(begin), sim.now().since(written))
    });
    let controller = config.controller;
    let moved = |blocks: u64| controller.command + Ns(controller.dram_per_unit.0 * blocks);
    let bus = |bytes| timing.command + Ns::transfer(bytes, timing.bus_bytes_per_s);
    assert_eq!(spans.0, moved(4) + bus(4 * 4096) + timing.program);
    assert_eq!(spans.1, moved(1) + timing.read + bus(4096 + 16));
}

#[test]
fn logical_block_commands_are_rejected() {
    let config = raw();
    let (_, drive, kernel) = on_chunks(&config, |_, _| async {});
    assert_eq!(drive.capacity(), Bytes(1000 * 4096));
    assert!(drive.peek(0).is_none() && !drive.is_mapped(0));
    let (one, refused) = (Extent::new(0, 8), drive.clone());
    kernel.block_on(async move {
        let content = Content::Fill(1);
        let written = refused.write(one, content, Placement(0), Origin(0), false);
        assert!(written.await.is_err());
        assert!(refused.read(one, &mut ()).await.is_err());
        assert!(refused.trim(one).await.is_err());
        refused.flush().await.unwrap();
    });
}

#[test]
fn drive_file_keeps_chunks_and_metadata() {
    let config = raw();
    let geometry = shape(&config);
    let (_, drive, _kernel) = on_chunks(&config, move |_, chunks| async move {
        for chunk in [0, 7, 51] {
            write(&chunks, &list(&geometry, chunk, 0, 12), 3)
                .await
                .unwrap();
        }
        write(&chunks, &list(&geometry, 0, 12, 20), 3)
            .await
            .unwrap();
    });
    let mut file = Vec::new();
    image::write(&config, &drive.at_power_cut(), &mut file).unwrap();
    let (read, media) = image::read(&mut file.as_slice()).unwrap();
    assert_eq!(read, config);
    let mut again = Vec::new();
    image::write(&read, &media, &mut again).unwrap();
    assert_eq!(file, again);
    let before: Vec<_> = (0..52).map(|c| drive.chunks().unwrap().info(c)).collect();
    let (ok, drive, _kernel) = on_media(&config, media, move |_, chunks| async move {
        let at = [list(&geometry, 0, 0, 32), list(&geometry, 51, 0, 12)].concat();
        holds(&chunks, &at, &at, 3).await
    });
    assert!(ok);
    let after: Vec<_> = (0..52).map(|c| drive.chunks().unwrap().info(c)).collect();
    assert_eq!(before, after);
}

#[test]
fn impossible_raw_config_names_the_knob() {
    let says = |change: fn(&mut DriveConfig)| {
        let mut config = raw();
        change(&mut config);
        DriveMedia::new(&config, Seed(1))
            .map_err(|e| e.to_string())
            .and_then(|media| {
                let kernel = Kernel::new();
                let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1));
                drive.map(drop).map_err(|e| e.to_string())
            })
            .unwrap_err()
    };
    assert!(says(|c| c.raw = None).contains("a table [raw]"));
    assert!(says(|c| c.interface = Interface::Block).contains("a table [raw]"));
    assert!(says(|c| c.geometry.spare_words = 1).contains("16 bytes of metadata"));
    assert!(says(|c| c.geometry.spare_words = 17).contains("at most 16"));
    assert!(says(|c| c.raw.as_mut().unwrap().cached = 3).contains("a multiple of 4"));
    assert!(says(|c| c.raw.as_mut().unwrap().cached = 32).contains("below 32"));
    assert!(says(|c| c.capacity = Bytes(1 << 40)).contains("bytes of the flash"));
    let wide = says(|c| {
        (c.geometry.pages_per_program, c.geometry.page_bytes) = (8, 32_768);
        c.geometry.spare_bytes = 512;
    });
    assert!(wide.contains("at most 64"));
    let full = ssd::Precondition::Full.media(&raw(), Seed(1)).unwrap_err();
    assert!(full.to_string().contains("the host of this drive"));
}
