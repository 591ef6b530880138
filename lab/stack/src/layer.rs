//! The remapping layer between a host and its drive.
//!
//! Invariants: the switches in a stack's name determine its layer. Preconditioning ages the drive
//! below the layer, and for block requests the layer too: a full one has every address written
//! once, an aged one has as many random overwrites on top.

use crate::attached::AttachError;
use crate::below::Below;
use crate::error::StackError;
use crate::hosts::Switch;
use crate::name::StackName;
use host::{BlockPort, Who};
use nand::UNIT;
use remap::{FormatOptions, Options, Remap, Variant, offered};
use report::record::Remapped;
use sim::{Rng, Seed, Semaphore, Sim};
use ssd::{Content, IoError, Precondition};
use std::cell::OnceCell;
use units::{Bytes, Extent, KIB, Placement, SECTOR};

/// The switches that give a stack a layer, with their help.
pub const SWITCHES: &[Switch] = &[
    (
        "remap",
        "remaps addresses, so that all writes reach the drive sequentially",
    ),
    (
        "remap-tree",
        "+remap with the ordered tree of the paper as mapping table",
    ),
    (
        "remap-lean",
        "+remap with memory for a quarter of the mapping tables, in sixteen parts",
    ),
    (
        "remap-trim",
        "+remap that deallocates freed runs on the drive",
    ),
];

/// Hosts that can use a layer: those that use the block interface only.
pub(crate) const HOSTS: &[&str] = &["raw", "ext4", "btrfs", "btrfs-nocow", "f2fs"];

/// Drives that can hold a layer: those with random writes by blocks.
pub(crate) const DRIVES: &[&str] = &["block", "streams", "fdp", "ocssd"];

/// Parts of the drive for which a lean layer has a table, and number of tables that fit its memory.
const LEAN: (u64, u64) = (16, 4);
/// Bytes of one table entry.
//= remap 3.3
const ENTRY: u64 = 12;
/// Shortest run to be deallocated: a choice of ours, so that the discard of a small file reaches
/// the drive and that of a single unit does not.
const TRIM: Bytes = Bytes(64 * KIB);
/// Preconditioning of a layer: units of each sequential write, and number of random writes in
/// flight.
const FILL: (u32, u64) = (256, 32);
/// Sectors of one unit.
const SECTORS: u64 = UNIT as u64 / SECTOR;

/// The variant of a stack's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    tree: bool,
    lean: bool,
    trim: bool,
}

impl Kind {
    /// The variant of the layer of `stack`; `None` without one.
    pub(crate) fn of(stack: &StackName) -> Option<Self> {
        let has = |name: &str| stack.switches.iter().any(|switch| switch == name);
        let any = SWITCHES.iter().any(|(name, _)| has(name));
        any.then(|| Self {
            tree: has("remap-tree"),
            lean: has("remap-lean"),
            trim: has("remap-trim"),
        })
    }

    fn format(self, capacity: Bytes) -> FormatOptions {
        let usual = FormatOptions::default();
        let part = capacity.0 / LEAN.0 / UNIT as u64 * UNIT as u64;
        FormatOptions {
            partition: match self.lean {
                true => usual.partition.min(Bytes(part)),
                false => usual.partition,
            },
            ..usual
        }
    }

    fn options(self, capacity: Bytes) -> Options {
        let most = capacity.0 / UNIT as u64 * ENTRY * LEAN.1 / LEAN.0;
        Options {
            variant: match self.tree {
                true => Variant::Tree,
                false => Variant::Compact,
            },
            memory: self.lean.then_some(Bytes(most)),
            trim: self.trim.then_some(TRIM),
            ..Options::default()
        }
    }
}

/// A layer above a drive, opened by its first command.
pub(crate) struct Layer {
    sim: Sim,
    /// Serializes opening: its holder opens the layer.
    turn: Semaphore,
    kind: Kind,
    /// Capacity of the drive, and capacity that the layer offers.
    capacity: Bytes,
    offered: Bytes,
    port: OnceCell<Result<Remap<Below>, AttachError>>,
}

impl Layer {
    pub(crate) fn new(
        sim: &Sim,
        below: &Below,
        kind: Kind,
        stack: &StackName,
    ) -> Result<Self, StackError> {
        let capacity = below.capacity();
        let offered = offered(capacity, &kind.format(capacity));
        let offered = offered.map_err(|error| StackError::Stack {
            stack: stack.to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            sim: sim.clone(),
            turn: Semaphore::new(sim, 1),
            kind,
            capacity,
            offered,
            port: OnceCell::new(),
        })
    }

