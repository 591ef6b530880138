//! A strategy that checks the contract of the body: each handle is closed, changes no more
//! blocks than it reserved, and leaves a sound image; freed blocks are not used before the
//! free is durable. The strategy refuses to extend handles at random.

use crate::driver::{Driver, new_image};
use crate::model::{Model, compare, step};
use extfs::{
    BLOCK, Buffer, DataWrite, ExtFs, MkfsOptions, MountOptions, NoJournal, Persist, Run, TxId,
    check,
};
use host::{Purpose, RamDisk, Who};
use nand::Payload;
use sim::{Kernel, Rng, Seed};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::Placement;
use vfs::Result;

pub(crate) struct Handle {
    credits: usize,
    changed: RefCell<BTreeSet<u64>>,
}

struct Audit {
    inner: NoJournal,
    disk: RamDisk,
    /// Metadata blocks with contents newer than on the disk.
    newer: RefCell<BTreeMap<u64, Rc<Buffer>>>,
    open: Cell<usize>,
    pending: RefCell<Vec<Run>>,
    ready: RefCell<Vec<Run>>,
    rng: RefCell<Rng>,
}

impl Audit {
    fn image(&self) -> Vec<u8> {
        let mut image = self.disk.to_image();
        for (&block, buffer) in &*self.newer.borrow() {
            let at = block as usize * BLOCK;
            image[at..at + BLOCK].copy_from_slice(&*buffer.bytes());
        }
        image
    }

    fn close(&self, tx: &Handle) {
        let changed = tx.changed.borrow();
        let used = changed.len();
        assert!(
            used <= tx.credits,
            "{used} blocks changed, {} asked for: {changed:?}",
            tx.credits
        );
        self.open.set(self.open.get() - 1);
        if !changed.is_empty() {
            assert_eq!(check(&self.image()[..]), []);
        }
    }

    fn note(&self, tx: &Handle, buffer: &Rc<Buffer>) {
        tx.changed.borrow_mut().insert(buffer.block);
        self.newer
            .borrow_mut()
            .insert(buffer.block, Rc::clone(buffer));
    }

    fn durable(&self) {
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        self.ready.borrow_mut().extend(pending);
    }

    /// Asserts that no write goes to a block with a free that is not durable yet.
    fn check_writes(&self, writes: &[DataWrite<'_>]) {
        for write in writes {
            let end = write.start + write.pages.len() as u64;
            let pending = self.pending.borrow();
            let apart = |run: &Run| run.start >= end || run.start + run.len <= write.start;
            assert!(
                pending.iter().all(apart),
                "blocks are used before they are free"
            );
        }
    }
}

impl Persist for Audit {
    type Tx = Handle;

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        self.inner.read(block, purpose).await
    }

    fn create(&self, tx: &Handle, block: u64, purpose: Purpose) -> Rc<Buffer> {
        let buffer = self.inner.create(&(), block, purpose);
        self.note(tx, &buffer);
        buffer
    }

    async fn begin(&self, blocks: usize) -> Result<Handle> {
        assert_eq!(self.open.replace(1), 0, "a handle is open already");
        Ok(Handle {
            credits: blocks,
            changed: RefCell::default(),
        })
    }

    fn extend(&self, tx: &mut Handle, blocks: usize) -> bool {
        if self.rng.borrow_mut().below(3) == 0 {
            return false;
        }
        tx.credits += blocks;
        true
    }

    fn id(&self, _: &Handle) -> TxId {
        TxId(1)
    }

    fn newest(&self) -> TxId {
        TxId(1)
    }

    fn write(&self, tx: &Handle, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]) {
        self.inner.write(&(), buffer, at, bytes);
        self.note(tx, buffer);
    }

    fn forget(&self, _: &Handle, block: u64) {
        self.newer.borrow_mut().remove(&block);
        self.inner.forget(&(), block);
    }

    fn free(&self, _: &Handle, run: Run) {
        self.pending.borrow_mut().push(run);
    }

    fn freed(&self) -> Vec<Run> {
        std::mem::take(&mut *self.ready.borrow_mut())
    }

    async fn end(&self, tx: Handle) -> Result<TxId> {
        self.close(&tx);
        Ok(TxId(1))
    }

    async fn write_data(&self, tx: Option<Handle>, writes: &[DataWrite<'_>]) -> Result<TxId> {
        self.check_writes(writes);
        self.inner.write_data(Some(()), writes).await?;
        if let Some(tx) = tx {
            self.close(&tx);
        }
        Ok(TxId(1))
    }

    async fn read_data(&self, start: u64, pages: &mut [Payload], who: Who) -> Result<()> {
        self.inner.read_data(start, pages, who).await
    }

    async fn force(&self, upto: TxId) -> Result<()> {
        self.durable();
        self.inner.force(upto).await
    }

    async fn force_all(&self) -> Result<()> {
        self.durable();
        self.inner.force_all().await
    }

    async fn discard(&self, run: Run) -> Result<()> {
        self.inner.discard(run).await
    }

    async fn shut_down(&self) -> Result<()> {
        self.durable();
        self.inner.shut_down().await
    }

    fn needs_recovery(&self) -> bool {
        false
    }

    async fn read_direct(&self, start: u64, offset: u64, out: &mut [u8], who: Who) -> Result<()> {
        self.inner.read_direct(start, offset, out, who).await
    }

    async fn write_direct(
        &self,
        start: u64,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
        who: Who,
    ) -> Result<()> {
        self.inner
            .write_direct(start, offset, bytes, placement, who)
            .await
    }
}

async fn audited(sim: &sim::Sim, disk: RamDisk, seed: u64) -> Driver<Audit> {
    let audit = Audit {
        inner: NoJournal::new(sim, &disk.clone(), 4096, Placement(0)),
        disk,
        newer: RefCell::default(),
        open: Cell::new(0),
        pending: RefCell::default(),
        ready: RefCell::default(),
        rng: RefCell::new(Seed(seed).stream("extend")),
    };
    let options = MountOptions {
        discard: true,
        ..MountOptions::default()
    };
    Driver::new(ExtFs::mount(sim, audit, options).await.unwrap())
}

#[test]
fn handles_of_random_operations_keep_the_contract() {
    for seed in 0..2 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let image = new_image(&MkfsOptions::new(24 * 256));
        let disk = RamDisk::from_image(&sim, &image);
        kernel.block_on(async move {
            let driver = audited(&sim, disk, seed).await;
            let mut rng = Seed(seed).stream("operations");
            let mut model = Model::new();
            for dir in 0..4 {
                driver.mkdir(&format!("d{dir}")).await.unwrap();
            }
            for n in 0..300 {
                step(&driver, &mut model, &mut rng).await;
                if n % 50 == 0 {
                    driver.fs.persist().durable();
                }
            }
            compare(&driver, &model).await;
            driver.unmount().await;
        });
    }
}
