//! Mounting: reads the tables that the last checkpoint leads to, rolls forward what was forced
//! since, and frees inodes without a name.
//!
//! Invariant: a mount writes blocks only if something has to be recovered, or a zone was
//! written further than the last checkpoint says. It ends with a checkpoint then.

use crate::format::checkpoint::{COMPACT, Head};
use crate::format::sit::{self, SitEntry};
use crate::format::summary::{self, Owner, Owners};
use crate::format::superblock::Geometry;
use crate::format::{SEG_BLOCKS, high_bit, node};
use crate::fs::{Core, Counts, LfsFs, Parts, Settings};
use crate::inplace::OpenError;
use crate::nat::Nat;
use crate::persist::{Found, Log, MainArea, Pack, Persist, SectionUse, Table};
use crate::recover::Recovery;
use crate::segments::{Segments, Writing};
use host::{Purpose, Who};
use nand::Payload;
use sim::Sim;
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{NoSpace, Ns, Origin};
use vfs::Errno;

/// Options of a mount; [`Default`] has those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether sections that a checkpoint frees are deallocated on the drive.
    pub discard: bool,
    /// Whether writes of different logs carry different placement handles, as far as the drive
    /// has any.
    pub placed: bool,
    /// Whether logs fill gaps of segments with valid blocks when free sections are few, the
    /// adaptive mode of Linux. Otherwise logs enter free sections only, as zones require.
    pub fills: bool,
    /// Origin under which I/O of metadata is booked.
    pub origin: Origin,
    /// Longest wait of a change for the periodic checkpoint: 60 s in Linux.
    pub interval: Ns,
    /// Least wait of background cleaning before the next section: 30 s in Linux. The wait is
    /// twice as long while operations make changes, or cleaning would gain little.
    pub cleaning: Ns,
    /// Whether the mount writes nothing. Recovery then takes place in memory only, so that a
    /// medium that takes no more writes can be read.
    pub read_only: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            discard: false,
            placed: false,
            fills: true,
            origin: Origin(0),
            interval: Ns::secs(60),
            cleaning: Ns::secs(30),
            read_only: false,
        }
    }
}

impl MountOptions {
    /// These options for sections that are zones: logs never fill gaps, and free sections are
    /// reset.
    #[must_use]
    pub const fn for_zones(self) -> Self {
        Self {
            fills: false,
            discard: true,
            ..self
        }
    }
}

