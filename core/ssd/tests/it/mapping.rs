//! The map: entries larger than the host's writes, and the memory that the map takes.

use crate::support::stored;
use nand::{BlockId, Payload};
use sim::{Kernel, Seed};
use ssd::{
    Cause, Content, Drive, DriveConfig, DriveMedia, Ledger, Precondition, Preset, ReadCause,
};
use units::{Bytes, Extent, KIB, Origin, Placement};

/// A drive that keeps contents, of 60 lines of 64 sectors of 4 KiB or more.
pub(crate) fn keeping(page_bytes: u32, pages_per_block: u32, sectors: u64) -> DriveConfig {
    let mut config = crate::steady::bare(60, 1);
    config.geometry.page_bytes = page_bytes;
    config.geometry.pages_per_block = pages_per_block;
    config.flash.keep_contents = true;
    config.controller.write_buffer = Bytes(256 * KIB);
    config.capacity = Bytes(sectors * 4096);
    config
}

pub(crate) struct Outcome {
    pub(crate) ledger: Ledger,
    /// Contents of each sector of 4 KiB as read back: its first eight bytes.
    pub(crate) read: Vec<u64>,
    /// Contents written to each sector last.
    pub(crate) written: Vec<u64>,
    /// Sectors of flash whose contents take memory.
    kept: usize,
}

/// Sectors of flash with contents other than zeros.
fn kept(media: &DriveMedia) -> usize {
    let geometry = media.cells.geometry();
    let holds = |block, page, sector| media.cells.payload(block, page, sector) != Payload::Zero;
    let (dies, planes) = (geometry.dies(), geometry.planes);
    let blocks = (0..dies * planes * geometry.blocks_per_plane).map(|number| BlockId {
        die: number % dies,
        plane: number / dies % planes,
        block: number / dies / planes,
    });
    let in_block = |block| {
        let pages = 0..media.cells.written(block);
        let sectors = 0..geometry.sectors_per_page();
        let count = |page| sectors.clone().filter(|&s| holds(block, page, s)).count();
        pages.map(count).sum::<usize>()
    };
    blocks.map(in_block).sum()
}

/// Four workers write sectors of 4 KiB at random. Each worker writes the sectors with its own
/// remainder modulo four, so that they share every larger page.
pub(crate) fn write_sectors(config: &DriveConfig, rounds: u64) -> Outcome {
    const WORKERS: u64 = 4;
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).expect("a good drive");
    let sectors = config.capacity.0 / 4096;
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let drive = drive.clone();
        workers.push(kernel.sim().spawn(async move {
            let mut rng = Seed(2).stream(&format!("worker {worker}"));
            let mut model = vec![0; (sectors / WORKERS) as usize];
            for number in 0..rounds * sectors / WORKERS {
                let slot = rng.below(sectors / WORKERS);
                let tag = (number + 1) << 8 | worker;
                let extent = Extent::new((slot * WORKERS + worker) * 8, 8);
                let (content, placement) = (Content::Fill(tag), Placement(0));
                let done = drive.write(extent, content, placement, Origin(0), false);
                done.await.expect("the drive has room");
                model[slot as usize] = tag;
            }
            model
        }));
    }
    let reader = drive.clone();
    let (read, written) = kernel.block_on(async move {
        let mut written = vec![0; sectors as usize];
        for (worker, done) in workers.into_iter().enumerate() {
            for (slot, tag) in done.await.into_iter().enumerate() {
                written[slot * WORKERS as usize + worker] = tag;
            }
        }
        let mut read = Vec::new();
        for sector in 0..sectors {
            let mut bytes = [0; 4096];
            let extent = Extent::new(sector * 8, 8);
            let done = reader.read(extent, &mut &mut bytes[..]).await;
            done.expect("no fault is injected");
            read.push(u64::from_le_bytes(bytes[..8].try_into().expect("eight")));
        }
        (read, written)
    });
    kernel.run();
    drive.check();
    let off = drive.clone();
    let media = kernel.block_on(async move { off.shutdown().await });
    Outcome {
        kept: kept(&media),
        ledger: drive.ledger(),
        read,
        written,
    }
}

#[test]
fn write_smaller_than_a_mapped_page_reads_it_and_keeps_the_rest() {
    let mut config = keeping(16 * KIB as u32, 16, 8_000);
    let small = write_sectors(&config, 4);
    assert_eq!(small.read, small.written);
    assert_eq!(small.ledger.reads[ReadCause::Rmw as usize], 0);
    assert_eq!(small.ledger.by_cause(Cause::Rmw), 0);

    config.mapping.unit = Bytes(16 * KIB);
    let large = write_sectors(&config, 4);
    assert_eq!(large.read, large.written);
    assert_eq!(large.written, small.written, "the workload is the same");
    let writes = large.ledger.host_write_sectors / 8;
    let reads = large.ledger.reads[ReadCause::Rmw as usize];
    let programmed = large.ledger.by_cause(Cause::Rmw);
    eprintln!("16 KiB units: {reads} reads and {programmed} programs for {writes} writes");
    assert_eq!(
        large.ledger.by_cause(Cause::Host),
        0,
        "no write covers a page"
    );
    // Pages that are not written yet, or still in the buffer, need no read.
    assert!(
        reads < writes && reads > writes * 8 / 10,
        "{reads} of {writes}"
    );
    assert!(
        programmed < writes && programmed > writes * 8 / 10,
        "{programmed} of {writes}"
    );
    // Two thousand pages with eight thousand writes a round: most writes program a page of 16 KiB
    // for 4 KiB.
    let host_bytes = writes * 4096;
    let media_bytes = large.ledger.user_pages() * 16 * KIB;
    assert!(
        media_bytes > 3 * host_bytes,
        "{media_bytes} for {host_bytes}"
    );
}

/// Every block is stored, as on a drive that was written all over. It has 18 % more flash than the host sees, and every page of flash has a word in a spare
/// area. So the limit is ten bytes for a page of flash, and a little more for a page of the host.
#[test]
fn map_and_spare_areas_take_ten_bytes_a_flash_page() {
    let config = (Preset::named("block").expect("a preset").config)();
    let media = Precondition::Aged
        .media(&config, Seed(1))
        .expect("a good drive");
    let media = stored(&config, &media);
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good drive");
    let (map, spare) = drive.memory();
    let layout = drive.layout();
    let host = f64::from(layout.host_pages);
    let flash = f64::from(layout.lines()) * f64::from(layout.line_pages);
    let (of_flash, of_host) = ((map + spare) as f64 / flash, (map + spare) as f64 / host);
    eprintln!("{of_flash:.2} bytes a page of flash, {of_host:.2} a page of the host");
    assert!(of_flash < 10.0, "{map} and {spare}");
    assert!(of_host < 10.6, "{map} and {spare}");
}

#[test]
fn superseded_contents_take_no_memory() {
    for (page_bytes, pages_per_block) in [(4 * KIB, 64), (16 * KIB, 16)] {
        let config = keeping(page_bytes as u32, pages_per_block, 3_000);
        let outcome = write_sectors(&config, 6);
        assert_eq!(outcome.read, outcome.written);
        assert!(outcome.ledger.by_cause(Cause::Gc) > 0, "some were moved");
        let mapped = outcome.written.iter().filter(|&&tag| tag != 0).count();
        assert_eq!(outcome.kept, mapped);
    }
}
