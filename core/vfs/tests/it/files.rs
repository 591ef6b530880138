//! Contents of files: direct and mapped access, ranges, offsets, attributes.

use crate::bench::{cache, errno, fill, make, mount, slow, user, with_root};
use sim::Kernel;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{
    Access, CacheConfig, Errno, FallocateMode, Hint, MAX_TRANSFER, OpenFlags, PAGE, Process,
    Source, Whence, XattrFlags,
};

#[test]
fn direct_writes_and_cached_reads_see_each_other() {
    let kernel = Kernel::new();
    let vfs = mount(&kernel.sim(), slow(&kernel.sim()), cache(1024));
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let cached = make(&process, "/f").await;
        let direct = process
            .open(b"/f", OpenFlags::BOTH | OpenFlags::DIRECT, 0)
            .await
            .unwrap();
        fill(&process, cached, 0, 2 * PAGE).await;
        let read = process.read_bytes(direct, PAGE, 512).await.unwrap();
        assert_eq!(read, [1; 512], "dirty pages are written back first");
        let source = Source::Bytes(&[9; 1024]);
        assert_eq!(process.pwrite(direct, PAGE, source).await, Ok(1024));
        let read = process.read_bytes(cached, PAGE + 1000, 48).await.unwrap();
        assert_eq!(read, [&[9; 24][..], &[1; 24]].concat());
        let odd = process.pwrite(direct, 7, Source::Bytes(b"x")).await;
        assert_eq!(errno(odd), Errno::EINVAL);
        let past = Source::Fill {
            pattern: 3,
            len: 512,
        };
        assert_eq!(process.pwrite(direct, 4 * PAGE, past).await, Ok(512));
        assert_eq!(process.fstat(direct).await.unwrap().size, 4 * PAGE + 512);
        let tail = process.read_bytes(direct, 4 * PAGE, 4096).await.unwrap();
        assert_eq!(tail.len(), 512, "as far as there is something");
        let all = process.pread(direct, 0, 1 << 60, &mut ()).await;
        assert_eq!(all, Ok(4 * PAGE + 512), "what is asked for takes no memory");
        let odd = process.pread(direct, 0, 8 * PAGE + 7, &mut ()).await;
        assert_eq!(errno(odd), Errno::EINVAL);
    });
    vfs.check();
}

#[test]
fn an_absurd_length_takes_neither_memory_nor_time() {
    let kernel = Kernel::new();
    let (body, config) = (MemFs::new(Bytes(1 << 20)), CacheConfig::default());
    let vfs = mount(&kernel.sim(), body, config);
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::DIRECT;
        let fd = process.open(b"/f", flags, 0o600).await.unwrap();
        process.ftruncate(fd, 1 << 40).await.unwrap();
        let sim = process.vfs().sim().clone();
        let most = |start| {
            let costs = config.costs;
            let spent = costs.call.0 + costs.page.0 * (MAX_TRANSFER / PAGE);
            assert_eq!(sim.now().since(start), Ns(spent));
        };
        let start = sim.now();
        let absurd = Source::Fill {
            pattern: 1,
            len: i64::MAX as u64,
        };
        let odd = process.pwrite(fd, 1, absurd).await;
        assert_eq!(errno(odd), Errno::EINVAL);
        most(start);
        let start = sim.now();
        let odd = process.pread(fd, 1, u64::MAX, &mut ()).await;
        assert_eq!(errno(odd), Errno::EINVAL);
        most(start);
        let other = process.open(b"/g", flags, 0o600).await.unwrap();
        let full = process.pwrite(other, 0, absurd).await;
        assert_eq!(errno(full), Errno::ENOSPC);
    });
}

#[test]
fn what_goes_around_the_cache_in_pieces_is_whole() {
    with_root(|p| async move {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::DIRECT;
        let fd = p.open(b"/f", flags, 0o600).await.unwrap();
        let (pattern, len) = (0x0807_0605_0403_0201, (34 << 20) + 512);
        let source = Source::Fill { pattern, len };
        assert_eq!(p.pwrite(fd, 512, source).await, Ok(len));
        let bytes = p.read_bytes(fd, 512, 35 << 20).await.unwrap();
        assert_eq!(bytes.len() as u64, len);
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty() && words.iter().all(|word| *word == [1, 2, 3, 4, 5, 6, 7, 8]));
    });
}

