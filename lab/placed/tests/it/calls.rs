//! Single calls on placed files.

use crate::bench::{Fs, on};
use vfs::{FallocateMode, Fd, Hint, OpenFlags, Process, Source};

async fn made(process: &Process<Fs>, path: &str) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    process.open(path.as_bytes(), flags, 0o644).await.unwrap()
}

fn fill(pattern: u64, len: u64) -> Source<'static> {
    Source::Fill { pattern, len }
}

#[test]
fn placed_file_takes_no_space_of_the_ordinary_file_system() {
    on(16, async |process| {
        let body = process.vfs().clone();
        let below = || vfs::Body::stat(body.body().below()).blocks_free;
        let before = below();
        let fd = made(&process, "/a").await;
        process.write(fd, fill(5, 3 << 20)).await.unwrap();
        process.fsync(fd).await.unwrap();
        assert_eq!(below(), before);
        assert_eq!(body.body().in_zones(), 3 << 20);
        let other = made(&process, "/c").await;
        process.write(other, fill(5, 1 << 20)).await.unwrap();
        process.fsync(other).await.unwrap();
        assert_eq!(before - below(), 256);
        process.exit().await;
    });
}

#[test]
fn overwrite_moves_the_file_out_of_its_zones_with_all_bytes() {
    on(16, async |process| {
        let fd = made(&process, "/a").await;
        process.write(fd, fill(5, 300_001)).await.unwrap();
        process.fsync(fd).await.unwrap();
        let vfs = process.vfs().clone();
        assert!(vfs.body().in_zones() > 0);
        process
            .pwrite(fd, 10, Source::Bytes(b"past"))
            .await
            .unwrap();
        assert_eq!(vfs.body().in_zones(), 0);
        let bytes = process.read_bytes(fd, 0, 400_000).await.unwrap();
        let mut want = 5_u64.to_le_bytes().repeat(40_000);
        want.truncate(300_001);
        want[10..14].copy_from_slice(b"past");
        assert!(bytes == want);
        process.exit().await;
    });
}

#[test]
fn fallocate_of_a_placed_file_takes_no_space_before_data() {
    on(16, async |process| {
        let fd = made(&process, "/a").await;
        let keep = FallocateMode::Allocate { keep_size: true };
        process.fallocate(fd, keep, 0, 1 << 20).await.unwrap();
        process.write(fd, fill(9, 5_000)).await.unwrap();
        process.fsync(fd).await.unwrap();
        let vfs = process.vfs().clone();
        assert_eq!(vfs.body().in_zones(), 8_192);
        let grow = FallocateMode::Allocate { keep_size: false };
        process.fallocate(fd, grow, 0, 1 << 20).await.unwrap();
        assert_eq!(vfs.body().in_zones(), 8_192, "it stays in its zones");
        assert_eq!(process.stat(b"/a").await.unwrap().size, 5_000);
        process.exit().await;
    });
}

/// Zones of removed logs are reset, and tables that stay are not moved.
#[test]
fn zones_of_removed_files_are_reused_without_moves() {
    on(12, async |process| {
        let vfs = process.vfs().clone();
        for round in 0..40_u32 {
            let path = format!("/log{round}");
            let fd = made(&process, &path).await;
            process.set_hint(fd, Hint::Short).unwrap();
            process
                .write(fd, fill(1 + u64::from(round), 6 << 20))
                .await
                .unwrap();
            process.fsync(fd).await.unwrap();
            process.close(fd).await.unwrap();
            if round % 8 == 0 {
                let kept = format!("/table{round}");
                let fd = made(&process, &kept).await;
                process.write(fd, fill(77, 1 << 20)).await.unwrap();
                process.fsync(fd).await.unwrap();
                process.close(fd).await.unwrap();
            }
            process.unlink(path.as_bytes()).await.unwrap();
        }
        let told = vfs::Body::log_stats(vfs.body()).unwrap();
        assert!(told.background.calls >= 12, "{told:?}");
        assert_eq!(told.background.moved_bytes, 0, "{told:?}");
        let fd = process.open(b"/table8", OpenFlags::READ, 0).await.unwrap();
        let bytes = process.read_bytes(fd, 0, 1 << 20).await.unwrap();
        assert!(bytes == 77_u64.to_le_bytes().repeat(1 << 17));
        process.exit().await;
    });
}
