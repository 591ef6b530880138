//! A medium that fails after a number of stores.

use crate::bench::{cache, new_image};
use host::{BlockPort, BytePort, Computing, RamDisk, Who};
use novafs::{MountOptions, NovaFs, check};
use sim::{Kernel, Seed};
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};
use vfs::model::{Op, draw_on_file, draw_on_names, perform};
use vfs::{Access, Body, Clock, Compute, Errno, Process, Vfs};

/// A disk that accepts so many stores and barriers.
#[derive(Clone)]
struct Failing {
    disk: RamDisk,
    left: Rc<Cell<u64>>,
}

impl Failing {
    fn spend(&self) -> Result<(), ByteError> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(ByteError::Recovered)
    }
}

impl BlockPort for Failing {
    host::pass_block!([|own| &own.disk] capacity, handles, read, write, trim, flush, compute);
}

impl BytePort for Failing {
    host::pass_bytes!([|own| &own.disk] load, commit, recover);

    fn has_transactions(&self) -> bool {
        false
    }

    fn transaction_lines(&self) -> u64 {
        0
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        self.spend()?;
        self.disk.store(at, bytes, tx, who).await
    }

    async fn verify(&self) -> Result<(), ByteError> {
        self.spend()?;
        self.disk.verify().await
    }
}

/// Makes calls until one meets the failure; after it, no store may follow.
async fn work(sim: sim::Sim, port: Failing, seed: u64) {
    let left = Rc::clone(&port.left);
    let fs = NovaFs::mount(&sim, &port, MountOptions::default()).await;
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    let vfs = Vfs::mount(&sim, fs.unwrap(), cache(false), clock, compute);
    let p = Process::new(&vfs, Access::root());
    let mut rng = Seed(seed).stream("calls");
    for _ in 0..1_000 {
        let op = [draw_on_names, draw_on_file][rng.below(2) as usize](&mut rng);
        if perform(&p, &op).await == Err(Errno::EIO) {
            assert!(vfs.body().is_read_only(), "after {op:?}");
            break;
        }
    }
    assert!(vfs.body().is_read_only(), "a call failed");
    // The medium accepts stores again, but its contents are unknown.
    left.set(1_000);
    let path = b"/new".to_vec();
    assert_eq!(perform(&p, &Op::Mkdir { path }).await, Err(Errno::EROFS));
    assert_eq!(left.get(), 1_000);
}

#[test]
fn a_failure_ends_all_changes_and_what_is_left_is_sound() {
    let image = new_image(512, 2);
    for stores in 0..200 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &image);
        let left = Rc::new(Cell::new(stores));
        let port = Failing {
            disk: disk.clone(),
            left,
        };
        kernel.block_on(work(sim, port, stores));
        let kernel = Kernel::new();
        let contents = disk.after_cut(&mut Seed(stores).stream("cut"));
        let disk = RamDisk::holding(&kernel.sim(), disk.size(), contents);
        let (port, sim) = (disk.clone(), kernel.sim());
        kernel.block_on(async move {
            let fs = NovaFs::mount(&sim, &port, MountOptions::default()).await;
            fs.map(drop).unwrap();
        });
        assert_eq!(check(&disk.to_image()[..]), [], "after {stores} stores");
    }
}
