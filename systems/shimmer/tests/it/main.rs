//! Tests of the core over zones in memory.

mod cuts;
mod device;
mod hostile;
mod limits;
mod model;
mod named;

use device::{Device, Rng};
use shimmer::{Core, FileId, Limits, Options, Part, Placement, Policy, Refusal};
use units::Bytes;

/// Extents of four blocks in zones of ten, which hold no whole number of them.
const OPTIONS: Options = Options {
    extent: Bytes(16 << 10),
    buffers: 3,
    policy: Policy::Streams,
    relocate: true,
    free_zones_min: 4,
    log_blocks_max: 6,
};
const LIMITS: Limits = Limits { open: 4, active: 6 };
const ZONES: usize = 90;
const BLOCKS: usize = 10;

/// A core and its zones in memory.
#[derive(Clone)]
struct Volume {
    core: Core,
    device: Device,
    /// Commands that were taken from the core and not executed.
    held: Vec<(shimmer::Ticket, shimmer::Command)>,
}

impl Volume {
    fn new(options: Options, limits: Limits, zones: usize) -> Self {
        let device = Device::new(zones, BLOCKS, limits);
        let core = Core::format(options, limits, &device.reports(), 7).unwrap();
        let mut volume = Self {
            core,
            device,
            held: Vec::new(),
        };
        let sync = volume.core.sync_all();
        volume.wait(sync).unwrap();
        volume
    }

    fn small() -> Self {
        Self::new(OPTIONS, LIMITS, ZONES)
    }

    /// Reopens the volume from the zones alone.
    fn reopened(device: Device, options: Options) -> Self {
        let logs = [device.bytes(0), device.bytes(1)];
        let core = Core::open(options, device.limits, &device.reports(), logs).unwrap();
        core.check();
        Self {
            core,
            device,
            held: Vec::new(),
        }
    }

    /// Executes the oldest command; returns `false` if there is none.
    fn step(&mut self) -> bool {
        self.held
            .extend(std::iter::from_fn(|| self.core.next_command()));
        if self.held.is_empty() {
            return false;
        }
        let (ticket, command) = self.held.remove(0);
        let result = self.device.run(&command);
        self.core.complete(ticket, result);
        self.core.check();
        true
    }

    /// Executes a random one of the pending commands.
    fn step_any(&mut self, rng: &mut Rng) -> bool {
        self.held
            .extend(std::iter::from_fn(|| self.core.next_command()));
        if self.held.is_empty() {
            return false;
        }
        let which = rng.below(self.held.len() as u64) as usize;
        let chosen = self.held.remove(which);
        self.held.insert(0, chosen);
        self.step()
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    fn wait(&mut self, sync: shimmer::SyncId) -> Result<(), Refusal> {
        loop {
            if let Some(outcome) = self.core.poll_sync(sync) {
                return outcome;
            }
            assert!(self.step(), "a wait that nothing ends");
        }
    }

    fn sync(&mut self, id: FileId) -> Result<(), Refusal> {
        let sync = self.core.sync(id)?;
        self.wait(sync)
    }

    fn create(&mut self, path: &str, stream: u32) -> FileId {
        let placement = Placement {
            stream,
            group: stream,
        };
        self.core.create(path.as_bytes(), placement).unwrap()
    }

    /// Writes all of `data`, executing commands where the core requires it.
    fn write(&mut self, id: FileId, offset: u64, data: &[u8]) -> Result<(), Refusal> {
        let mut done = 0;
        while done < data.len() {
            match self.core.write(id, offset + done as u64, &data[done..]) {
                Ok(more) => done += more,
                Err(Refusal::Busy) => assert!(self.step(), "busy with nothing"),
                Err(Refusal::Tail(piece)) => {
                    let bytes = self.device.read(piece);
                    self.core.load_tail(id, &bytes);
                }
                Err(other) => return Err(other),
            }
            self.core.check();
        }
        Ok(())
    }

    fn append(&mut self, id: FileId, data: &[u8]) -> Result<(), Refusal> {
        let end = self.core.status(id).unwrap().size;
        self.write(id, end, data)
    }

    fn read(&mut self, id: FileId, offset: u64, len: u64) -> Vec<u8> {
        let parts = self.core.read(id, offset, len).unwrap();
        let mut bytes = Vec::new();
        for part in &parts {
            match part {
                Part::Zone(piece) => bytes.extend(self.device.read(*piece)),
                Part::Memory(data) => bytes.extend_from_slice(data),
            }
        }
        self.core.release(&parts);
        bytes
    }

    fn all(&mut self, id: FileId) -> Vec<u8> {
        let size = self.core.status(id).unwrap().size;
        self.read(id, 0, size)
    }
}

/// Pseudo-random bytes, determined by the seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    (0..len).map(|_| rng.below(256) as u8).collect()
}