#[test]
fn ranges_are_punched_zeroed_and_sought() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        fill(&p, fd, 0, 8 * PAGE).await;
        p.fallocate(fd, FallocateMode::Punch, PAGE + 100, 3 * PAGE)
            .await
            .unwrap();
        let read = p.read_bytes(fd, PAGE, 200).await.unwrap();
        assert_eq!(read, [&[1; 100][..], &[0; 100]].concat());
        assert_eq!(p.lseek(fd, Whence::Hole(0)).await, Ok(2 * PAGE));
        assert_eq!(p.lseek(fd, Whence::Data(2 * PAGE + 5)).await, Ok(4 * PAGE));
        assert_eq!(p.lseek(fd, Whence::Hole(5 * PAGE)).await, Ok(8 * PAGE));
        assert_eq!(
            errno(p.lseek(fd, Whence::Data(8 * PAGE)).await),
            Errno::ENXIO
        );
        let grow = FallocateMode::Allocate { keep_size: false };
        p.fallocate(fd, grow, 9 * PAGE, PAGE).await.unwrap();
        assert_eq!(p.fstat(fd).await.unwrap().size, 10 * PAGE);
        let keep = FallocateMode::Allocate { keep_size: true };
        p.fallocate(fd, keep, 20 * PAGE, PAGE).await.unwrap();
        assert_eq!(p.fstat(fd).await.unwrap().size, 10 * PAGE);
        assert_eq!(errno(p.fallocate(fd, keep, 0, 0).await), Errno::EINVAL);
    });
}

#[test]
fn when_the_space_runs_out_what_was_written_counts() {
    let kernel = Kernel::new();
    let vfs = mount(&kernel.sim(), MemFs::new(Bytes(10 * PAGE)), cache(1024));
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let fd = make(&process, "/f").await;
        let source = Source::Fill {
            pattern: 1,
            len: 20 * PAGE,
        };
        assert_eq!(process.pwrite(fd, 100, source).await, Ok(10 * PAGE - 100));
        let more = process.pwrite(fd, 10 * PAGE, source).await;
        assert_eq!(errno(more), Errno::ENOSPC);
        assert_eq!(process.fstat(fd).await.unwrap().size, 10 * PAGE);
        process.unlink(b"/f").await.unwrap();
        process.close(fd).await.unwrap();
        assert_eq!(process.vfs().statfs().await.unwrap().blocks_free, 10);
    });
    vfs.check();
}

#[test]
fn offsets_move_with_reads_writes_and_seeks() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        assert_eq!(p.write(fd, Source::Bytes(b"hello")).await, Ok(5));
        let copy = p.dup(fd).unwrap();
        assert_eq!(p.lseek(copy, Whence::Current(-4)).await, Ok(1));
        let mut out = [0; 8];
        assert_eq!(p.read(fd, 8, &mut out.as_mut_slice()).await, Ok(4));
        assert_eq!(&out[..4], b"ello");
        assert_eq!(errno(p.lseek(fd, Whence::End(-9)).await), Errno::EINVAL);
        let append = p
            .open(b"/f", OpenFlags::WRITE | OpenFlags::APPEND, 0)
            .await
            .unwrap();
        assert_eq!(p.write(append, Source::Bytes(b"!")).await, Ok(1));
        assert_eq!(p.lseek(append, Whence::Current(0)).await, Ok(6));
    });
}

#[test]
fn mapped_pages_are_part_of_the_file() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        fill(&p, fd, 0, PAGE + 10).await;
        let (vfs, handle) = (p.vfs().clone(), p.handle(fd).unwrap());
        let bytes = Source::Bytes(&[7; 20]);
        let written = vfs.map_write(&handle, PAGE + 5, bytes).await;
        assert_eq!(written, Ok(5), "as far as the file goes");
        let written = vfs.map_write(&handle, PAGE + 10, bytes).await;
        assert_eq!(written, Ok(0));
        assert_eq!(p.fstat(fd).await.unwrap().size, PAGE + 10, "the size stays");
        let read = p.read_bytes(fd, PAGE, 50).await.unwrap();
        assert_eq!(read, [1, 1, 1, 1, 1, 7, 7, 7, 7, 7]);
        p.ftruncate(fd, PAGE + 30).await.unwrap();
        let read = p.read_bytes(fd, PAGE + 10, 50).await.unwrap();
        assert_eq!(read, [0; 20], "nothing came in past the end");
        let past = vfs.map_write(&handle, 2 * PAGE, Source::Bytes(b"x")).await;
        assert_eq!(errno(past), Errno::ENXIO);
    });
}

#[test]
fn ranges_are_copied_between_files() {
    with_root(|p| async move {
        let (from, to) = (make(&p, "/f").await, make(&p, "/g").await);
        p.pwrite(from, 0, Source::Bytes(b"0123456789"))
            .await
            .unwrap();
        assert_eq!(p.copy_file_range(from, 2, to, 3, 100).await, Ok(8));
        assert_eq!(p.read_bytes(to, 0, 50).await.unwrap(), b"\0\0\x0023456789");
        let overlap = p.copy_file_range(from, 0, from, 2, 5).await;
        assert_eq!(errno(overlap), Errno::EINVAL);
    });
}

