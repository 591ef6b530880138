//! HyFiM as the persistence strategy of a copy-on-write file system.
//!
//! - Contents that a caller waits for are replaced under their address, unless they are shared
//!   ([`Overwrite::Replace`]); other write-back copies, as usual.
//! - Unshared nodes are changed in place, by the bytes that differ. A node that is shared, or
//!   exceeds the most changes of one publication, is copied. A split moves its part to a new node;
//!   the rest stays in place.
//! - A state is published as a whole: contents, their checksums, nodes and superblock.

use cowfs::{
    Batch, ChangedNode, CowFs, MountError, MountOptions, Overwrite, Persist, Reason, Recovery,
    Replacement, Snapshots, Ticket, purpose,
};
use host::{BlockPort, Disk, PageChange, Purpose, SwapDisk, SwapPort, Who};
use nand::{Payload, UNIT};
use sim::{Boxed, Sim};
use ssd::{Content, IoError};
use std::sync::Arc;
use units::{Extent, Origin, Placement};
use vfs::{AnyBody, Errno, Result};

/// Byte offset of the generation in a node.
const GENERATION: u32 = 80;

/// The strategy over a port that supports page swaps.
pub struct Intra {
    port: SwapDisk,
    /// The blocks of `port`.
    blocks: Disk,
}

impl Intra {
    /// Creates the strategy over `port`, which has recovered.
    #[must_use]
    pub fn new(port: &impl SwapPort) -> Self {
        let port = SwapDisk::from(port);
        Self {
            blocks: port.blocks(),
            port,
        }
    }
}

fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

const fn page(at: u64) -> u64 {
    at / UNIT as u64
}

/// The change of a node, once for each of its copies.
fn changes_of(changed: &ChangedNode, origin: Origin) -> impl Iterator<Item = PageChange> + '_ {
    let who = Who {
        origin,
        purpose: purpose(changed.node.tree),
    };
    changed.node.places.iter().map(move |&place| PageChange {
        first: page(place),
        contents: changed.node.contents.to_vec(),
        stamp: Some((GENERATION, changed.generation)),
        parts: changed.ranges.clone(),
        who,
    })
}

impl Intra {
    /// Writes the copies of the superblock; the primary one is part of the publication.
    async fn copy_superblocks(&self, batch: &Batch) -> Result<()> {
        let who = Who {
            origin: batch.origin,
            purpose: Purpose::Superblock,
        };
        for (at, block) in batch.superblocks.iter().skip(1) {
            let sectors = UNIT as u64 / units::SECTOR;
            let extent = Extent::new(page(*at) * sectors, sectors as u32);
            let content = Content::Bytes(&block[..]);
            let written = self.port.write(extent, content, Placement(0), who, false);
            written.await.map_err(errno)?;
        }
        Ok(())
    }
}

impl Persist for Intra {
    fn port(&self) -> &Disk {
        &self.blocks
    }

    fn changes_nodes_in_place(&self) -> bool {
        true
    }

    /// Half of the port's limit: a node may have two copies.
    fn most_changed_nodes(&self) -> usize {
        self.port.most_changes() / 2
    }

    //= hyfim 3.2
    fn overwrite(&self, forced: bool) -> Overwrite {
        match forced {
            true => Overwrite::Replace,
            false => Overwrite::Copy,
        }
    }

    async fn replace(&self, one: &Replacement, who: Who) -> Result<Option<Ticket>> {
        let staged = self.port.stage(page(one.at), &one.contents, who).await;
        Ok(staged.map_err(errno)?.map(Ticket))
    }

    fn forget(&self, ticket: Ticket) {
        self.port.unstage(ticket.0);
    }

    async fn publish(&self, batch: Batch) -> Result<()> {
        cowfs::write_nodes(&self.blocks, &batch.fresh, batch.origin).await?;
        let skipped = usize::from(vfs::mutant::is("hyfim-publication-without-a-node"));
        let nodes = batch.changed.iter().skip(skipped);
        let mut changes: Vec<PageChange> = nodes
            .flat_map(|changed| changes_of(changed, batch.origin))
            .collect();
        if let Some((at, block)) = batch.superblocks.first() {
            changes.push(PageChange {
                first: page(*at),
                contents: vec![Payload::Bytes(Arc::new(**block))],
                stamp: None,
                parts: std::iter::once(0..UNIT).collect(),
                who: Who {
                    origin: batch.origin,
                    purpose: Purpose::Superblock,
                },
            });
        }
        let mut staged: Vec<u64> = batch.replaced.iter().map(|ticket| ticket.0).collect();
        if vfs::mutant::is("hyfim-publication-without-contents") {
            staged.clear();
        }
        self.port.publish(&staged, &changes).await.map_err(errno)?;
        self.copy_superblocks(&batch).await?;
        if batch.reason == Reason::Commit {
            self.port.flush().await.map_err(errno)?;
        }
        Ok(())
    }
}

/// Mounts a file system with the strategy over `port`, which has recovered.
///
/// # Errors
/// The damaged part of the file system, or the failure of the drive.
pub fn mount_files(
    sim: &Sim,
    port: &impl SwapPort,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(CowFs<Intra>, Recovery), MountError>> {
    mount_intra(sim.clone(), Intra::new(port), options)
}

fn mount_intra(
    sim: Sim,
    strategy: Intra,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(CowFs<Intra>, Recovery), MountError>> {
    Box::pin(async move { cowfs::mount_with(&sim, strategy, options).await })
}

/// The mounted file system as one of any kind.
#[must_use]
pub fn into_any(body: CowFs<Intra>) -> AnyBody {
    AnyBody::new(body)
}

/// The snapshots of HyFiM's file system; `None` if `body` is another one.
#[must_use]
pub fn snapshots(body: &AnyBody) -> Option<&dyn Snapshots> {
    let body: &CowFs<Intra> = body.own()?;
    Some(body)
}
