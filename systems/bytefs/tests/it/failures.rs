//! Failures of the drive: requests return errors after a first file is durable.

use crate::bench::{
    BLOCKS, Contents, cache, holding, mounted, open, put, root, small, strict, vfs,
};
use host::{BlockPort, BytePort, Computing, RamDisk, Who};
use sim::{Kernel, Seed};
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};
use vfs::{Body, Errno, OpenFlags, Source};

/// Requests of the drive that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Nothing,
    Store,
    Verify,
    Commit,
    BlockWrite,
    Flush,
}

#[derive(Clone)]
struct Failing {
    disk: RamDisk,
    fails: Rc<Cell<Fails>>,
}

impl Failing {
    fn check(&self, what: Fails) -> Result<(), IoError> {
        if self.fails.get() == what {
            return Err(IoError::ReadOnly);
        }
        Ok(())
    }
}

impl BlockPort for Failing {
    host::pass_block!([|own| &own.disk] capacity, handles, read, trim, compute);

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        self.check(Fails::BlockWrite)?;
        self.disk.write(extent, content, placement, who, fua).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.check(Fails::Flush)?;
        self.disk.flush().await
    }
}

impl BytePort for Failing {
    host::pass_bytes!([|own| &own.disk] has_transactions, transaction_lines, load, recover);

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        self.check(Fails::Store)?;
        self.disk.store(at, bytes, tx, who).await
    }

    async fn verify(&self) -> Result<(), ByteError> {
        self.check(Fails::Verify)?;
        self.disk.verify().await
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        self.check(Fails::Commit)?;
        self.disk.commit(tx).await
    }
}

/// Contents of a disk on which every change after a first file fails.
fn after(what: Fails) -> Contents {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, small());
    let kept = disk.clone();
    kernel.block_on(async move {
        let fails = Rc::new(Cell::new(Fails::Nothing));
        let port = Failing {
            disk,
            fails: Rc::clone(&fails),
        };
        let mounted = bytefs::mount(&sim, &port, strict()).await;
        let vfs = vfs(&sim, mounted.unwrap().0, cache(false));
        let process = root(&vfs);
        let fd = open(&process, "/first").await;
        put(&process, fd, 0, &[1; 5_000]).await;
        fails.set(what);
        process
            .pwrite(fd, 0, Source::Bytes(&[2; 9_000]))
            .await
            .unwrap();
        let forced = process.fsync(fd).await;
        assert!(matches!(forced, Err(Errno::EIO | Errno::EROFS)), "{what:?}");
        let fails_for_good = what != Fails::BlockWrite;
        assert_eq!(vfs.body().is_read_only(), fails_for_good, "{what:?}");
        fails.set(Fails::Nothing);
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let made = process.open(b"/second", flags, 0o644).await.map(drop);
        if fails_for_good {
            assert_eq!(made, Err(Errno::EROFS), "{what:?}");
            assert_eq!(vfs.sync().await, Err(Errno::EROFS), "{what:?}");
        } else {
            assert_eq!(made, Ok(()));
        }
    });
    kept.after_cut(&mut Seed(1).stream("cut"))
}

#[test]
fn drive_failure_is_reported_and_durable_files_stay() {
    for what in [
        Fails::Store,
        Fails::Verify,
        Fails::Commit,
        Fails::BlockWrite,
        Fails::Flush,
    ] {
        let left = after(what);
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = holding(&sim, left);
        let kept = disk.clone();
        kernel.block_on(async move {
            let vfs = mounted(&sim, &disk, strict()).await;
            let process = root(&vfs);
            let fd = process.open(b"/first", OpenFlags::READ, 0).await.unwrap();
            let bytes = process.read_bytes(fd, 0, 5_000).await.unwrap();
            assert_eq!(bytes.len(), 5_000);
            assert!(bytes.iter().all(|&b| b == 1 || b == 2));
            process.exit().await;
            vfs.unmount().await.unwrap();
        });
        let image = kept.to_image();
        assert_eq!(image.len() as u64, BLOCKS * 4_096);
        assert_eq!(extfs::check(&image[..]), []);
    }
}
