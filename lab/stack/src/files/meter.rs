//! Latencies and results of calls.

use crate::meter::Tally;
use report::record;
use std::borrow::Cow;
use std::collections::BTreeMap;
use units::Ns;
use workload::files::{Call, Errno};

/// Upper bound of the numbers of call kinds.
const KINDS: usize = 64;

/// Counters of all calls that ended.
pub struct FileMeter {
    /// Names of the workloads that run beside each other; empty for a single one.
    members: Vec<String>,
    /// Latencies by member, then by kind of call.
    tallies: Vec<Option<Box<Tally>>>,
    /// Latencies since the last sample; `None` without a timeline.
    pub(crate) interval: Option<Tally>,
    /// Number of calls that failed unexpectedly, by kind and error.
    pub errors: BTreeMap<(u8, Errno), u64>,
    /// Number of results that differ from the recorded ones, by difference.
    pub mismatches: BTreeMap<Mismatch, u64>,
    /// Number of calls that ended as expected.
    pub completed: u64,
    /// Latencies of operations of a storage engine, by member and kind.
    operations: BTreeMap<(usize, &'static str), Tally>,
    /// Time at which the last call ended.
    pub last: Ns,
    /// Bytes that programs read by calls.
    pub read: u64,
    /// Bytes that programs wrote by calls.
    pub written: u64,
}

/// A difference between a result and the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// A call of this kind failed; the recorded one succeeded, or failed with another error.
    Failed(u8, Errno),
    /// A call of this kind succeeded; the recorded one failed with this error.
    Succeeded(u8, Errno),
    /// A call of this kind moved fewer bytes than the recorded one, or returned fewer entries.
    Fewer(u8),
    /// A call of this kind moved more bytes than the recorded one, or returned more entries.
    More(u8),
}

impl Mismatch {
    /// The difference in words.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = |number: &u8| name_of(*number);
        match self {
            Self::Failed(n, errno) => format!("{} failed with {errno}", kind(n)),
            Self::Succeeded(n, errno) => format!("{} did not fail with {errno}", kind(n)),
            Self::Fewer(n) => format!("{} moved fewer", kind(n)),
            Self::More(n) => format!("{} moved more", kind(n)),
        }
    }
}

/// The name of the call kind `number`.
fn name_of(number: u8) -> &'static str {
    let kind = Call::KINDS.iter().find(|(n, _)| *n == number);
    kind.map_or("call", |(_, name)| name)
}

impl FileMeter {
    /// An empty meter for `members` beside each other, or for one workload if there are none;
    /// tallies each interval too if `sampled`.
    pub(crate) fn new(members: &[String], sampled: bool) -> Self {
        Self {
            members: members.to_vec(),
            tallies: (0..KINDS * members.len().max(1)).map(|_| None).collect(),
            interval: sampled.then(Tally::default),
            errors: BTreeMap::new(),
            mismatches: BTreeMap::new(),
            completed: 0,
            operations: BTreeMap::new(),
            last: Ns::ZERO,
            read: 0,
            written: 0,
        }
    }

    /// Records `call` of `member`, which took `latency` and ended at `now`.
    pub(crate) fn add(
        &mut self,
        (member, call): (usize, &Call),
        (latency, now): (Ns, Ns),
        result: Result<u64, Errno>,
        expect: Option<Result<u64, Errno>>,
    ) {
        self.last = now;
        let number = call.number();
        let wanted = expect.unwrap_or(result.map_err(|_| Errno(0)));
        self.compare(call, result, expect);
        match (result, wanted) {
            (Err(errno), Ok(_) | Err(Errno(0))) => {
                *self.errors.entry((number, errno)).or_default() += 1;
                return;
            }
            (Err(_), Err(_)) => {}
            (Ok(count), _) => self.count_bytes(call, count),
        }
        self.completed += 1;
        self.tallies[member * KINDS + usize::from(number)]
            .get_or_insert_default()
            .add(latency);
        if let Some(interval) = &mut self.interval {
            interval.add(latency);
        }
    }

    fn count_bytes(&mut self, call: &Call, count: u64) {
        match call {
            Call::Read { .. } | Call::Pread { .. } | Call::Load { .. } => self.read += count,
            Call::Write { .. } | Call::Pwrite { .. } | Call::Store { .. } => self.written += count,
            Call::CopyRange { .. } => {
                self.read += count;
                self.written += count;
            }
            _ => {}
        }
    }

    fn compare(
        &mut self,
        call: &Call,
        result: Result<u64, Errno>,
        expect: Option<Result<u64, Errno>>,
    ) {
        let number = call.number();
        let mismatch = match (expect, result) {
            (None, _) => return,
            (Some(Ok(wanted)), Ok(count)) if counts(call) && count != wanted => {
                if count < wanted {
                    Mismatch::Fewer(number)
                } else {
                    Mismatch::More(number)
                }
            }
            (Some(Err(wanted)), Err(errno)) if wanted != errno => Mismatch::Failed(number, errno),
            (Some(Ok(_)), Err(errno)) => Mismatch::Failed(number, errno),
            (Some(Err(wanted)), Ok(_)) => Mismatch::Succeeded(number, wanted),
            _ => return,
        };
        *self.mismatches.entry(mismatch).or_default() += 1;
    }

    /// The number of calls of kind `name` that ended as expected.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        let kind = Call::KINDS.iter().find(|(_, n)| *n == name);
        let members = self.tallies.chunks(KINDS);
        let tallies = members.filter_map(|of| of[usize::from(kind?.0)].as_ref());
        tallies.map(|tally| tally.count()).sum()
    }

    /// Latencies by the name of the call, which follows that of the member if there are several.
    #[must_use]
    pub fn latencies(&self) -> record::LatencySet {
        let members = self.tallies.chunks(KINDS).enumerate();
        let tallies = members.flat_map(|(member, of)| {
            Call::KINDS.iter().filter_map(move |(number, name)| {
                let tally = of[usize::from(*number)].as_deref()?;
                Some((self.named(member, name), tally))
            })
        });
        crate::meter::latencies(tallies)
    }

    /// Records an operation of the storage engine that is `member`.
    pub(crate) fn add_operation(&mut self, member: usize, kind: &'static str, latency: Ns) {
        let tally = self.operations.entry((member, kind)).or_default();
        tally.add(latency);
    }

    /// Latencies of operations of a storage engine by kind, which follows the member's name if
    /// there are several.
    pub(crate) fn operations(&self) -> BTreeMap<String, record::Latency> {
        let tallies = self.operations.iter();
        let named = tallies.map(|((member, kind), tally)| {
            let name = self.named(*member, kind).into_owned();
            (name, tally.record())
        });
        named.collect()
    }

    /// The name of `kind`, with that of `member` before it if there are several.
    fn named(&self, member: usize, kind: &'static str) -> Cow<'static, str> {
        match self.members.get(member) {
            Some(name) => Cow::Owned(format!("{name} {kind}")),
            None => Cow::Borrowed(kind),
        }
    }

    /// Number of failures by reason, in words.
    pub(crate) fn reasons(&self) -> BTreeMap<String, u64> {
        let errors = self.errors.iter();
        let named = errors.map(|((n, errno), &count)| (format!("{} {errno}", name_of(*n)), count));
        named.collect()
    }
}

/// Whether the result of a call is a count that can be compared: file systems differ in the names
/// of a directory and the holes of a file.
const fn counts(call: &Call) -> bool {
    matches!(
        call,
        Call::Read { .. }
            | Call::Write { .. }
            | Call::Pread { .. }
            | Call::Pwrite { .. }
            | Call::CopyRange { .. }
    )
}
