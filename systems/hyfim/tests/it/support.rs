//! Small drives, random workers, and the promises of a batch.

use host::{
    BlockDevice, BlockPort, HostConfig, PageChange, Pm, PmConfig, PmError, PmMedia, RawDevice,
    SwapPort, Who,
};
use hostftl::{FtlConfig, Home, HostFtl};
use hyfim::{HyFim, HyfimConfig, HyfimError, Recovered};
use nand::{Geometry, Payload};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia, Preset};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Extent, KIB, Ns};

/// Sectors of 4 KiB that the drives of these tests export.
pub(crate) const SECTORS: u32 = 600;
/// Sectors of a node; `NODE_BYTES` is its size in bytes.
pub(crate) const NODE: u32 = 4;
const NODE_BYTES: usize = NODE as usize * 4096;
/// Byte offset of the generation in a node.
const GENERATION: u32 = 80;

/// Two channels of one unit each: 26 lines (superblocks) of 64 blocks.
pub(crate) fn tiny() -> DriveConfig {
    let mut config = (Preset::named("ocssd").expect("a preset").config)();
    config.geometry = Geometry {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes: 2,
        blocks_per_plane: 26,
        pages_per_block: 8,
        page_bytes: 8192,
        spare_bytes: 128,
        pages_per_program: 1,
        spare_words: 4,
    };
    config.flash.part = "z-nand".to_owned();
    config.flash.keep_contents = true;
    config.capacity = Bytes(u64::from(SECTORS) * 4096);
    config
}

pub(crate) fn hyfim_config() -> HyfimConfig {
    let config = HyfimConfig::new(FtlConfig::new(Bytes(u64::from(SECTORS) * 4096)));
    HyfimConfig {
        ftl: FtlConfig {
            hidden: 16,
            buffer: Bytes(24 * 4096),
            ..config.ftl
        },
        // Small, so that the journals wrap around.
        journal: Bytes(8 * KIB),
        ..config
    }
}

/// Persistent state at a power cut: the media of the drive, and persistent memory.
#[derive(Clone)]
pub(crate) struct Left {
    pub(crate) media: DriveMedia,
    pub(crate) memory: PmMedia,
    /// Whether the write buffer is in persistent memory, too.
    pub(crate) lasting: bool,
}

impl Left {
    /// A new drive with blank memory.
    pub(crate) fn new(config: &DriveConfig) -> Self {
        Self {
            media: DriveMedia::new(config, Seed(1)).expect("it can be built"),
            memory: PmMedia::new(Bytes(64 * KIB)),
            lasting: false,
        }
    }

    /// A new drive with memory large enough for the write buffer, too.
    pub(crate) fn buffered(config: &DriveConfig) -> Self {
        Self {
            memory: PmMedia::new(Bytes(160 * KIB)),
            lasting: true,
            ..Self::new(config)
        }
    }
}

pub(crate) type System = HyFim<RawDevice>;

/// A drive and persistent memory under power.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) sim: Sim,
    pub(crate) drive: Drive,
    pub(crate) pm: Pm,
    config: HyfimConfig,
}

impl Rig {
    pub(crate) fn on(kernel: &Kernel, config: &DriveConfig, left: Left) -> Self {
        let sim = kernel.sim();
        let drive = Drive::ready(&sim, config, left.media, Seed(1)).expect("as above");
        let pm = Pm::new(&sim, PmConfig::default(), left.memory, None);
        let config = HyfimConfig {
            lasting: left.lasting,
            ..hyfim_config()
        };
        Self {
            sim,
            drive,
            pm,
            config,
        }
    }

    pub(crate) fn port(&self) -> RawDevice {
        let device = BlockDevice::new(&self.sim, HostConfig::default(), self.drive.clone());
        RawDevice::new(&device.expect("the default can be")).expect("it is raw")
    }

    /// A mapping with a volatile table, of a host without persistent memory.
    pub(crate) async fn plain(&self) -> HostFtl<RawDevice> {
        let mounted = HostFtl::mount(&self.sim, self.port(), hyfim_config().ftl, Home::Dram);
        mounted.await.expect("whatever is there")
    }

