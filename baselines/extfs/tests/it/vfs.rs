//! The body under the cache, compared with the reference model of the file API.

use crate::driver::new_image;
use ::vfs::model::{Model, Order, cache, draw, run_beside};
use ::vfs::{Access, Clock, Compute, OpenFlags, Process, Source, Vfs};
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, check};
use host::RamDisk;
use sim::{Kernel, Seed};
use units::Placement;

async fn compare(sim: sim::Sim, disk: RamDisk, seed: u64) {
    let persist = NoJournal::new(&sim, &disk, 16, Placement(0));
    let body = ExtFs::mount(&sim, persist, MountOptions::default())
        .await
        .unwrap();
    let vfs = Vfs::mount(
        &sim,
        body,
        cache(seed.is_multiple_of(2)),
        Clock::default(),
        Compute::unlimited(),
    );
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    processes[0].rmdir(b"/lost+found").await.unwrap();
    let mut model = Model::new(2, Order::Journal);
    let mut rng = Seed(seed).stream("calls");
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, 1_200)).await;
    vfs.unmount().await.unwrap();
    vfs.check();
}

#[test]
fn random_calls_match_the_reference_model() {
    for seed in 0..16 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(64 * 256)));
        kernel.block_on(compare(sim, disk.clone(), seed));
        assert_eq!(check(&disk.to_image()[..]), []);
    }
}

#[test]
fn synced_write_does_not_restore_truncated_bytes() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(64 * 256)));
    let left = disk.clone();
    let image = kernel.block_on(async move {
        let persist = NoJournal::new(&sim, &disk, 16, Placement(0));
        let body = ExtFs::mount(&sim, persist, MountOptions::default());
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, body.await.unwrap(), cache(false), clock, compute);
        let process = Process::new(&vfs, Access::root());
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/f", flags, 0o644).await.unwrap();
        let old = vec![1; 10_000];
        process.pwrite(fd, 0, Source::Bytes(&old)).await.unwrap();
        process.fsync(fd).await.unwrap();
        process.ftruncate(fd, 9_000).await.unwrap();
        let more = vec![2; 12_288 - 9_000];
        process
            .pwrite(fd, 9_000, Source::Bytes(&more))
            .await
            .unwrap();
        let forced = flags | OpenFlags::DATA_SYNC;
        let again = process.open(b"/f", forced, 0).await.unwrap();
        let end = Source::Bytes(&[3; 100]);
        process.pwrite(again, 12_288, end).await.unwrap();
        left.to_image()
    });
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &image);
    kernel.block_on(async move {
        let persist = NoJournal::new(&sim, &disk, 16, Placement(0));
        let body = ExtFs::mount(&sim, persist, MountOptions::default());
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, body.await.unwrap(), cache(false), clock, compute);
        let process = Process::new(&vfs, Access::root());
        let fd = process.open(b"/f", OpenFlags::READ, 0).await.unwrap();
        let bytes = process.read_bytes(fd, 0, 30_000).await.unwrap();
        assert_eq!(bytes.len(), 12_388, "the end was synced");
        assert!(bytes[..9_000].iter().all(|&byte| byte == 1));
        assert!(bytes[9_000..12_288].iter().all(|&byte| byte != 1));
    });
}
