//! Recovery from arbitrary flash metadata and persistent memory: the mount fails, or yields a
//! mapping whose invariants hold and that keeps later writes.

use crate::support::{
    Ftl, Left, Model, Rig, SECTORS, ftl_config, read, sectors, tiny, value, work,
};
use bolero::TypeGenerator;
use host::{BlockPort, RawMark, RawPort, Who};
use hostftl::FtlError;
use nand::Payload;
use sim::{Kernel, Seed};
use ssd::{Cause, Content, Meta, Ppa};
use std::sync::Arc;
use units::Placement;

/// A forged block on flash.
#[derive(Clone, Debug, TypeGenerator)]
struct Block {
    /// Chunk of the block, one of four.
    chunk: u8,
    kind: u8,
    number: u64,
    /// Whether `number` is reduced below 64.
    usual: bool,
    address: u16,
    /// Ranges of a deallocation record: number, first sector, sectors.
    ranges: Vec<(u16, u32, u32)>,
    /// Whether the checksum of the metadata is valid.
    sealed: bool,
}

impl Block {
    fn meta(&self) -> Meta {
        let number = if self.usual {
            self.number % 64
        } else {
            self.number
        };
        let kind = u64::from(if self.sealed {
            self.kind % 4
        } else {
            self.kind
        });
        let mut meta = [0; 16];
        meta[..8].copy_from_slice(&(number << 8 | kind).to_le_bytes());
        let address = u32::from(self.address) % (SECTORS + 50);
        meta[8..12].copy_from_slice(&address.to_le_bytes());
        let sum = crc32c::crc32c(&meta[..12]) ^ u32::from(!self.sealed);
        meta[12..].copy_from_slice(&sum.to_le_bytes());
        meta
    }

    fn payload(&self) -> Payload {
        let mut bytes = [0; 4096];
        let count = self.ranges.len().min(255);
        for (out, range) in bytes[16..].chunks_exact_mut(16).zip(&self.ranges) {
            out[..8].copy_from_slice(&u64::from(range.0).to_le_bytes());
            out[8..12].copy_from_slice(&(range.1 % 1_000).to_le_bytes());
            out[12..].copy_from_slice(&range.2.to_le_bytes());
        }
        bytes[..4].copy_from_slice(&(count as u32).to_le_bytes());
        let sum = crc32c::crc32c(&bytes[16..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        Payload::Bytes(Arc::new(bytes))
    }
}

/// Writes blocks to the starts of four chunks, in whole units.
async fn put(port: &impl RawPort, blocks: &[Block]) {
    let geometry = port.geometry();
    let mark = RawMark {
        cause: Cause::Host,
        who: Who::default(),
    };
    for chunk in 0..4_u32 {
        let of = blocks.iter().filter(|b| u32::from(b.chunk % 4) == chunk);
        let of: Vec<&Block> = of.take(geometry.blocks as usize).collect();
        let least = geometry.write_min as usize;
        for (turn, some) in of.chunks_exact(least).enumerate() {
            let first = chunk * geometry.blocks + (turn * least) as u32;
            let at: Vec<Ppa> = (first..first + geometry.write_min)
                .map(|n| geometry.ppa(geometry.nth(n)))
                .collect();
            let payload: Vec<Payload> = some.iter().map(|b| b.payload()).collect();
            let meta: Vec<Meta> = some.iter().map(|b| b.meta()).collect();
            let marks = vec![mark; least];
            let written = port.write(&at, &payload, &meta, &marks).await;
            written.expect("in order");
        }
    }
}

/// Checks the mapping, writes some sectors and reads them back.
async fn use_it(ftl: &Ftl) {
    ftl.check();
    for sector in (0..SECTORS).step_by(97) {
        let content = Content::Fill(u64::from(sector) + 1);
        let write = ftl.write(
            sectors(sector, 1),
            content,
            Placement(0),
            Who::default(),
            false,
        );
        write.await.expect("there is room");
    }
    ftl.flush().await.expect("there is room");
    ftl.check();
    has_it(ftl).await;
}

async fn has_it(ftl: &Ftl) {
    for sector in (0..SECTORS).step_by(97) {
        let held = read(ftl, sector, 1).await.expect("it can be read");
        assert_eq!(value(&held[0]), Some(u64::from(sector) + 1));
    }
}

#[test]
fn forged_metadata_are_refused_or_mount_soundly() {
    let config = tiny();
    let first = Left::new(&config, false);
    bolero::check!()
        .with_type::<Vec<Block>>()
        .with_iterations(300)
        .for_each(|blocks| {
            // Repeat blocks, so that they fill writes.
            let blocks: Vec<Block> = blocks.iter().flat_map(|b| vec![b.clone(); 3]).collect();
            let kernel = Kernel::new();
            let rig = Rig::on(&kernel, &config, first.clone());
            let (on, ftl) = (rig.clone(), ftl_config(&config));
            let mounted = kernel.block_on(async move {
                put(&on.port().raw, &blocks).await;
                match on.mount(ftl).await {
                    Ok(ftl) => {
                        use_it(&ftl).await;
                        true
                    }
                    Err(FtlError::Numbers) => false,
                    Err(other) => panic!("{other}"),
                }
            });
            if !mounted {
                return;
            }
            let left = rig.cut(&mut Seed(1).stream("none"));
            let kernel = Kernel::new();
            let rig = Rig::on(&kernel, &config, left);
            kernel.block_on(async move {
                let again = rig.mount(ftl).await.expect("it was mounted before");
                again.check();
                has_it(&again).await;
            });
        });
}

#[test]
fn forged_tables_are_refused_or_mount_soundly() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    let (running, on) = (rig.clone(), config.clone());
    kernel.block_on(async move {
        let ftl = running.mount(ftl_config(&on)).await.expect("a new drive");
        let rng = Seed(1).stream("work");
        work(ftl.clone(), Model::shared(), rng, (0, 1), 600).await;
        ftl.flush().await.expect("there is room");
    });
    let good = rig.cut(&mut Seed(1).stream("none"));
    bolero::check!()
        .with_type::<Vec<(bool, u16, u8)>>()
        .with_iterations(300)
        .for_each(|edits| {
            let mut left = good.clone();
            let memory = left.memory.as_mut().expect("it has some");
            for &(head, at, byte) in edits {
                // Mostly entries.
                let at = match head {
                    true => 4096 + u64::from(at) % 64,
                    false => 4096 + 64 + u64::from(at) % (4 * u64::from(SECTORS)),
                };
                memory.write(at, &[byte]);
            }
            let kernel = Kernel::new();
            let rig = Rig::on(&kernel, &config, left);
            let ftl = ftl_config(&config);
            kernel.block_on(async move {
                match rig.mount(ftl).await {
                    Ok(ftl) => use_it(&ftl).await,
                    Err(FtlError::Table(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            });
        });
}
