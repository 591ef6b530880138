//! Memory behind the link, as the processor's side sees it.
//!
//! Calls come in the order of time, with the clock of the kernel at `now`. What is in
//! the device's DRAM is answered by arithmetic; what needs flash ends later, on a
//! task of the kernel, and is then found among the events.

use units::Ns;

/// A line of the device, in units of 64 bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u64);

/// Names a request that waits, as the link does (16 bits on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u16);

/// What a line holds. Runs that only ask for time leave it out.
pub type LineData = Option<[u8; 64]>;

/// The lines of a page of 4,096 bytes.
pub type PageData = [[u8; 64]; 64];

/// How a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadReply {
    /// The data leave the device at this time.
    Data(Ns, LineData),
    /// Flash is being read; [`FarEvent::Data`] with the tag will tell.
    Waits,
    /// Flash is being read and a hint that it takes long leaves the device at this
    /// time. The request is over for the device: no data will come for its tag.
    Delay(Ns),
}

/// What the device tells of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEvent {
    /// The data of a read that waited leave the device at this time.
    Data(Tag, Ns, LineData),
    /// Room was made for a write that had been refused.
    Room,
    /// A page of 4,096 bytes, counted from the start, is worth moving to the host.
    Hot(u64, Ns),
}

/// A device whose memory the processor loads from and stores to.
pub trait Far {
    /// Reads `line` for a request that has arrived at the device.
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply;

    /// Reads `line` to copy its page to the host, which says nothing of how often the
    /// page is asked for. A hint is of no use to who copies, and has nobody else run.
    fn copy_read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read(now, line, tag)
    }

    /// Reads `line` for who waits for it however long it takes: a hint would be of no use.
    fn read_to_wait(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read(now, line, tag)
    }

    /// Takes a line that was written back. The time at which it is accepted, or
    /// `None` when there is no room: [`FarEvent::Room`] will tell when to come again.
    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns>;

    /// Takes a page of 4,096 bytes, counted from the start, whose lines have all arrived;
    /// otherwise as [`Far::write`]. A page that is refused comes again as a whole.
    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        let mut done = now;
        for at in 0..64 {
            let line = data.map(|lines| lines[at as usize]);
            done = done.max(self.write(now, Line(page * 64 + at), line)?);
        }
        Some(done)
    }

    /// The next thing that the device tells, up to now.
    fn event(&mut self) -> Option<FarEvent>;

    /// The host holds the page of 4,096 bytes elsewhere from now on: caches and logs
    /// drop it. Returns the lines that go with it, one bit each: what was newer than
    /// flash is held by the host alone, which writes it when it gives the page back.
    fn dropped(&mut self, now: Ns, page: u64) -> u64;

    /// The same of the chunks of a huge page, by one command: `first` is the first page of
    /// 4,096 bytes, and `chunks` has a bit for each of 512. Of each chunk that is dropped,
    /// its page and the lines that go with it.
    fn dropped_chunks(&mut self, now: Ns, first: u64, chunks: &[u64; 8]) -> Vec<(u64, u64)> {
        let is_set = |&chunk: &u64| chunks[chunk as usize / 64] >> (chunk % 64) & 1 == 1;
        let pages = (0..512).filter(is_set).map(|chunk| first + chunk);
        pages.map(|page| (page, self.dropped(now, page))).collect()
    }

    /// What is measured begins now: what came before was preparation.
    fn begin(&mut self, now: Ns) {
        let _ = now;
    }
}