    /// Mounts the drive, or takes it over if the memory is blank.
    pub(crate) async fn mount(&self) -> Result<(System, Recovered), HyfimError> {
        match self.mount_left().await {
            Err(HyfimError::Memory(PmError::Blank)) => {}
            mounted => return mounted,
        }
        let taken = HyFim::adopt(&self.sim, self.port(), &self.pm, self.config).await?;
        Ok((taken, Recovered::default()))
    }

    /// Mounts the drive with its memory, which must not be blank.
    pub(crate) async fn mount_left(&self) -> Result<(System, Recovered), HyfimError> {
        HyFim::mount(&self.sim, self.port(), &self.pm, self.config).await
    }

    pub(crate) fn cut(&self, rng: &mut Rng) -> Left {
        Left {
            media: self.drive.at_power_cut(),
            memory: self.pm.at_power_cut(rng),
            lasting: self.config.lasting,
        }
    }
}

/// Expectations of one worker: acknowledged contents, and the batch in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Acknowledged values by sector.
    pub(crate) sectors: std::collections::BTreeMap<u32, u64>,
    pub(crate) under_way: Vec<(u32, u64)>,
    /// Acknowledged bytes of nodes, by first sector.
    pub(crate) nodes: std::collections::BTreeMap<u32, Vec<u8>>,
    pub(crate) nodes_under_way: Vec<(u32, Vec<u8>)>,
}

pub(crate) type Shared = Rc<RefCell<Known>>;

pub(crate) async fn read(system: &System, first: u32, count: u32) -> Vec<u8> {
    let mut bytes = vec![0; count as usize * 4096];
    let extent = Extent::new(u64::from(first) * 8, count * 8);
    let sink = &mut bytes.as_mut_slice();
    system
        .read(extent, sink, Who::default())
        .await
        .expect("it can be read");
    bytes
}

pub(crate) fn payloads(bytes: &[u8]) -> Vec<Payload> {
    let sectors = bytes.chunks_exact(4096);
    sectors
        .map(|s| Payload::Bytes(Arc::new(s.try_into().expect("a sector"))))
        .collect()
}

/// Asserts the expectations of one worker: the batch in flight is there as a whole or not at all.
pub(crate) async fn compare(system: &System, known: &mut Known, what: &str) {
    let sectors = std::mem::take(&mut known.under_way);
    let nodes = std::mem::take(&mut known.nodes_under_way);
    let mut there = true;
    for &(sector, value) in &sectors {
        there &= word(&read(system, sector, 1).await) == value;
        known.sectors.entry(sector).or_insert(0);
    }
    for (sector, bytes) in &nodes {
        there &= read(system, *sector, NODE).await == *bytes;
        let blank = || vec![0; NODE as usize * 4096];
        known.nodes.entry(*sector).or_insert_with(blank);
    }
    if there {
        known.sectors.extend(sectors);
        known.nodes.extend(nodes);
    }
    for (&sector, &value) in &known.sectors {
        let held = word(&read(system, sector, 1).await);
        assert_eq!(held, value, "{what}: sector {sector}: {held:#x} {value:#x}");
    }
    for (&sector, bytes) in &known.nodes {
        let held = read(system, sector, NODE).await;
        let differs = held.iter().zip(bytes).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: node {sector}");
    }
}

fn word(sector: &[u8]) -> u64 {
    let first = sector[..8].try_into().expect("eight bytes");
    assert!(
        sector.chunks_exact(8).all(|word| word == first),
        "a sector is whole"
    );
    u64::from_le_bytes(first)
}

