//! Replay of a recording of file calls on another file system.
//!
//! Each thread makes its calls in their order: with the recorded pauses, with none, or at the
//! recorded times, divided by a speed. A call of one
//! thread may depend on the effects of another thread's call, so a call waits for calls of other
//! threads that began earlier and conflict with it:
//!
//! - about a name: one call makes, moves or removes it or a directory above it, and the other uses
//!   it in any way;
//! - about an open file: one call opens or closes it or moves its offset;
//! - about locks of a file: any two calls;
//! - about the contents of a file, if [`Options::order_data`] is set: one call writes. Calls that
//!   overlapped in the recording were not ordered there and are not here.
//!
//! A call that failed is made as well. If it overlapped a conflicting call, it does not wait for
//! that call, since its failure shows that it saw nothing of it.
//!
//! A lock request that waited is replayed without waiting, at its place in the order of the grants.
//!
//! Invariants:
//! - A call waits only for earlier ones, so the earliest unfinished call can always be made: no
//!   deadlock.
//! - At most [`WINDOW`] calls are in memory.

mod keys;
mod marks;

use super::source::Parking;
use super::trace::FileTrace;
use super::{Call, Errno, Event, Names, Setup, Source, ThreadId, Turn};
use keys::{Access, Touched};
use marks::Marks;
use std::collections::{BTreeMap, VecDeque};
use units::Ns;

/// Upper bound on the calls that have been read and have not ended.
pub const WINDOW: usize = 1 << 16;

/// The speed of the recording itself, in millionths.
pub const MILLION: u64 = 1_000_000;

/// Source of recorded events, read one by one.
pub trait Recording: Send {
    /// Strings of the setup and of the events read so far.
    fn names(&self) -> &Names;

    /// Tree that must exist before the first call.
    fn setup(&self) -> &Setup;

    /// Process of `thread`; threads of one process share locks.
    fn process(&self, thread: ThreadId) -> u32;

    /// Reads the next event, in an order in which the calls could have been made. The error is a
    /// sentence that tells why the recording cannot be read further.
    fn read(&mut self) -> Option<Result<Event, String>>;

    /// Gaps of the recording, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Recording for FileTrace {
    fn names(&self) -> &Names {
        self.names()
    }

    fn setup(&self) -> &Setup {
        self.setup()
    }

    fn process(&self, thread: ThreadId) -> u32 {
        let known = self.threads().get(thread.0 as usize);
        known.map_or(thread.0, |thread| thread.process)
    }

    fn read(&mut self) -> Option<Result<Event, String>> {
        self.next().map(|event| event.map_err(|e| e.to_string()))
    }

    fn notes(&self) -> Vec<String> {
        let notes = self.about().notes.iter();
        notes
            .map(|note| String::from_utf8_lossy(note).into_owned())
            .collect()
    }
}

/// Recording that is held in memory.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Strings of the setup and of the events.
    pub names: Names,
    /// Tree that must exist before the first call.
    pub setup: Setup,
    /// Process of each thread; a thread without an entry is a process of its own.
    pub processes: Vec<u32>,
    /// Events that are still to be read.
    pub events: VecDeque<Event>,
}

impl Recording for Recorded {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn process(&self, thread: ThreadId) -> u32 {
        let process = self.processes.get(thread.0 as usize);
        process.copied().unwrap_or(thread.0)
    }

    fn read(&mut self) -> Option<Result<Event, String>> {
        self.events.pop_front().map(Ok)
    }
}

/// Times of the calls of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each thread pauses between its calls as it did in the recording.
    Think,
    /// Each thread makes its next call as soon as the last one has ended.
    Peak,
    /// Each call is due at its recorded time, divided by this number of millionths; a call that
    /// cannot begin then counts its lateness as latency.
    Arrivals(u64),
}

/// Options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Times of the calls.
    pub pace: Pace,
    /// Whether conflicting calls on the contents of one file keep their order.
    pub order_data: bool,
    /// Whether write-life hints are replayed.
    pub hints: bool,
    /// Number of calls to replay, from the beginning; `None` for all.
    pub ops: Option<u64>,
}

impl Default for Options {
    /// Pauses, order of contents and hints as recorded, to the end of the recording.
    fn default() -> Self {
        Self {
            pace: Pace::Think,
            order_data: true,
            hints: true,
            ops: None,
        }
    }
}

