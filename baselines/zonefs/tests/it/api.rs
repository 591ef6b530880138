//! zonefs under the file API: the rules of its calls hold there too.

use crate::bench::{BLOCK, MOST, config, mounted, on, text};
use sim::Sim;
use vfs::{
    Access, CacheConfig, Clock, Compute, Errno, OpenFlags, Process, RenameFlags, Source, Vfs,
};
use zonefs::{Options, Superblock, ZoneFs};

type Mounted = Vfs<ZoneFs>;

async fn process(sim: &Sim, device: &host::ZonedDevice) -> Process<ZoneFs> {
    let fs = mounted(sim, device, &Superblock::default(), Options::default()).await;
    let vfs: Mounted = Vfs::mount(
        sim,
        fs,
        CacheConfig::default(),
        Clock::default(),
        Compute::free(),
    );
    Process::new(&vfs, Access::default())
}

fn direct() -> OpenFlags {
    OpenFlags::READ | OpenFlags::WRITE | OpenFlags::DIRECT
}

//= zonefs 2
#[test]
fn zones_are_found_by_their_names_and_nothing_else_is() {
    on(
        &config(|zones| zones.conventional = 2),
        async |sim, device| {
            let process = process(&sim, &device).await;
            for (path, size) in [("/seq/7", 0), ("/cnv/0", 16 << 20)] {
                assert_eq!(process.stat(path.as_bytes()).await.unwrap().size, size);
            }
            for path in ["/seq/8", "/seq/07", "/seq/+7", "/cnv/1", "/other", "/seq/"] {
                let found = process.stat(path.as_bytes()).await;
                let wanted = if path.ends_with('/') {
                    None
                } else {
                    Some(Errno::ENOENT)
                };
                assert_eq!(found.err(), wanted, "{path}");
            }
            let made = process
                .open(b"/seq/x", OpenFlags::WRITE | OpenFlags::CREAT, 0o600)
                .await;
            assert_eq!(made.err(), Some(Errno::EPERM));
            assert_eq!(process.mkdir(b"/seq", 0o755).await, Err(Errno::EEXIST));
            assert_eq!(process.mkdir(b"/new", 0o755).await, Err(Errno::EPERM));
            assert_eq!(process.unlink(b"/seq/1").await, Err(Errno::EPERM));
            assert_eq!(
                process
                    .rename(b"/seq/1", b"/seq/y", RenameFlags::default())
                    .await,
                Err(Errno::EPERM)
            );
            let space = process.vfs().body();
            assert_eq!(vfs::Body::stat(space).files, 9);
        },
    );
}

//= zonefs 3
#[test]
fn a_sequential_file_is_written_directly_and_at_its_end() {
    on(&config(|_| {}), async |sim, device| {
        let process = process(&sim, &device).await;
        let fd = process.open(b"/seq/3", direct(), 0).await.unwrap();
        let first = text(0, 3);
        assert_eq!(
            process.write(fd, Source::Bytes(&first)).await,
            Ok(3 * BLOCK)
        );
        let elsewhere = process.pwrite(fd, BLOCK, Source::Bytes(&first)).await;
        assert_eq!(elsewhere, Err(Errno::EINVAL));
        assert_eq!(
            process
                .write(fd, Source::Bytes(&first[..BLOCK as usize]))
                .await,
            Ok(BLOCK)
        );
        assert_eq!(process.stat(b"/seq/3").await.unwrap().size, 4 * BLOCK);
        let cached = OpenFlags::READ | OpenFlags::WRITE;
        let other = process.open(b"/seq/3", cached, 0).await.unwrap();
        let refused = process
            .pwrite(other, 4 * BLOCK, Source::Bytes(b"text"))
            .await;
        assert_eq!(refused, Err(Errno::EIO));
        let bytes = process
            .read_bytes(other, 0, 4 * BLOCK as usize)
            .await
            .unwrap();
        assert_eq!(bytes[..first.len()], first);
        assert_eq!(bytes[first.len()..], first[..BLOCK as usize]);
        process.fsync(fd).await.unwrap();
    });
}

//= zonefs 4
#[test]
fn a_file_is_cut_to_nothing_or_to_all_and_else_stays_as_it_was() {
    on(&config(|_| {}), async |sim, device| {
        let process = process(&sim, &device).await;
        let fd = process.open(b"/seq/0", direct(), 0).await.unwrap();
        process.write(fd, Source::Bytes(&text(0, 2))).await.unwrap();
        assert_eq!(process.ftruncate(fd, BLOCK).await, Err(Errno::EPERM));
        let size = async || process.stat(b"/seq/0").await.unwrap().size;
        assert_eq!(size().await, 2 * BLOCK);
        process.ftruncate(fd, MOST).await.unwrap();
        assert_eq!(size().await, MOST);
        let full = process.pwrite(fd, MOST, Source::Bytes(&text(0, 1))).await;
        assert_eq!(full, Err(Errno::EFBIG));
        process.ftruncate(fd, 0).await.unwrap();
        assert_eq!(size().await, 0);
        let again = process.pwrite(fd, 0, Source::Bytes(&text(9, 1))).await;
        assert_eq!(again, Ok(BLOCK));
    });
}

#[test]
fn a_conventional_file_is_written_anywhere_and_through_the_cache() {
    on(
        &config(|zones| zones.conventional = 2),
        async |sim, device| {
            let process = process(&sim, &device).await;
            let flags = OpenFlags::READ | OpenFlags::WRITE;
            let fd = process.open(b"/cnv/0", flags, 0).await.unwrap();
            process
                .pwrite(fd, 10_000, Source::Bytes(b"here"))
                .await
                .unwrap();
            process.fsync(fd).await.unwrap();
            process.vfs().drop_caches().await.unwrap();
            let bytes = process.read_bytes(fd, 9_999, 6).await.unwrap();
            assert_eq!(bytes, b"\0here\0");
            let past = process.pwrite(fd, 16 << 20, Source::Bytes(b"x")).await;
            assert_eq!(past, Err(Errno::EFBIG));
        },
    );
}