/// Errors of a mount.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MountError {
    /// Superblock or checkpoint could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A table or summary of the checkpoint is damaged; the text names the part.
    #[error("the checkpoint leads to damaged {0}")]
    Damaged(&'static str),
    /// Recovery has to write more than there is room for; the limit that it met.
    #[error("there is no room for what recovery writes, but it can be mounted read-only: {0}")]
    NoSpace(NoSpace),
    /// A table or node could not be read, or a file not be recovered: `EIO` after a failure of
    /// the drive, `EUCLEAN` for damaged contents.
    #[error("the file system could not be read or recovered: {0}")]
    Errno(#[from] Errno),
}

/// Entries of all segments, entries of nodes in the journal, and owners of the blocks in the
/// segments of the data logs, as of a checkpoint.
struct Tables {
    segments: Vec<SitEntry>,
    /// Segments whose entries are in the journal.
    journaled: Vec<u32>,
    nodes: Vec<(u32, crate::format::nat::NatEntry)>,
    owners: [Owners; 3],
}

/// Splits the data summaries of a pack into the NAT journal, the SIT journal and the owners of
/// each data log; `None` if they are damaged.
pub(crate) fn data_summaries(pack: &Pack) -> Option<(Vec<u8>, Vec<u8>, [Owners; 3])> {
    let logs = &pack.head.logs;
    if pack.head.flags & COMPACT == 0 {
        let [hot, warm, cold] = &pack.data[..] else {
            return None;
        };
        let owners = [hot, warm, cold].map(|block| summary::decode(block));
        let journal = |block| summary::journal_of(block).to_vec();
        return Some((journal(hot), journal(cold), owners));
    }
    let used = [0, 1, 2].map(|log: usize| match logs[log].fills {
        true => SEG_BLOCKS as usize,
        false => usize::from(logs[log].at),
    });
    summary::uncompact(&pack.data, used)
}

async fn read_tables<S: Persist>(
    persist: &S,
    geometry: &Geometry,
    pack: &Pack,
) -> Result<Tables, MountError> {
    let (nat, sit, owners) = data_summaries(pack).ok_or(MountError::Damaged("summaries"))?;
    let mut segments = Vec::new();
    for index in 0..geometry.sit_blocks() {
        let block = persist.read_table(Table::Sit(index)).await?;
        segments.extend(sit::decode(&block));
    }
    segments.truncate(geometry.main_segments as usize);
    let mut journaled = Vec::new();
    for (segment, entry) in summary::sits_of(&sit) {
        let place = segments.get_mut(segment as usize);
        *place.ok_or(MountError::Damaged("segments in a journal"))? = entry;
        journaled.push(segment);
    }
    if !segments.iter().all(SitEntry::is_sound) {
        return Err(MountError::Damaged("entries of segments"));
    }
    let nodes = summary::nats_of(&nat);
    if nodes.iter().any(|(nid, _)| *nid >= geometry.nids()) {
        return Err(MountError::Damaged("nodes in a journal"));
    }
    Ok(Tables {
        segments,
        journaled,
        nodes,
        owners,
    })
}

/// The owners of the valid blocks in a segment of nodes: each node holds its own number. A
/// node whose flash has failed gets no owner: blocks of a lost section are never moved.
async fn node_owners<S: Persist>(
    persist: &S,
    geometry: &Geometry,
    segment: u32,
    entry: &SitEntry,
    who: Who,
) -> Result<Owners, MountError> {
    let mut owners = summary::nobody();
    for at in 0..SEG_BLOCKS {
        if !high_bit(&entry.map, at as usize) {
            continue;
        }
        let (addr, mut page) = (geometry.addr_of(segment, at), [Payload::Zero]);
        let read = persist.main().read(addr, &mut page, who).await;
        if read.is_err() && persist.main().is_lost(addr) {
            continue;
        }
        read?;
        let mut bytes = crate::format::blank();
        if !page[0].copy_to(0, &mut bytes[..]) {
            return Err(Errno::EIO.into());
        }
        owners[at as usize] = Owner {
            nid: node::NID.get(&bytes[..]),
            version: 0,
            at: 0,
        };
    }
    Ok(owners)
}

/// Write points of the logs at the checkpoint, with the owners of the blocks in their segments.
async fn logs<S: Persist>(
    persist: &S,
    geometry: &Geometry,
    pack: &Pack,
    tables: &Tables,
    who: Who,
) -> Result<[Writing; 6], MountError> {
    let mut all = Vec::new();
    for (index, at) in pack.head.logs.iter().enumerate() {
        let entry = &tables.segments[at.segment as usize];
        if high_bit(&entry.map, usize::from(at.at)) {
            return Err(MountError::Damaged("logs"));
        }
        let owners = match (index, pack.nodes.get(index.wrapping_sub(3))) {
            (0..3, _) => tables.owners[index].clone(),
            (_, Some(block)) => summary::decode(block),
            (_, None) => node_owners(persist, geometry, at.segment, entry, who).await?,
        };
        all.push(Writing {
            at: *at,
            owners,
            unread: false,
        });
    }
    all.try_into().map_err(|_| MountError::Damaged("logs"))
}

fn counts(head: &Head) -> Counts {
    Counts {
        user_blocks: head.user_blocks,
        valid_blocks: head.valid_blocks,
        nodes: head.valid_nodes,
        inodes: head.valid_inodes,
        reserved_segments: head.reserved_segments,
        overprovision: head.overprovision,
        promised: 0,
    }
}

/// Mounts the state that a strategy has `found` on its medium, and recovers forced files.
///
/// # Errors
/// [`MountError`]: the damaged part, a lack of room for recovery, or the failure of the drive;
/// never [`MountError::Open`].
pub async fn mount_with<S: Persist>(
    sim: &Sim,
    persist: S,
    found: Found,
    options: MountOptions,
) -> Result<(LfsFs<S>, Recovery), MountError> {
    let Found {
        geometry,
        pack,
        stamp,
    } = found;
    let who = Who {
        origin: options.origin,
        purpose: Purpose::Metadata,
    };
    let tables = read_tables(&persist, &geometry, &pack).await?;
    let logs = logs(&persist, &geometry, &pack, &tables, who).await?;
    let head = pack.head;
    let entries = tables.segments;
    let mut segments = Segments::new(
        geometry.clone(),
        entries,
        logs,
        head.reserved_segments,
        options.fills,
    );
    segments.changed.extend(tables.journaled);
    let core = Core::new(
        sim,
        Parts {
            persist,
            segments,
            nat: Nat::new(head.next_nid.min(geometry.nids() - 1)),
            geometry,
            settings: Settings {
                origin: options.origin,
                interval: options.interval,
                cleaning: options.cleaning,
                discard: options.discard,
                read_only: options.read_only,
            },
            counts: counts(&head),
            orphans: pack.orphans.into_iter().collect(),
            version: head.version,
            stamp,
            elapsed: head.elapsed,
        },
    );
    for (nid, entry) in tables.nodes {
        core.load_nat(Nat::block_of(nid)).await?;
        core.nat.borrow_mut().set(nid, entry);
    }
    let recovery = recover(&core).await.map_err(|error| core.named(error))?;
    Ok((LfsFs { core }, recovery))
}

impl<S: Persist> Core<S> {
    /// Adds the limit that an allocation met to an `ENOSPC` of recovery.
    fn named(&self, error: MountError) -> MountError {
        match (error, self.refusals.borrow().last()) {
            (MountError::Errno(Errno::ENOSPC), Some(why)) => MountError::NoSpace(why.clone()),
            (error, _) => error,
        }
    }

    /// Moves logs whose write point the medium does not take, and settles the medium with the
    /// use of each section; sections in `torn` stay as they are. Returns whether a log moved:
    /// a checkpoint must follow then, since the next chain of nodes begins elsewhere than the
    /// last one says.
    async fn settle(&self, torn: &BTreeSet<u32>) -> Result<bool, Errno> {
        let mut left = false;
        for log in Log::ALL {
            let addr = self.segments.borrow().next_of(log);
            if !self.persist.main().takes(addr) {
                self.go_elsewhere(log)?;
                left = true;
            }
        }
        let mut uses = self.segments.borrow().uses();
        for &section in torn {
            uses[section as usize] = SectionUse::Open;
        }
        self.persist.main().settle(&uses).await?;
        Ok(left)
    }
}

async fn recover<S: Persist>(core: &Rc<Core<S>>) -> Result<Recovery, MountError> {
    let _alone = core.alone().await;
    core.look_for_lost();
    core.recovering.set(true);
    // Orphans are freed last: all blocks that the chain leads to must be held before.
    let rolled = core.roll_forward().await?;
    if core.settings.read_only {
        core.recovering.set(false);
        return Ok(Recovery {
            files: rolled.files,
            nodes: rolled.nodes,
            orphans: 0,
        });
    }
    let left = core.settle(&rolled.torn).await?;
    let orphans = core.free_orphans().await?;
    let is_torn = !rolled.torn.is_empty();
    if rolled.files + rolled.nodes + orphans > 0 || is_torn || left {
        core.checkpoint(false).await?;
    }
    if is_torn {
        core.settle(&BTreeSet::new()).await?;
    }
    core.recovering.set(false);
    Ok(Recovery {
        files: rolled.files,
        nodes: rolled.nodes,
        orphans,
    })
}