/// Call that has been read and has not ended.
#[derive(Clone, Debug)]
struct Item {
    event: Event,
    /// Number of calls that it waits for.
    waits: u32,
    /// Calls that wait for it.
    dependents: Vec<u32>,
    touched: Touched,
}

/// State of one thread.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Unfinished calls of the thread, in order.
    items: VecDeque<u32>,
    /// Whether the driver is making the first of them.
    under_way: bool,
    /// Whether a call has ended since the thread's last turn.
    fresh: bool,
    /// Time at which its last call ended; `None` before the first.
    ended: Option<Ns>,
}

/// Replay in progress.
pub struct Replay<R> {
    recording: R,
    options: Options,
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    live: usize,
    lines: Vec<Line>,
    marks: Marks,
    slots: keys::Slots,
    /// Event that has been read and not yet taken in.
    peeked: Option<Event>,
    /// Lock requests that waited, by the time of their grant.
    granted: BTreeMap<(Ns, u64), Event>,
    grants: u64,
    /// Events that may still be read.
    left: u64,
    exhausted: bool,
    parking: Parking,
    /// Threads without a call because the window is full.
    starved: Vec<ThreadId>,
    failure: Option<String>,
}

impl<R: Recording> Replay<R> {
    /// Prepares the replay of `recording`.
    pub fn new(recording: R, options: Options) -> Self {
        let mut replay = Self {
            recording,
            options,
            items: Vec::new(),
            free: Vec::new(),
            live: 0,
            lines: Vec::new(),
            marks: Marks::default(),
            slots: keys::Slots::default(),
            peeked: None,
            granted: BTreeMap::new(),
            grants: 0,
            left: options.ops.unwrap_or(u64::MAX),
            exhausted: false,
            parking: Parking::default(),
            starved: Vec::new(),
            failure: None,
        };
        // A first event is taken in, so that a thread exists that reads further.
        replay.take_in();
        replay
    }

    /// Next event in the order of the replay: lock requests that waited come at their grant.
    fn pull(&mut self) -> Option<Event> {
        loop {
            if self.peeked.is_none() {
                self.peeked = self.read();
            }
            let due = |at: Ns| self.peeked.is_none_or(|event| event.at >= at);
            let first = self.granted.first_key_value().map(|(key, _)| key.0);
            if first.is_some_and(due) {
                return self.granted.pop_first().map(|(_, event)| event);
            }
            let mut event = self.peeked.take()?;
            if !waited_for_lock(&mut event) {
                return Some(event);
            }
            self.grants += 1;
            self.granted.insert((event.end(), self.grants), event);
        }
    }

    fn read(&mut self) -> Option<Event> {
        if self.failure.is_some() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        loop {
            match self.recording.read()? {
                Ok(event) if !self.options.hints && is_hint(&event) => {}
                Ok(event) => return Some(event),
                Err(why) => {
                    self.failure = Some(why);
                    return None;
                }
            }
        }
    }

    /// Reads one event and links it to the calls that it waits for; returns `false` at the end.
    fn take_in(&mut self) -> bool {
        let Some(event) = self.pull() else {
            if !std::mem::replace(&mut self.exhausted, true) {
                self.parking.wake_all();
            }
            return false;
        };
        let thread = event.step.thread;
        while self.lines.len() <= thread.0 as usize {
            self.lines.push(Line::default());
            self.parking.add();
        }
        let mut touched = Touched::default();
        let names = self.recording.names();
        keys::touch(
            &event,
            names,
            &mut self.slots,
            self.options.order_data,
            &mut touched,
        );
        let id = self.place(Item {
            event,
            waits: 0,
            dependents: Vec::new(),
            touched: touched.clone(),
        });
        for (key, access) in touched.iter() {
            self.depend(id, key, access);
        }
        self.lines[thread.0 as usize].items.push_back(id);
        self.parking.wake(thread);
        true
    }

