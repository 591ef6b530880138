//! The paper's example, to the address, and tests that need private state.

use crate::tables::Look;
use crate::{FormatOptions, Options, Remap, Variant, format, open};
use host::{BlockPort, RamDisk, Who};
use sim::{Kernel, Sim};
use ssd::Content;
use units::{Bytes, Extent, Placement};

async fn made(sim: &Sim, options: Options) -> Remap<RamDisk> {
    let disk = RamDisk::new(sim, Bytes(16 << 20));
    format(&disk, &FormatOptions::default()).await.unwrap();
    open(sim, &disk, options).await.unwrap()
}

async fn write(remap: &Remap<RamDisk>, sector: u64, sectors: u32, pattern: u64) {
    let (extent, content) = (Extent::new(sector, sectors), Content::Fill(pattern));
    let to = (Placement(0), Who::default());
    remap.write(extent, content, to, false).await.unwrap();
}

/// Transformed address of an original sector, in sectors of the data area.
fn transformed(remap: &Remap<RamDisk>, sector: u64) -> Option<u64> {
    let look = remap.shared.state.borrow_mut().newest((sector / 8) as u32);
    match look {
        Look::At(unit) => unit.map(|unit| u64::from(unit) * 8),
        // The first read or commit loads the table.
        Look::Missing(_) | Look::Lost => None,
    }
}

/// Moves the append pointer to `sector` of the data area.
fn next(remap: &Remap<RamDisk>, sector: u64) {
    let state = &mut *remap.shared.state.borrow_mut();
    state.space.append_at((sector / 8) as u32);
}

async fn read(remap: &Remap<RamDisk>, sector: u64) -> u8 {
    let mut bytes = [0; 4096];
    let (extent, mut sink) = (Extent::new(sector, 8), &mut bytes[..]);
    remap.read(extent, &mut sink, Who::default()).await.unwrap();
    bytes[0]
}

//= remap 3.2
#[test]
fn paper_example_matches_to_the_address() {
    for variant in Variant::ALL {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.block_on(async move {
            let options = Options {
                variant,
                ..Options::default()
            };
            let remap = made(&sim, options).await;
            // Figure 4: three writes, each placed behind the one before.
            next(&remap, 200);
            for (sector, sectors, pattern) in [(6544, 8, 1), (7136, 16, 2), (5728, 8, 3)] {
                assert_eq!(transformed(&remap, sector), None);
                write(&remap, sector, sectors, pattern).await;
            }
            let of = |sector| transformed(&remap, sector);
            assert_eq!(
                [6544, 7136, 7144, 5728].map(of),
                [200, 208, 216, 224].map(Some)
            );
            // Figure 5: reads go where the writes went.
            for (sector, pattern) in [(6544, 1), (7136, 2), (7144, 2), (5728, 3)] {
                assert_eq!(read(&remap, sector).await, pattern);
            }
            remap.flush().await.unwrap();
            // Figure 6: overwrites leave holes.
            next(&remap, 800);
            for (sector, sectors, pattern) in [(6544, 8, 4), (7136, 16, 5), (5728, 8, 6)] {
                write(&remap, sector, sectors, pattern).await;
            }
            let of = |sector| transformed(&remap, sector);
            assert_eq!(
                [6544, 7136, 7144, 5728].map(of),
                [800, 808, 816, 824].map(Some)
            );
            let holds = |sector: u64| {
                let state = remap.shared.state.borrow();
                let unit = (sector / 8) as u32;
                (
                    state.space.holds(unit).is_some(),
                    state.space.free.has(unit),
                )
            };
            // The holes become free only with the commit.
            assert_eq!([200, 208, 216, 224].map(holds), [(true, false); 4]);
            remap.flush().await.unwrap();
            assert_eq!([200, 208, 216, 224].map(holds), [(false, true); 4]);
            assert_eq!([800, 808, 816, 824].map(holds), [(true, false); 4]);
            for (sector, pattern) in [(6544, 4), (7136, 5), (7144, 5), (5728, 6)] {
                assert_eq!(read(&remap, sector).await, pattern);
            }
            remap.check().unwrap();
        });
    }
}

//= remap 3.5
#[test]
fn flush_logs_the_transaction_of_figure_7() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let remap = made(&sim, Options::default()).await;
        next(&remap, 1000);
        write(&remap, 2472, 8, 7).await;
        let (layout, sums) = (remap.shared.layout, remap.shared.sums);
        let (head, tx) = {
            let state = remap.shared.state.borrow();
            (state.log.head, state.log.next_tx)
        };
        let block = async || {
            let units = [layout.log + head];
            let read = remap
                .shared
                .read_units(&units, host::Purpose::Journal)
                .await;
            read.unwrap()[0].to_bytes()
        };
        assert!(crate::format::decode_log(&block().await, sums).is_none());
        remap.flush().await.unwrap();
        let (record, pairs) = crate::format::decode_log(&block().await, sums).unwrap();
        let pair = crate::format::Pair {
            orig: 2472 / 8,
            trans: 1000 / 8,
        };
        assert_eq!((record.tx, record.index, record.blocks), (tx, 0, 1));
        assert_eq!(pairs, [pair]);
    });
}
