//! Small drives, and a model of the guarantees of a mapping.

use crate::port::Port;
use host::{
    BlockDevice, BlockPort, HostConfig, Pm, PmConfig, PmError, PmMedia, RawDevice, RawPort,
    Regions, Who,
};
use hostftl::{FtlConfig, FtlError, Home, HostFtl, PmBuffer, PmTable, buffer_bytes, table_bytes};
use nand::{Geometry, Payload};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, DriveMedia, IoError, Preset};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Extent, Placement};

/// Sectors that the mappings of these tests export.
pub(crate) const SECTORS: u32 = 700;
/// Kinds of the memory regions with the table and the buffer.
const TABLE: u64 = 1;
const BUFFER: u64 = 2;

/// Two channels of one unit each: 26 lines of 64 blocks.
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

pub(crate) fn ftl_config(config: &DriveConfig) -> FtlConfig {
    FtlConfig {
        buffer: Bytes(24 * 4096),
        ..FtlConfig::new(config.capacity)
    }
}

/// Persistent state at a power cut: the media of the drive, and persistent memory if there is any.
#[derive(Clone)]
pub(crate) struct Left {
    pub(crate) media: DriveMedia,
    pub(crate) memory: Option<PmMedia>,
}

impl Left {
    pub(crate) fn new(config: &DriveConfig, kept: bool) -> Self {
        Self {
            media: DriveMedia::new(config, Seed(1)).expect("it can be built"),
            memory: kept.then(|| memory(config, true, false)),
        }
    }

    /// A new drive with its write buffer in persistent memory; `kept` puts the table there too.
    pub(crate) fn buffered(config: &DriveConfig, kept: bool) -> Self {
        Self {
            memory: Some(memory(config, kept, true)),
            ..Self::new(config, false)
        }
    }
}

/// A drive and persistent memory under power.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) sim: Sim,
    pub(crate) drive: Drive,
    pub(crate) pm: Option<Pm>,
}

pub(crate) type Ftl = HostFtl<Port>;

impl Rig {
    pub(crate) fn on(kernel: &Kernel, config: &DriveConfig, left: Left) -> Self {
        let sim = kernel.sim();
        let drive = Drive::ready(&sim, config, left.media, Seed(1)).expect("as above");
        let memory = left.memory;
        let pm = memory.map(|memory| Pm::new(&sim, PmConfig::default(), memory, None));
        Self { sim, drive, pm }
    }

    /// A raw port to the drive, through a host.
    pub(crate) fn port(&self) -> Port {
        let device = BlockDevice::new(&self.sim, HostConfig::default(), self.drive.clone());
        let raw = RawDevice::new(&device.expect("the default can be")).expect("it is raw");
        Port::new(&self.sim, raw)
    }

    pub(crate) async fn mount(&self, config: FtlConfig) -> Result<Ftl, FtlError> {
        self.mount_on(self.port(), config).await
    }

    pub(crate) async fn mount_on(&self, port: Port, config: FtlConfig) -> Result<Ftl, FtlError> {
        let (home, buffer) = match &self.pm {
            None => (Home::Dram, None),
            Some(pm) => kept(pm, &config).await,
        };
        HostFtl::mount_with(&self.sim, port, config, home, buffer).await
    }

    pub(crate) fn cut(&self, rng: &mut Rng) -> Left {
        Left {
            media: self.drive.at_power_cut(),
            memory: self.pm.as_ref().map(|pm| pm.at_power_cut(rng)),
        }
    }
}

/// Table and write buffer according to the regions of persistent memory. A table that names no
/// drive yet is to be moved to.
async fn kept(pm: &Pm, config: &FtlConfig) -> (Home, Option<PmBuffer>) {
    let regions = Regions::open(pm).await.expect("it was made ready");
    let buffer = regions.get(BUFFER).ok();
    let buffer = buffer.map(|region| PmBuffer::new(pm.clone(), region, config));
    let Ok(region) = regions.get(TABLE) else {
        return (Home::Dram, buffer);
    };
    let mut drive = [0; 8];
    pm.peek(region.at + 16, &mut drive);
    let table = PmTable::new(pm.clone(), region);
    match drive == [0; 8] {
        true => (Home::Moving(table), buffer),
        false => (Home::Pm(table), buffer),
    }
}

/// Persistent memory with a table, a buffer, or both, initialized.
fn memory(config: &DriveConfig, has_table: bool, has_buffer: bool) -> PmMedia {
    let ftl = ftl_config(config);
    let mut wanted = Vec::new();
    if has_table {
        wanted.push((TABLE, table_bytes(SECTORS)));
    }
    if has_buffer {
        wanted.push((BUFFER, buffer_bytes(ftl.buffer)));
    }
    let bytes = wanted.iter().map(|w| w.1.next_multiple_of(4096));
    let media = PmMedia::new(Bytes(4096 + bytes.sum::<u64>()));
    let kernel = Kernel::new();
    let rig = Rig::on(
        &kernel,
        config,
        Left {
            memory: Some(media),
            ..Left::new(config, false)
        },
    );
    let pm = rig.pm.clone().expect("it has some");
    let making = pm.clone();
    kernel.block_on(async move {
        let made = Regions::create(&making, &wanted, async |regions| {
            if let Ok(region) = regions.get(TABLE) {
                let table = PmTable::new(making.clone(), region);
                table.make(SECTORS).await.expect("there is room");
            }
            if let Ok(region) = regions.get(BUFFER) {
                let buffer = PmBuffer::new(making.clone(), region, &ftl);
                let geometry = rig.port().geometry();
                buffer.make(&geometry).await.expect("there is room");
            }
            Ok::<(), PmError>(())
        });
        made.await.expect("there is room");
    });
    pm.shutdown()
}