/// Stages sectors one by one, some of them twice, and returns the numbers of the batches. Retries
/// until the spare sectors suffice for all.
pub(crate) async fn stage(rig: &Sim, system: &System, all: &[(u32, Payload)]) -> Vec<u64> {
    loop {
        let mut numbers = Vec::new();
        for (sector, payload) in all {
            let who = Who::default();
            if sector % 7 == 0 {
                let early = [Payload::Fill(u64::MAX)];
                let early = system.stage((*sector).into(), &early, who).await;
                numbers.push(early.expect("it is there"));
            }
            let one = [payload.clone()];
            let staged = system.stage((*sector).into(), &one, who).await;
            numbers.push(staged.expect("it is there"));
        }
        let staged: Vec<u64> = numbers.iter().flatten().copied().collect();
        if staged.len() == numbers.len() {
            return staged;
        }
        staged.iter().for_each(|&number| system.unstage(number));
        // Spare sectors that were given up become free with a publication.
        let _ = system.publish(&[], &[]).await;
        rig.sleep(Ns::us(100)).await;
    }
}

/// Exchanges batches of up to four of the first 300 sectors, those that are `index` modulo 3.
pub(crate) async fn exchange(
    (sim, system): (Sim, System),
    known: Shared,
    mut rng: Rng,
    index: u32,
    count: u64,
) {
    // Values unique to this run.
    let run = rng.next_u64() << 32;
    for number in 1..=count {
        let mut batch = std::collections::BTreeMap::new();
        for _ in 0..=rng.below(4) {
            let sector = rng.below(100) as u32 * 3 + index;
            batch.insert(sector, run | number << 8 | u64::from(sector % 251));
        }
        let batch: Vec<(u32, u64)> = batch.into_iter().collect();
        known.borrow_mut().under_way.clone_from(&batch);
        let contents: Vec<_> = batch.iter().map(|&(s, v)| (s, Payload::Fill(v))).collect();
        let staged = stage(&sim, &system, &contents).await;
        let published = system.publish(&staged, &[]).await;
        published.expect("there is room");
        let mut known = known.borrow_mut();
        known.under_way.clear();
        known.sectors.extend(batch);
    }
}

/// Changes up to three of the twenty nodes from sector 320 on, `count` times, about half of the
/// times with one of the twenty sectors from 400 on.
pub(crate) async fn change((sim, system): (Sim, System), known: Shared, mut rng: Rng, count: u64) {
    let run = rng.next_u64() << 32;
    for number in 1..=count {
        let mut batch = Vec::new();
        let mut next = std::collections::BTreeMap::new();
        for _ in 0..=rng.below(3) {
            let sector = 320 + NODE * rng.below(20) as u32;
            let before = known.borrow().nodes.get(&sector).cloned();
            let mut bytes = before.unwrap_or_else(|| vec![0; NODE_BYTES]);
            if next.contains_key(&sector) {
                continue;
            }
            let mut from = 128;
            let mut parts = Vec::new();
            for _ in 0..=rng.below(3) {
                // Behind the head of the node, which stays as it is.
                let first = from + rng.below(NODE_BYTES as u64 / 4) as usize;
                let end = first + 1 + rng.below(100) as usize;
                bytes[first..end].fill(number as u8);
                parts.push(first..end);
                from = end;
            }
            batch.push(PageChange {
                first: sector.into(),
                contents: payloads(&bytes),
                stamp: Some((GENERATION, 0)),
                parts,
                who: Who::default(),
            });
            next.insert(sector, bytes);
        }
        let with: Vec<(u32, u64)> = (0..rng.below(2))
            .map(|_| (400 + rng.below(20) as u32, run | number << 8 | 7))
            .collect();
        let all: Vec<(u32, Vec<u8>)> = next.into_iter().collect();
        {
            let mut known = known.borrow_mut();
            known.nodes_under_way.clone_from(&all);
            known.under_way.clone_from(&with);
        }
        let contents: Vec<_> = with.iter().map(|&(s, v)| (s, Payload::Fill(v))).collect();
        let staged = stage(&sim, &system, &contents).await;
        let published = system.publish(&staged, &batch).await;
        published.expect("there is room");
        {
            let mut known = known.borrow_mut();
            known.nodes_under_way.clear();
            known.nodes.extend(all);
            known.under_way.clear();
            known.sectors.extend(with);
        }
        if rng.chance(1, 40) {
            BlockPort::flush(&system).await.expect("there is room");
        }
    }
}
