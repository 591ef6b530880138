//! The interface of memory behind the link, as the host calls it.
//!
//! Calls come in the order of time, with the clock of the kernel at `now`. The device
//! computes accesses to its DRAM by arithmetic. An access that needs flash completes later, on
//! a task of the kernel, and its completion is returned by [`Far::event`].

use units::Ns;

/// A line of the device, in units of 64 bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u64);

/// Identifies an outstanding request, as on the link (16 bits on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u16);

/// Contents of a line; `None` in timing-only runs.
pub type LineData = Option<[u8; 64]>;

/// The lines of a page of 4,096 bytes.
pub type PageData = [[u8; 64]; 64];

/// Answer of the device to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadReply {
    /// The data leave the device at this time.
    Data(Ns, LineData),
    /// The read blocks on flash; [`FarEvent::Data`] with its tag completes it.
    Waits,
    /// The read blocks on flash, and a delay hint leaves the device at this time. The request
    /// is complete for the device: no data follow for its tag.
    Delay(Ns),
}

/// Asynchronous notification of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEvent {
    /// The data of a blocked read leave the device at this time.
    Data(Tag, Ns, LineData),
    /// A refused write may be retried: there is room now.
    Room,
    /// A page is hot, so worth moving to the host: its number in units of 4,096 bytes from the
    /// start of the device, and when the notice leaves the device.
    Hot(u64, Ns),
}

/// A device whose memory the processor loads from and stores to.
pub trait Far {
    /// Reads `line` for a request that has arrived at the device.
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply;

    /// Reads `line` to copy its page to the host. The read does not count as a use of the
    /// page, and gets no delay hint, as a copy has no thread to switch.
    fn copy_read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read(now, line, tag)
    }

    /// Reads `line` for a request that blocks however long it takes, without a delay hint.
    fn read_to_wait(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read(now, line, tag)
    }

    /// Writes back a line. Returns the time at which it is accepted, or `None` if there is no
    /// room: [`FarEvent::Room`] announces when to retry.
    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns>;

    /// Writes a whole page, by its number in units of 4,096 bytes, once all its lines have
    /// arrived; otherwise as [`Far::write`]. A refused page is retried as a whole.
    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        let mut done = now;
        for at in 0..64 {
            let line = data.map(|lines| lines[at as usize]);
            done = done.max(self.write(now, Line(page * 64 + at), line)?);
        }
        Some(done)
    }

    /// The next pending notification, if any is due by now.
    fn event(&mut self) -> Option<FarEvent>;

    /// Drops a page of 4,096 bytes from the device's caches and logs, as the host now holds
    /// it. Returns the bit mask of its lines that were newer than flash: only the host has
    /// them now, and writes them when it returns the page.
    fn dropped(&mut self, now: Ns, page: u64) -> u64;

    /// [`Far::dropped`] for chunks of a huge page, by one command. `first` is the first page
    /// of 4,096 bytes; `chunks` has a bit for each of 512. Returns the page and line mask of
    /// each dropped chunk.
    fn dropped_chunks(&mut self, now: Ns, first: u64, chunks: &[u64; 8]) -> Vec<(u64, u64)> {
        let is_set = |&chunk: &u64| chunks[chunk as usize / 64] >> (chunk % 64) & 1 == 1;
        let pages = (0..512).filter(is_set).map(|chunk| first + chunk);
        pages.map(|page| (page, self.dropped(now, page))).collect()
    }

    /// Marks the start of measuring: earlier accesses were preparation.
    fn begin(&mut self, now: Ns) {
        let _ = now;
    }
}
