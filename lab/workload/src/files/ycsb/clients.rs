//! Clients of YCSB and of `db_bench`, and the operations that they request.
//!
//! Shares of operations, the skew of keys and the lengths of scans are those of YCSB's core
//! workloads A to F.

//= ycsb 4
use super::bench::Progress;
use super::{Mix, Ycsb};
use crate::files::source::Parking;
use crate::files::{Errno, ThreadId, Turn};
use crate::generate::Zipf;
use sim::{Rng, Seed};
use units::Ns;

/// Bytes of a key: `user` and 19 digits.
const KEY: u64 = 23;
/// Bytes of an entry besides key and value: sequence number, kind, lengths.
const ENTRY: u64 = 13;
/// Longest scan in records; lengths up to it are equally likely.
const LONGEST_SCAN: u64 = 100;
/// Processor time of one operation besides its calls: our own choice, of the order of an operation
/// in memory.
pub(super) const THINK: Ns = Ns(2_000);

/// Bytes of a stored record.
pub(super) const fn entry_bytes(value: u64) -> u64 {
    KEY + ENTRY + value
}

/// Operation on a record, which is identified by its number in order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read(u32),
    Update(u32),
    Insert(u32),
    /// Reads this many records from this one on.
    Scan(u32, u32),
    /// Reads a record and writes it back.
    Modify(u32),
}

impl Request {
    const fn kind(self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Update(_) => "update",
            Self::Insert(_) => "insert",
            Self::Scan(..) => "scan",
            Self::Modify(_) => "modify",
        }
    }
}

/// State of all clients.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    mix: Mix,
    zipf: Zipf,
    rngs: Vec<Rng>,
    /// Number of records that exist or are being inserted.
    pub(super) records: u32,
    /// Number of records at the start.
    first: u32,
    left: u64,
    until: Option<Ns>,
    pub(super) parking: Parking,
    /// Number of clients that have ended.
    gone: u32,
    /// Reason for which the run ends early.
    pub(super) failure: Option<String>,
    /// Progress through the benchmarks of `db_bench`, if they are run.
    bench: Option<Progress>,
    /// Operation in progress of each client, and its beginning.
    begun: Vec<Option<(&'static str, Ns)>>,
    /// Operations that have ended, for [`crate::files::Source::finished`].
    pub(super) finished: Vec<(&'static str, Ns)>,
}

impl Clients {
    /// Clients of `ycsb`, and parking for `helpers` further threads.
    pub(super) fn new(ycsb: &Ycsb, helpers: u32, seed: Seed) -> Self {
        let mut rng = seed.stream("ycsb keys");
        let rngs = (0..ycsb.threads).map(|i| seed.child(u64::from(i)).stream("ycsb"));
        Self {
            mix: ycsb.mix,
            zipf: Zipf::new(ycsb.records, ycsb.theta, &mut rng),
            rngs: rngs.collect(),
            records: ycsb.records as u32,
            first: ycsb.records as u32,
            left: ycsb.ops,
            until: ycsb.until,
            parking: Parking::new(ycsb.threads + helpers),
            gone: 0,
            failure: None,
            bench: match &ycsb.mix {
                Mix::Bench(benchmarks) => Some(Progress::new(benchmarks, ycsb.records as u32)),
                _ => None,
            },
            begun: vec![None; ycsb.threads as usize],
            finished: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.rngs.len() as u32
    }

    /// Whether all clients have ended.
    pub(super) fn are_gone(&self) -> bool {
        self.gone == self.count()
    }

    /// Ends the client `thread`. After the last one the helpers may end.
    pub(super) fn leave(&mut self, thread: ThreadId) -> Turn {
        self.gone += 1;
        if self.are_gone() {
            self.parking.wake_all();
        }
        self.parking.done(thread)
    }

    /// Ends the operation of `client` and draws the next one; `None` if the run is over at `now`.
    pub(super) fn request(&mut self, client: u32, now: Ns) -> Option<Request> {
        let ended = self.begun[client as usize].take();
        self.finished
            .extend(ended.map(|(kind, begun)| (kind, now.since(begun))));
        if self.failure.is_some() || self.left == 0 || self.until.is_some_and(|until| now >= until)
        {
            return None;
        }
        self.left -= 1;
        let (kind, request) = match &mut self.bench {
            Some(bench) => bench.request(&mut self.rngs[client as usize])?,
            None => {
                let request = self.mixed(client);
                (request.kind(), request)
            }
        };
        self.begun[client as usize] = Some((kind, now));
        Some(request)
    }

    /// Draws an operation of YCSB, by the shares of the mix.
    fn mixed(&mut self, client: u32) -> Request {
        let percent = self.rngs[client as usize].below(100);
        match self.mix {
            Mix::A if percent < 50 => Request::Update(self.popular(client)),
            Mix::B if percent < 5 => Request::Update(self.popular(client)),
            Mix::A | Mix::B | Mix::C => Request::Read(self.popular(client)),
            Mix::D | Mix::E if percent < 5 => self.insert(),
            Mix::D => Request::Read(self.latest(client)),
            Mix::E => {
                let length = self.rngs[client as usize].below(LONGEST_SCAN) as u32 + 1;
                Request::Scan(self.popular(client), length)
            }
            Mix::F if percent < 50 => Request::Modify(self.popular(client)),
            Mix::F | Mix::Bench(_) => Request::Read(self.popular(client)),
        }
    }

    /// Draws whether a Bloom filter with 10 bits a key errs: 1 in 100.
    pub(super) fn is_fooled(&mut self, client: u32) -> bool {
        self.rngs[client as usize].chance(1, 100)
    }

    /// Handles the result of a call: an error fails the run.
    pub(super) fn landed(&mut self, result: Result<u64, Errno>) {
        if let Err(errno) = result {
            let why = format!("the storage engine's call failed with {errno}");
            self.failure.get_or_insert(why);
        }
    }

    fn popular(&mut self, client: u32) -> u32 {
        self.zipf.draw(&mut self.rngs[client as usize]) as u32
    }

    /// Draws one of the newest records.
    fn latest(&mut self, client: u32) -> u32 {
        let rank = self.zipf.rank(&mut self.rngs[client as usize]) as u32;
        self.records - rank.min(self.records)
    }

    fn insert(&mut self) -> Request {
        // Record numbers have 32 bits; a run that inserts more continues with the first inserted
        // ones.
        let record = self.records;
        self.records = self.records.checked_add(1).unwrap_or(self.first);
        Request::Insert(record)
    }
}