#[test]
fn extended_attributes_obey_their_namespaces() {
    with_root(|p| async move {
        let other = user(&p, 1, 1);
        make(&p, "/f").await;
        p.symlink(b"f", b"/l").await.unwrap();
        p.chmod(b"/f", 0o644).await.unwrap();
        let any = XattrFlags::Any;
        p.set_xattr(b"/f", b"user.a", b"1", any).await.unwrap();
        p.set_xattr(b"/f", b"trusted.b", b"2", any).await.unwrap();
        assert_eq!(other.get_xattr(b"/f", b"user.a").await.unwrap(), b"1");
        assert_eq!(
            errno(other.get_xattr(b"/f", b"trusted.b").await),
            Errno::ENODATA
        );
        assert_eq!(
            errno(other.set_xattr(b"/f", b"user.a", b"", any).await),
            Errno::EACCES
        );
        assert_eq!(
            errno(p.set_xattr(b"/f", b"odd.x", b"", any).await),
            Errno::EOPNOTSUPP
        );
        assert_eq!(
            errno(p.set_xattr(b"/f", b"user.", b"", any).await),
            Errno::EINVAL
        );
        let long = [b"user.".as_slice(), &[b'x'; 251]].concat();
        assert_eq!(
            errno(p.set_xattr(b"/f", &long, b"", any).await),
            Errno::ERANGE
        );
        assert_eq!(
            other.list_xattrs(b"/f").await.unwrap(),
            [b"user.a".to_vec()]
        );
        let create = p.set_xattr(b"/f", b"user.a", b"", XattrFlags::Create).await;
        assert_eq!(errno(create), Errno::EEXIST);
        let ino = p.lstat(b"/l").await.map(|_| ()).and(Ok(()));
        assert_eq!(ino, Ok(()));
    });
}

#[test]
fn hints_of_a_file_are_kept_with_its_inode() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        p.set_hint(fd, Hint::Long).unwrap();
        let ino = p.ino(fd).unwrap();
        assert_eq!(p.vfs().hint(ino).await, Ok(Hint::Long));
    });
}

#[test]
fn sizes_past_the_largest_are_refused() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        let past = p.pwrite(fd, i64::MAX as u64, Source::Bytes(b"x")).await;
        assert_eq!(errno(past), Errno::EFBIG);
        assert_eq!(errno(p.ftruncate(fd, 1 << 63).await), Errno::EFBIG);
        let last = p
            .pwrite(fd, i64::MAX as u64 - 1, Source::Bytes(b"xy"))
            .await;
        assert_eq!(last, Ok(1), "as much as fits");
        let read = p.read_bytes(fd, i64::MAX as u64 - 2, 9).await.unwrap();
        assert_eq!(read, b"\0x");
    });
}

#[test]
fn a_medium_in_place_is_read_and_written_as_asked() {
    let kernel = Kernel::new();
    let body = MemFs::slow(&kernel.sim(), Bytes(64 << 20), Ns::us(100))
        .recording()
        .in_place();
    let vfs = mount(&kernel.sim(), body, cache(64));
    let process = Process::new(&vfs, Access::root());
    let mounted = vfs.clone();
    kernel.block_on(async move {
        let fd = make(&process, "/f").await;
        let sim = process.vfs().sim().clone();
        let start = sim.now();
        let odd = process.pwrite(fd, 4_090, Source::Bytes(b"in place")).await;
        assert_eq!(odd, Ok(8));
        assert_eq!(sim.now().since(start), Ns::us(100), "the medium has it");
        assert_eq!(
            process.read_bytes(fd, 4_091, 100).await.unwrap(),
            b"n place"
        );
        let handle = process.handle(fd).unwrap();
        let stored = Source::Bytes(b"IN");
        assert_eq!(mounted.map_write(&handle, 4_090, stored).await, Ok(2));
        let mut out = [0; 10];
        let mut sink = out.as_mut_slice();
        let read = mounted.map_read(&handle, 4_089, 10, &mut sink).await;
        assert_eq!(read, Ok(9));
        assert_eq!(&out, b"\0IN place\0");
        process.ftruncate(fd, 4_092).await.unwrap();
        process.ftruncate(fd, 5_000).await.unwrap();
        let tail = process.read_bytes(fd, 4_090, 100).await.unwrap();
        assert_eq!(tail[..4], *b"IN\0\0", "what was cut off is zero");
        process.fsync(fd).await.unwrap();
    });
    let stats = vfs.stats();
    assert_eq!((stats.cached, stats.dirty, stats.written_back), (0, 0, 0));
    assert_eq!((stats.written, stats.hits, stats.misses), (8, 0, 0));
    assert_eq!(vfs.body().take_writes(), [], "no page was written back");
    assert_eq!(vfs.body().take_reads(), [], "and none was loaded");
    vfs.check();
}

#[test]
fn a_file_that_could_not_grow_has_not_grown() {
    with_root(|process| async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, 100).await;
        process.fsync(fd).await.unwrap();
        let before = process.fstat(fd).await.unwrap();
        process.vfs().body().break_writes(Some(Errno::ENOSPC));
        // Twice: the second attempt must not see the larger size.
        for _ in 0..2 {
            assert_eq!(errno(process.ftruncate(fd, 5_000).await), Errno::ENOSPC);
            assert_eq!(process.fstat(fd).await.unwrap(), before);
        }
        process.vfs().body().break_writes(None);
        assert_eq!(process.ftruncate(fd, 5_000).await, Ok(()));
    });
}
