//! Zones in memory that enforce the rules of zones, and lose unflushed writes.

use shimmer::{BLOCK, Command, Failure, Limits, Piece, ZoneReport};

/// A seeded generator of random numbers.
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

#[derive(Clone, Default)]
struct Zone {
    bytes: Vec<u8>,
    forced: usize,
    open: bool,
}

#[derive(Clone)]
pub(crate) struct Device {
    zones: Vec<Zone>,
    capacity: usize,
    pub(crate) limits: Limits,
    /// Zones whose writes fail.
    pub(crate) broken: Vec<u32>,
    pub(crate) resets: u32,
    pub(crate) finishes: u32,
    pub(crate) written: u64,
}

impl Device {
    pub(crate) fn new(zones: usize, blocks: usize, limits: Limits) -> Self {
        Self {
            zones: vec![Zone::default(); zones],
            capacity: blocks * BLOCK as usize,
            limits,
            broken: Vec::new(),
            resets: 0,
            finishes: 0,
            written: 0,
        }
    }

    pub(crate) fn reports(&self) -> Vec<ZoneReport> {
        let report = |zone: &Zone| ZoneReport {
            capacity: self.capacity as u64,
            written: zone.bytes.len() as u64,
        };
        self.zones.iter().map(report).collect()
    }

    pub(crate) fn bytes(&self, zone: usize) -> &[u8] {
        &self.zones[zone].bytes
    }

    pub(crate) fn bytes_mut(&mut self, zone: usize) -> &mut Vec<u8> {
        &mut self.zones[zone].bytes
    }

    pub(crate) fn read(&self, piece: Piece) -> Vec<u8> {
        let start = piece.at as usize;
        self.zones[piece.zone as usize].bytes[start..start + piece.len as usize].to_vec()
    }

    fn write(&mut self, zone: u32, at: u64, data: &[u8]) -> Result<(), Failure> {
        if self.broken.contains(&zone) {
            return Err(Failure);
        }
        let capacity = self.capacity;
        let row = &mut self.zones[zone as usize];
        assert_eq!(
            at,
            row.bytes.len() as u64,
            "zone {zone} is written at its pointer"
        );
        assert!(!data.is_empty() && data.len().is_multiple_of(BLOCK as usize));
        row.bytes.extend_from_slice(data);
        assert!(row.bytes.len() <= capacity, "zone {zone} is full");
        row.open = true;
        self.written += data.len() as u64;
        self.check();
        let row = &mut self.zones[zone as usize];
        row.open &= row.bytes.len() < capacity;
        Ok(())
    }

    /// Checks that no limit of open or active zones is exceeded.
    fn check(&self) {
        let open = self.zones.iter().filter(|zone| zone.open).count();
        let active = |zone: &&Zone| (1..self.capacity).contains(&zone.bytes.len());
        let active = self.zones.iter().filter(active).count();
        let within = |count: usize, limit: u32| limit == 0 || count <= limit as usize;
        assert!(within(open, self.limits.open), "{open} open zones");
        assert!(within(active, self.limits.active), "{active} active zones");
    }

    pub(crate) fn run(&mut self, command: &Command) -> Result<(), Failure> {
        match *command {
            Command::Write { zone, at, ref data } => self.write(zone, at, data)?,
            Command::Copy { from, zone, at } => {
                let data = self.read(from);
                self.write(zone, at, &data)?;
            }
            Command::Flush => {
                for zone in &mut self.zones {
                    zone.forced = zone.bytes.len();
                }
            }
            Command::Reset { zone } => {
                self.resets += 1;
                self.zones[zone as usize] = Zone::default();
            }
            Command::Finish { zone } => {
                self.finishes += 1;
                let row = &mut self.zones[zone as usize];
                row.bytes.resize(self.capacity, 0);
                (row.forced, row.open) = (self.capacity, false);
            }
            Command::Close { zone } => {
                let row = &mut self.zones[zone as usize];
                assert!(row.open, "zone {zone} is open before it is closed");
                row.open = false;
            }
        }
        Ok(())
    }

    /// Executes a part of a command, as if the power failed.
    pub(crate) fn run_torn(&mut self, command: &Command, rng: &mut Rng) {
        if let Command::Write { zone, ref data, .. } = *command {
            let some = rng.below(data.len() as u64 + 1) as usize;
            let row = &mut self.zones[zone as usize].bytes;
            row.extend_from_slice(&data[..some]);
            // The block that was being written counts as written, and is garbage.
            row.resize(row.len().next_multiple_of(BLOCK as usize), 0xdb);
        } else if rng.below(2) == 0 {
            let _ = self.run(command);
        }
    }

    /// Loses a random part of the unflushed writes of each zone.
    pub(crate) fn cut(&mut self, rng: &mut Rng) {
        for zone in &mut self.zones {
            let loose = (zone.bytes.len() - zone.forced) as u64 / BLOCK;
            let kept = rng.below(loose + 1) * BLOCK;
            // A full zone stays full, with garbage: a drive does not restart with more active zones
            // than it allows.
            let full = zone.bytes.len() == self.capacity;
            zone.bytes.truncate(zone.forced + kept as usize);
            if full {
                zone.bytes.resize(self.capacity, 0xdb);
            }
            zone.forced = zone.bytes.len();
            zone.open = false;
        }
    }
}
