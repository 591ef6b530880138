//! Direct I/O, which bypasses the page cache.

use crate::shared::{made, mounted};
use sim::Kernel;
use vfs::{Access, OpenFlags, Process, Source};

/// Number of sectors exchanged by a direct overwrite of two sectors, with `flags` added to the
/// open.
fn exchanged(flags: OpenFlags) -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = made(&sim).await;
        let vfs = mounted(&sim, &port).await;
        let p = Process::new(&vfs, Access::root());
        let len = 64 << 10;
        let (new, pattern) = (OpenFlags::BOTH | OpenFlags::CREATE, 1);
        let fd = p.open(b"/file", new, 0o644).await.unwrap();
        p.pwrite(fd, 0, Source::Fill { pattern, len })
            .await
            .unwrap();
        p.sync().await.unwrap();
        let around = OpenFlags::BOTH | OpenFlags::DIRECT | flags;
        let fd = p.open(b"/file", around, 0).await.unwrap();
        let (before, two) = (port.exchanged(), vec![7; 8_192]);
        p.pwrite(fd, 4_096, Source::Bytes(&two)).await.unwrap();
        let bytes = p.read_bytes(fd, 0, 16_384).await.unwrap();
        assert_eq!(bytes[4_096..12_288], two);
        port.exchanged() - before
    })
}

#[test]
fn synchronous_direct_write_exchanges_its_sectors() {
    assert_eq!(exchanged(OpenFlags::DATA_SYNC), 2);
    assert_eq!(exchanged(OpenFlags::SYNC), 2);
    assert_eq!(
        exchanged(OpenFlags::READ),
        0,
        "nobody waits until it is durable"
    );
}
