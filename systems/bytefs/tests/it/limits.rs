//! Limits: transactions that do not fit, and numbers that run out.

use crate::bench::{
    BLOCKS, Contents, Strategy, assert_clean, holding, mounted, open, root, small, strict,
};
use bytefs::{Handle, Options};
use extfs::{DataWrite, Persist};
use host::{BytePort, Who};
use nand::Payload;
use sim::{Kernel, Seed};
use std::sync::Arc;
use units::Placement;
use vfs::{DirtyPage, Errno, Source};

/// Contents with the record of a mount that has used all TxIDs before `next`.
fn with_next(contents: Contents, next: u32) -> Contents {
    let mut contents = contents;
    let mut bytes = contents[&0].to_bytes();
    bytes[8..12].copy_from_slice(&next.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    contents.insert(0, Payload::Bytes(Arc::new(bytes)));
    contents
}

#[test]
fn numbers_begin_anew_and_leave_out_those_that_the_drive_knows() {
    for tx_ids in [1, 3, 1 << 16] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = holding(&sim, with_next(small(), u32::MAX - 20));
        let kept = disk.clone();
        kernel.block_on(async move {
            // Transactions that another user of the drive committed since power-on.
            for tx in 1..=5 {
                let at = (BLOCKS - 1) * 4_096;
                disk.store(at, &[0; 64], tx, Who::default()).await.unwrap();
                disk.verify().await.unwrap();
                disk.commit(tx).await.unwrap();
            }
            let options = Options {
                tx_ids: tx_ids.max(6),
                ..strict()
            };
            let vfs = mounted(&sim, &disk, options).await;
            let process = root(&vfs);
            for file in 0..30 {
                open(&process, &format!("/{file}")).await;
            }
            let metrics = vfs.body().persist().metrics();
            assert_eq!(metrics.skipped_ids, 5);
            assert!(metrics.commits >= 30);
            process.exit().await;
            vfs.unmount().await.unwrap();
        });
        let image = kept.to_image();
        let next = u32::from_le_bytes(image[8..12].try_into().unwrap());
        assert!((6..100).contains(&next), "{next}");
        assert_clean(&image);
    }
}

#[test]
fn what_can_never_fit_is_refused_and_what_does_not_fit_is_split() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, small());
    let kept = disk.clone();
    kernel.block_on(async move {
        let options = Options {
            open_lines: 7_040,
            ..strict()
        };
        let vfs = mounted(&sim, &disk, options).await;
        let strategy = vfs.body().persist().clone();
        assert_eq!(strategy.begin(111).await.err(), Some(Errno::ENOSPC));
        let mut tx = strategy.begin(105).await.unwrap();
        assert!(strategy.extend(&mut tx, 5));
        assert!(!strategy.extend(&mut tx, 1));
        strategy.end(tx).await.unwrap();
        // Each piece is an extent of its own: to free them takes many handles.
        let process = root(&vfs);
        let fd = open(&process, "/file").await;
        for piece in 0..400 {
            let at = piece * 8_192;
            process
                .pwrite(fd, at, Source::Bytes(&[1; 10]))
                .await
                .unwrap();
        }
        process.fsync(fd).await.unwrap();
        let before = strategy.newest().0;
        process.ftruncate(fd, 0).await.unwrap();
        let handles = strategy.newest().0 - before;
        assert!(handles > 3, "{handles} handles");
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_clean(&kept.to_image());
}

#[test]
fn contents_that_find_no_room_go_as_blocks() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, small());
    kernel.block_on(async move {
        let options = Options {
            open_lines: 6_000,
            ..strict()
        };
        let vfs = mounted(&sim, &disk, options).await;
        let strategy = vfs.body().persist().clone();
        let page = |byte: u8| {
            let mut page = [0; 4_096];
            page[..4 * 64].fill(byte);
            let before = Some(Payload::Zero);
            let (index, now) = (0, Payload::Bytes(Arc::new(page)));
            [DirtyPage { index, now, before }]
        };
        assert_eq!(write(&strategy, None, &page(1)).await, (1, 0));
        let tx = strategy.begin(93).await.unwrap();
        // 48 lines are left.
        assert_eq!(write(&strategy, None, &page(2)).await, (1, 0));
        let all: Vec<DirtyPage> = (0..13).flat_map(|_| page(3)).collect();
        assert_eq!(write(&strategy, None, &all).await, (0, 13));
        assert_eq!(
            write(&strategy, Some(tx), &all).await,
            (13, 0),
            "its room is free"
        );
        let one = strategy.begin(0).await.unwrap();
        let tx = strategy.begin(93).await.unwrap();
        assert_eq!(write(&strategy, Some(one), &all).await, (0, 13));
        strategy.end(tx).await.unwrap();
        strategy.force_all().await.unwrap();
        let left = disk.after_cut(&mut Seed(1).stream("cut"));
        let kept = left[&(BLOCKS - 1)].to_bytes();
        assert_eq!((kept[0], kept[255], kept[256]), (3, 3, 0));
    });
}

/// Writes pages to the last blocks; how many by bytes, and how many by blocks.
async fn write(strategy: &Strategy, tx: Option<Handle>, pages: &[DirtyPage]) -> (u64, u64) {
    let write = DataWrite {
        start: BLOCKS - pages.len() as u64,
        pages,
        held: u64::MAX,
        end: u64::MAX,
        placement: Placement(0),
        who: Who::default(),
    };
    let before = strategy.metrics();
    strategy.write_data(tx, &[write]).await.unwrap();
    let cost = strategy.metrics() - before;
    (cost.byte_pages, cost.block_pages)
}