    pub(crate) fn again(&self) -> Self {
        Self {
            sim: self.sim.clone(),
            turn: Semaphore::new(&self.sim, 1),
            port: OnceCell::new(),
            ..*self
        }
    }

    pub(crate) const fn offered(&self) -> Bytes {
        self.offered
    }

    pub(crate) fn opened(&self) -> Option<&Remap<Below>> {
        self.port.get()?.as_ref().ok()
    }

    pub(crate) async fn format(&self, below: &Below, deallocates: bool) -> Result<(), AttachError> {
        let options = FormatOptions {
            discard: deallocates,
            ..self.kind.format(self.capacity)
        };
        Ok(remap::format(below, &options).await?)
    }

    pub(crate) async fn port(&self, below: &Below) -> Result<&Remap<Below>, AttachError> {
        if self.port.get().is_none() {
            let _turn = self.turn.acquire(1).await;
            if self.port.get().is_none() {
                let options = self.kind.options(self.capacity);
                let opened = remap::open(&self.sim, below, options).await;
                let _ = self.port.set(opened.map_err(AttachError::from));
            }
        }
        match self.port.get() {
            Some(Ok(port)) => Ok(port),
            Some(Err(error)) => Err(error.clone()),
            None => Err(IoError::ReadOnly.into()),
        }
    }
}

/// Preconditions the layer `port`: writes its addresses as a drive with this past has them.
pub(crate) async fn fill(
    port: &impl BlockPort,
    past: Precondition,
    seed: Seed,
) -> Result<(), IoError> {
    let units = port.capacity().0 / UNIT as u64;
    let write = |unit: u64, count: u32| {
        let extent = Extent::new(unit * SECTORS, count * SECTORS as u32);
        let who = Who::default();
        port.write(extent, Content::Nothing, Placement(0), who, false)
    };
    if past != Precondition::Fresh {
        for unit in (0..units).step_by(FILL.0 as usize) {
            write(unit, FILL.0.min((units - unit) as u32)).await?;
        }
    }
    if past == Precondition::Aged {
        let mut rng: Rng = seed.stream("past of a layer");
        for _ in 0..units.div_ceil(FILL.1) {
            let writes = (0..FILL.1).map(|_| write(rng.below(units), 1));
            let written = sim::join_all(writes.collect()).await;
            written.into_iter().collect::<Result<(), _>>()?;
        }
    }
    port.flush().await
}

/// Adds the counts of the mount that followed all other counters.
pub(crate) fn mounted(told: &mut Remapped, after: &remap::Metrics) {
    told.recovery_ns = after.recovery.0;
    told.recovered_transactions = after.replayed;
}

/// The counters of a layer, since `before`.
pub(crate) fn told(port: &Remap<Below>, before: &remap::Metrics) -> Remapped {
    let now = port.metrics().since(before);
    let (unit, sectors) = (UNIT as u64, SECTORS);
    Remapped {
        variant: now.variant.name().to_owned(),
        offered_bytes: port.capacity().0,
        mapped_bytes: now.entries * unit,
        table_bytes: now.table_bytes,
        tree_bytes: port.table_bytes_as(Variant::Tree),
        compact_bytes: port.table_bytes_as(Variant::Compact),
        physical_bytes: now.physical_bytes,
        remapped_sectors: now.written_units * sectors,
        written_bytes: now.written_units * unit,
        transactions: now.transactions,
        log_bytes: now.log_blocks * unit,
        log_blocks_per_2mib: now.log_blocks_per_2mib(),
        checkpoints: now.checkpoints,
        checkpoint_bytes: now.checkpoint_blocks * unit,
        paged_bytes: now.table_blocks * unit,
        tables_dropped: now.tables_dropped,
        tables_read: now.tables_read,
        reads: now.reads,
        read_splits: now.read_splits,
        write_splits: now.write_splits,
        partial_writes: now.partial_writes,
        discarded_bytes: now.discarded_units * unit,
        trimmed_bytes: now.trimmed_units * unit,
        moved_bytes: now.moves * unit,
        background_passes: now.passes,
        foreground_passes: now.foreground_passes,
        jumps: now.jumps,
        background_errors: now.background_errors,
        last_background_error: port.background_error().map(|error| error.to_string()),
        recovery_ns: now.recovery.0,
        recovered_transactions: now.replayed,
    }
}