/// Versions of one sector in order, 0 for zeros, with the indexes of the last acknowledged and the
/// last durable one. Version 0 is zeros.
#[derive(Clone, Debug)]
struct History {
    values: Vec<u64>,
    acknowledged: usize,
    promised: usize,
}

/// Contents that a mapping may have after a power cut. Only one worker writes each sector, so its
/// versions are in order.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    sectors: Vec<History>,
}

pub(crate) type Shared = Rc<RefCell<Model>>;

impl Model {
    pub(crate) fn shared() -> Shared {
        let history = History {
            values: vec![0],
            acknowledged: 0,
            promised: 0,
        };
        Rc::new(RefCell::new(Self {
            sectors: vec![history; SECTORS as usize],
        }))
    }

    pub(crate) fn begin(&mut self, sector: u32, value: u64) {
        self.sectors[sector as usize].values.push(value);
    }

    pub(crate) fn acknowledge(&mut self, sector: u32) {
        let history = &mut self.sectors[sector as usize];
        history.acknowledged = history.values.len() - 1;
    }

    fn acknowledged(&self) -> Vec<usize> {
        self.sectors.iter().map(|h| h.acknowledged).collect()
    }

    fn promise(&mut self, then: &[usize]) {
        for (history, &version) in self.sectors.iter_mut().zip(then) {
            history.promised = history.promised.max(version);
        }
    }

    /// Marks the acknowledged version of one sector as durable.
    pub(crate) fn promise_one(&mut self, sector: u32) {
        let history = &mut self.sectors[sector as usize];
        history.promised = history.acknowledged;
    }

    /// Number of versions that are not zeros.
    pub(crate) fn writes(&self) -> u64 {
        let versions = self.sectors.iter().flat_map(|history| &history.values);
        versions.filter(|&&value| value != 0).count() as u64
    }

    /// Newest acknowledged value of a sector, 0 for zeros.
    pub(crate) fn newest(&self, sector: u32) -> u64 {
        let history = &self.sectors[sector as usize];
        history.values[history.acknowledged]
    }

    /// Whether a sector may hold `value` after a cut; restarts its history with that value.
    pub(crate) fn survives(&mut self, sector: u32, value: u64) -> bool {
        let history = &mut self.sectors[sector as usize];
        let found = history.values[history.promised..].contains(&value);
        *history = History {
            values: vec![value],
            acknowledged: 0,
            promised: 0,
        };
        found
    }
}

pub(crate) fn sectors(first: u32, count: u32) -> Extent {
    Extent::new(u64::from(first) * 8, count * 8)
}

/// The number that a sector repeats; `None` if its contents are mixed.
pub(crate) fn value(payload: &Payload) -> Option<u64> {
    match payload {
        Payload::Zero => Some(0),
        Payload::Fill(value) => Some(*value),
        _ => {
            let bytes = payload.to_bytes();
            let first = bytes[..8].try_into().ok()?;
            let same = bytes.chunks_exact(8).all(|word| word == first);
            same.then_some(u64::from_le_bytes(first))
        }
    }
}

pub(crate) async fn read(ftl: &Ftl, first: u32, count: u32) -> Result<Vec<Payload>, IoError> {
    let mut payloads = vec![Payload::Zero; count as usize];
    let sink = &mut payloads.as_mut_slice();
    ftl.read(sectors(first, count), sink, Who::default())
        .await?;
    Ok(payloads)
}

/// Runs `ops` random requests on the sectors that are `worker.0` modulo `worker.1`, mostly on a few
/// of them.
pub(crate) async fn work(ftl: Ftl, model: Shared, mut rng: Rng, worker: (u32, u32), ops: u64) {
    let (index, workers) = worker;
    let slots = u64::from(SECTORS / workers);
    for op in 0..ops {
        let hot = rng.chance(3, 4);
        let slot = if hot {
            rng.below(slots / 8)
        } else {
            rng.below(slots)
        };
        let sector = slot as u32 * workers + index;
        match rng.below(20) {
            0 => {
                let then = model.borrow().acknowledged();
                if ftl.flush().await.is_ok() {
                    model.borrow_mut().promise(&then);
                }
            }
            1 | 2 => {
                model.borrow_mut().begin(sector, 0);
                if ftl.trim(sectors(sector, 1)).await.is_ok() {
                    model.borrow_mut().acknowledge(sector);
                }
            }
            3 => {
                let newest = model.borrow().newest(sector);
                let held = read(&ftl, sector, 1).await.expect("it can be read");
                assert_eq!(value(&held[0]), Some(newest), "sector {sector}");
            }
            _ => {
                let value = u64::from(index + 1) << 32 | (op + 1);
                model.borrow_mut().begin(sector, value);
                let fua = rng.chance(1, 20);
                let content = Content::Fill(value);
                let write = ftl.write(
                    sectors(sector, 1),
                    content,
                    Placement(0),
                    Who::default(),
                    fua,
                );
                if write.await.is_ok() {
                    model.borrow_mut().acknowledge(sector);
                }
            }
        }
    }
}