    fn place(&mut self, item: Item) -> u32 {
        self.live += 1;
        match self.free.pop() {
            Some(id) => {
                self.items[id as usize] = Some(item);
                id
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    fn item(&self, id: u32) -> &Item {
        self.items[id as usize].as_ref().expect("it has not ended")
    }

    fn item_mut(&mut self, id: u32) -> &mut Item {
        self.items[id as usize].as_mut().expect("it has not ended")
    }

    /// Makes `id` wait for the unfinished calls that conflict with it at `key`.
    fn depend(&mut self, id: u32, key: keys::Key, access: Access) {
        let mut before = self.marks.enter(key, access, id);
        before.retain(|&earlier| earlier != id);
        for earlier in before {
            let (old, new) = (&self.item(earlier).event, &self.item(id).event);
            let overlap = old.end() > new.at;
            let free = overlap && (key.is_data() || new.result.is_err());
            if free {
                self.marks.stay(key, earlier, self.access_of(earlier, key));
            } else if old.step.thread != new.step.thread {
                self.item_mut(earlier).dependents.push(id);
                self.item_mut(id).waits += 1;
            }
        }
    }

    fn access_of(&self, id: u32, key: keys::Key) -> Access {
        let mut touched = self.item(id).touched.iter();
        let found = touched.find(|(k, _)| *k == key);
        found.map_or(Access::Uses, |(_, access)| access)
    }

    /// Next call of `thread`, if it waits for no other call.
    fn ready(&mut self, thread: ThreadId, now: Ns) -> Turn {
        let line = &mut self.lines[thread.0 as usize];
        let Some(&id) = line.items.front() else {
            return match self.exhausted {
                true => self.parking.done(thread),
                false => {
                    self.starved.push(thread);
                    self.parking.park(thread)
                }
            };
        };
        let item = self.items[id as usize].as_ref().expect("it has not ended");
        if item.waits > 0 {
            return self.parking.park(thread);
        }
        line.under_way = true;
        let Event {
            step, at, result, ..
        } = item.event;
        let due = match self.options.pace {
            Pace::Think => line.ended.map_or(at, |ended| ended + step.think).max(now),
            Pace::Peak => now,
            Pace::Arrivals(speed) => at.scaled(MILLION, speed),
        };
        Turn::Call {
            think: due.max(now).since(now),
            late: now.max(due).since(due),
            call: step.call,
            expect: Some(result),
        }
    }

    /// Removes the ended call `id` and wakes the threads that waited for it.
    fn finish(&mut self, id: u32) {
        let item = self.items[id as usize].take().expect("it ends once");
        self.free.push(id);
        self.live -= 1;
        for (key, _) in item.touched.iter() {
            self.marks.leave(key, id);
        }
        for dependent in item.dependents {
            let waiting = self.item_mut(dependent);
            waiting.waits -= 1;
            let (left, thread) = (waiting.waits, waiting.event.step.thread);
            if left == 0 && self.lines[thread.0 as usize].items.front() == Some(&dependent) {
                self.parking.wake(thread);
            }
        }
        if self.live < WINDOW / 4 * 3 {
            while let Some(thread) = self.starved.pop() {
                self.parking.wake(thread);
            }
        }
    }
}

fn is_hint(event: &Event) -> bool {
    matches!(event.step.call, Call::Hint { .. })
}

/// Clears the wait flag of a lock request; returns whether the recorded call waited and succeeded.
fn waited_for_lock(event: &mut Event) -> bool {
    match &mut event.step.call {
        Call::Flock { wait, .. } | Call::RecordLock { wait, .. } => {
            std::mem::take(wait) && event.result.is_ok() && event.took > Ns::ZERO
        }
        _ => false,
    }
}

impl<R: Recording> Source for Replay<R> {
    fn names(&self) -> &Names {
        self.recording.names()
    }

    fn setup(&self) -> &Setup {
        self.recording.setup()
    }

    fn threads(&self) -> u32 {
        self.lines.len() as u32
    }

    fn process(&self, thread: ThreadId) -> u32 {
        self.recording.process(thread)
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.parking.asks(thread);
        let line = &mut self.lines[thread.0 as usize];
        line.under_way = false;
        if std::mem::take(&mut line.fresh) {
            line.ended = Some(now);
        }
        while self.lines[thread.0 as usize].items.is_empty()
            && self.live < WINDOW
            && !self.exhausted
        {
            self.take_in();
        }
        self.ready(thread, now)
    }

    fn ended(&mut self, thread: ThreadId, _: Result<u64, Errno>) {
        let line = &mut self.lines[thread.0 as usize];
        if !std::mem::take(&mut line.under_way) {
            return;
        }
        line.fresh = true;
        if let Some(id) = line.items.pop_front() {
            self.finish(id);
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.parking.next_woken()
    }

    fn notes(&self) -> Vec<String> {
        self.recording.notes()
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
