//! Relocation on a drive with latencies: the size of its commands, and its speed.

use crate::bench::cache;
use host::{BlockDevice, BlockPort, Computing, HostConfig, Purpose, Who};
use lfs::{BLOCK, LfsFs, MkfsOptions, MountOptions, format, mount};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveMedia, IoError, Preset, Sink};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Extent, MIB, Ns, Placement, SECTOR};
use vfs::{Access, Body, Cleaning, Clock, Compute, OpenFlags, Process, Source, Vfs};

/// Blocks of file contents, by command.
#[derive(Clone, Default)]
struct Commands {
    reads: Vec<u64>,
    writes: Vec<u64>,
}

/// A drive that notes the commands for file contents.
#[derive(Clone)]
struct Watched {
    drive: BlockDevice,
    commands: Rc<RefCell<Commands>>,
}

const fn blocks(extent: Extent) -> u64 {
    extent.sectors as u64 * SECTOR / BLOCK as u64
}

impl BlockPort for Watched {
    fn capacity(&self) -> Bytes {
        self.drive.capacity()
    }

    fn handles(&self) -> u16 {
        self.drive.handles()
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        if who.purpose == Purpose::Data {
            self.commands.borrow_mut().reads.push(blocks(extent));
        }
        self.drive.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        if who.purpose == Purpose::Data {
            self.commands.borrow_mut().writes.push(blocks(extent));
        }
        let write = self.drive.write(extent, content, placement, who, fua);
        write.await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.drive.trim(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.drive.flush().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.drive.compute(span)
    }
}

/// The generic drive of blocks, small and empty.
fn drive(sim: &Sim) -> BlockDevice {
    let preset = Preset::named("block").expect("it is one");
    let mut config = (preset.config)().resized(Bytes(256 * MIB));
    config.flash.keep_contents = true;
    let media = DriveMedia::new(&config, Seed(1)).expect("the flash can be");
    let drive = Drive::ready(sim, &config, media, Seed(1)).expect("the drive can be");
    BlockDevice::new(sim, HostConfig::default(), drive).expect("the host can be")
}

/// Bytes of a file: five blocks, so that no valid run of a victim is long.
const LEN: u64 = 20_000;

/// Files in more than a dozen sections, which leave so many free that the cold log fills no gaps.
const FILES: u64 = 1_500;

async fn fill(process: &Process<impl Body>) {
    for number in 0..FILES {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let path = format!("/{number}");
        let fd = process.open(path.as_bytes(), flags, 0o600).await.unwrap();
        let source = Source::Fill {
            pattern: number,
            len: LEN,
        };
        assert_eq!(process.write(fd, source).await, Ok(LEN));
        process.close(fd).await.unwrap();
    }
    process.sync().await.unwrap();
}

/// Cleans sections half of which is in use while nothing else runs; the commands for file
/// contents meanwhile, and what cleaning counted.
fn cleaned() -> (Commands, Cleaning) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let commands = Rc::<RefCell<Commands>>::default();
        let port = Watched {
            drive: drive(&sim),
            commands: Rc::clone(&commands),
        };
        let all = port.capacity().0 / BLOCK as u64;
        format(&port, &MkfsOptions::new(all)).await.unwrap();
        let options = MountOptions {
            cleaning: Ns::secs(5),
            ..MountOptions::default()
        };
        let (body, _): (LfsFs<_>, _) = mount(&sim, &port, options).await.unwrap();
        let vfs = Vfs::mount(
            &sim,
            body,
            cache(false),
            Clock::default(),
            Compute::unlimited(),
        );
        let process = Process::new(&vfs, Access::root());
        fill(&process).await;
        for number in 0..FILES / 2 {
            let path = format!("/{}", number * 2);
            process.unlink(path.as_bytes()).await.unwrap();
        }
        process.sync().await.unwrap();
        let told = || vfs.body().log_stats().expect("it is a log");
        assert_eq!(told().background.calls, 0);
        commands.take();
        sim.sleep(Ns::secs(60)).await;
        let done = (commands.take(), told().background);
        for number in 0..FILES / 2 {
            let number = number * 2 + 1;
            let path = format!("/{number}");
            let open = process.open(path.as_bytes(), OpenFlags::READ, 0);
            let fd = open.await.unwrap();
            let bytes = process.read_bytes(fd, 0, LEN as usize).await.unwrap();
            assert_eq!(bytes.len() as u64, LEN);
            let whole = bytes.chunks_exact(8);
            assert!(whole.clone().all(|word| word == number.to_le_bytes()));
            process.close(fd).await.unwrap();
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
        vfs.check();
        done
    })
}

/// Bytes a second of writes of 1 MiB to the drive alone, one after the other.
fn bandwidth() -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let (drive, begun) = (drive(&sim), sim.now());
        let payload = Payload::Bytes(Arc::new([7; BLOCK]));
        let payloads = vec![payload; MIB as usize / BLOCK];
        let count = 64;
        for at in 0..count {
            let extent = Extent::new(at * MIB / SECTOR, (MIB / SECTOR) as u32);
            let content = Content::Sectors(&payloads);
            let who = Who::default();
            let write = drive.write(extent, content, Placement(0), who, false);
            write.await.unwrap();
        }
        count * MIB * 1_000_000_000 / (sim.now().0 - begun.0)
    })
}

/// Fails if blocks are read or written one at a time: then each command has one.
#[test]
fn relocated_blocks_are_read_and_written_in_runs() {
    let (commands, cleaning) = cleaned();
    assert!(cleaning.calls > 5, "{cleaning:?}");
    let mean = |commands: &[u64]| commands.iter().sum::<u64>() / commands.len() as u64;
    let (read, written) = (mean(&commands.reads), mean(&commands.writes));
    println!("{read} blocks a read, {written} a write, {cleaning:?}");
    assert!(read >= 4, "files of five blocks are read in {read}");
    assert!(written >= 64, "half a segment is written in {written}");
    let most = commands.reads.iter().chain(&commands.writes).max();
    assert!(most.is_some_and(|most| *most <= 256), "{most:?}");
}

/// Fails if blocks are moved one after the other: a read of a flash page and a write of a
/// block each give less than 50 MB/s on any drive.
#[test]
fn relocation_is_as_fast_as_a_third_of_the_drives_writes() {
    let (_, cleaning) = cleaned();
    let moved = cleaning.moved_bytes * 1_000_000_000 / cleaning.time.0;
    let drive = bandwidth();
    println!("{} MB/s of {}", moved / 1_000_000, drive / 1_000_000);
    assert!(moved > drive / 3, "{moved} of {drive} bytes a second");
}
