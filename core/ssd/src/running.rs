//! Commands under way, as state machines that their holders advance.
//!
//! A holder is a task or a record of the kernel ([`sim::Actor`]). It advances a command when the
//! command begins and at each of its own events; the command schedules those events. Steps that are
//! rare (a miss in a paged map, reads of several rows, flushes) are boxed futures, which the
//! machine polls.
//!
//! Invariant: a command waits for one thing at a time, and has been scheduled for it.

use crate::drive::{Content, Core, Drive, IoError};
use crate::ledger::{Cause, ReadCause};
use crate::map::Where;
use crate::observed::Waited;
use crate::read::{Prefetcher, RowRead};
use crate::state::Incoming;
use nand::{Parts, Priority, Reading, UNIT};
use sim::Boxed;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use units::{Extent, Ns, Origin, Placement};

/// A command without contents: a write of it reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads an extent, for the time alone.
    Read(Extent),
    /// Writes an extent, with its placement and origin; the flag makes it durable on completion.
    Write(Extent, Placement, Origin, bool),
    /// Deallocates the mapped pages that lie wholly in an extent.
    Trim(Extent),
    /// Makes every acknowledged write durable.
    Flush,
}

/// The next step of a command.
#[derive(Clone, Copy, Default)]
enum Step {
    /// Looks the next page up in the map.
    Lookup,
    /// Reads the page that a write covers in part.
    Rest,
    /// Makes room in the buffer for the page of a write.
    Room,
    /// Puts the page of a write into the buffer; the flag tells whether room was made for it.
    Put(bool),
    /// Merges lines of a log into the pages of a read.
    Merge,
    /// Counts a read that has all of its pages.
    Count,
    #[default]
    End,
}

/// Reason for which a command waits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wait {
    #[default]
    Nothing,
    /// The time of the command.
    Time,
    /// Reads of flash, until the last one ends.
    Rows,
    /// Room in the buffer, by the ticket of the command.
    Room,
    /// The future of the command.
    Future,
}

#[derive(Clone, Copy, Default)]
enum Kind {
    /// A future does all of it.
    #[default]
    Whole,
    Read,
    Write {
        frontier: usize,
        tag: u16,
        fua: bool,
    },
}

/// A command under way at a drive: [`Drive::begin`] begins it, [`Drive::advance`] advances it. One
/// value serves one command after the other.
#[derive(Default)]
pub struct Running {
    kind: Kind,
    extent: Extent,
    /// The page at which the command is, and one past its last page.
    page: u32,
    end: u32,
    step: Step,
    wait: Wait,
    /// Time or ticket, as `wait` says.
    until: u64,
    /// Reads of flash under way, with their lines and first mapped pages.
    rows: Vec<(Reading, u32, u32)>,
    /// Error of the first page that could not be read.
    failed: Option<IoError>,
    future: Option<Boxed<'static, Result<(), IoError>>>,
    /// Parts of the time so far, on a traced drive, and the time up to which they are.
    waited: Option<Box<(Waited, Ns)>>,
}

impl Running {
    /// Adds the wait that has just ended to its part.
    #[cold]
    fn count_wait(&mut self, now: Ns) {
        let Some((waited, since)) = self.waited.as_deref_mut() else {
            return;
        };
        let span = now.since(*since);
        *since = now.max(*since);
        match (self.wait, self.step) {
            (Wait::Time, _) => waited.firmware += span,
            (Wait::Room, _) => waited.buffer += span,
            (Wait::Future, Step::Lookup | Step::Rest) => waited.map += span,
            _ => {}
        }
    }

    /// Adds the parts of a flash read that ended last of those under way.
    #[cold]
    fn count_read(&mut self, parts: Option<Parts>) {
        let (Some((waited, _)), Some(parts)) = (self.waited.as_deref_mut(), parts) else {
            return;
        };
        let flash = &mut waited.flash;
        flash.die_wait += parts.die_wait;
        flash.die += parts.die;
        flash.channel_wait += parts.channel_wait;
        flash.channel += parts.channel;
        flash.behind = parts.behind;
    }

    /// Leaves the parts of a command that has ended to the drive's observer.
    #[inline]
    fn tell_waited(&mut self, core: &Core) {
        if let Some(waited) = self.waited.take() {
            core.observed.tell(waited.0);
        }
    }

    #[cold]
    fn await_future(&mut self, future: impl Future<Output = Result<(), IoError>> + 'static) {
        self.future = Some(Box::pin(future));
        self.wait = Wait::Future;
    }

    #[cold]
    fn poll_future(&mut self) -> Poll<Result<(), IoError>> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(Ok(()));
        };
        let mut context = Context::from_waker(Waker::noop());
        let result = ready!(future.as_mut().poll(&mut context));
        self.future = None;
        Poll::Ready(result)
    }
}

impl Drive {
    /// Whether [`Drive::begin`] takes this command before it arrives: its first step waits for a
    /// time alone.
    #[must_use]
    #[inline]
    pub fn is_early(&self, command: Command) -> bool {
        let core = &self.core;
        // The processors take commands in order of arrival.
        let limits = &core.config.controller.limits;
        let in_order = limits.read > Ns::ZERO || limits.write > Ns::ZERO;
        let is_plain = self.zones.is_none() && core.front.is_none() && !in_order;
        is_plain
            && match command {
                Command::Read(..) => true,
                // The handle is chosen when the command arrives, if there are several.
                Command::Write(..) => core.config.interface == crate::Interface::Block,
                Command::Trim(_) | Command::Flush => false,
            }
    }

    /// Begins a command for the current task or record, which advances it at once. `running` runs
    /// no other command. The command arrives now, or at `arrival` if [`Drive::is_early`].
    ///
    /// # Errors
    /// If the command reaches past the end, or the stream does not exist.
    #[inline]
    pub fn begin(
        &self,
        command: Command,
        arrival: Ns,
        running: &mut Running,
    ) -> Result<(), IoError> {
        let core = &self.core;
        match command {
            Command::Read(extent) if self.advances_reads() => {
                running.begin_read(core, extent, arrival)
            }
            Command::Write(extent, placement, origin, fua) if self.advances_writes() => {
                running.begin_write(core, (extent, placement, origin, fua), arrival)
            }
            _ => {
                let drive = self.clone();
                (running.kind, running.step) = (Kind::Whole, Step::End);
                running.await_future(async move { drive.execute(command).await });
                Ok(())
            }
        }
    }

    /// Advances a command, and returns its result at its end. A command that is pending has
    /// scheduled an event of the current task or record.
    #[inline]
    pub fn advance(&self, running: &mut Running) -> Poll<Result<(), IoError>> {
        let result = ready!(running.advance(&self.core, Content::Nothing));
        running.tell_waited(&self.core);
        if matches!(running.kind, Kind::Read) {
            self.core.count_failure(&result);
        }
        Poll::Ready(result)
    }

    async fn execute(&self, command: Command) -> Result<(), IoError> {
        match command {
            Command::Read(extent) => self.read(extent, &mut ()).await,
            Command::Write(extent, placement, origin, fua) => {
                let content = Content::Nothing;
                self.write(extent, content, placement, origin, fua).await
            }
            Command::Trim(extent) => self.trim(extent).await,
            Command::Flush => self.flush().await,
        }
    }

    fn advances_reads(&self) -> bool {
        let front = self.core.front.as_ref();
        self.zones.is_none() && front.is_none_or(|front| !front.has_cache())
    }

    fn advances_writes(&self) -> bool {
        let front = self.core.front.as_ref();
        self.zones.is_none() && front.is_none_or(|front| !front.writes_back())
    }
}

impl Running {
    /// Begins a read; its holder advances it at once.
    #[inline]
    pub(crate) fn begin_read(
        &mut self,
        core: &Core,
        extent: Extent,
        arrival: Ns,
    ) -> Result<(), IoError> {
        core.check_range(extent)?;
        core.count_command(true);
        self.enter(core, Kind::Read, extent, arrival);
        Ok(())
    }

    /// Begins a write; its holder advances it at once.
    pub(crate) fn begin_write(
        &mut self,
        core: &Core,
        (extent, placement, origin, fua): (Extent, Placement, Origin, bool),
        arrival: Ns,
    ) -> Result<(), IoError> {
        core.check_range(extent)?;
        core.count_command(false);
        let kind = Kind::Write {
            frontier: core.host_frontier(placement, extent)?,
            tag: core.tag(origin),
            fua,
        };
        self.enter(core, kind, extent, arrival);
        Ok(())
    }

    #[inline]
    fn enter(&mut self, core: &Core, kind: Kind, extent: Extent, arrival: Ns) {
        let (page, end) = core.pages_of(extent);
        core.state.borrow().map.prefetch(page);
        (self.kind, self.extent) = (kind, extent);
        (self.page, self.end, self.step) = (page, end, Step::Lookup);
        let traced = core.nand.tracer().is_on();
        self.waited = traced.then(|| Box::new((Waited::default(), arrival)));
        let limits = &core.config.controller.limits;
        let service = match kind {
            Kind::Write { .. } => limits.write,
            Kind::Read | Kind::Whole => limits.read,
        };
        if core.front.is_some() {
            return self.enter_front(core, service, end - page);
        }
        let time = core.passed(arrival, service, core.dram_time(end - page));
        self.until = time.0;
        self.wait = match core.sim.alarm(time) {
            true => Wait::Time,
            false => Wait::Nothing,
        };
    }

    #[cold]
    fn enter_front(&mut self, core: &Core, service: Ns, pages: u32) {
        let core = core.this();
        self.await_future(async move {
            if let Some(front) = &core.front {
                core.enter_block(front, service, pages).await;
            }
            Ok(())
        });
    }

    /// Advances a command that writes `content`, and returns its result at its end.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        core: &Core,
        content: Content<'_>,
    ) -> Poll<Result<(), IoError>> {
        loop {
            match self.wait {
                Wait::Nothing => {}
                Wait::Time if core.sim.now().0 >= self.until => {}
                Wait::Rows => ready!(self.end_rows(core))?,
                Wait::Room if core.buffer.collect(self.until) => {}
                Wait::Future => ready!(self.poll_future())?,
                Wait::Time | Wait::Room => return Poll::Pending,
            }
            if self.waited.is_some() {
                self.count_wait(core.sim.now());
            }
            self.wait = Wait::Nothing;
            match self.kind {
                _ if matches!(self.step, Step::End) => return Poll::Ready(Ok(())),
                Kind::Read => self.step_read(core),
                Kind::Write { frontier, tag, fua } => {
                    self.step_write(core, content, (frontier, tag, fua))?;
                }
                Kind::Whole => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Takes the ends of the reads of flash; ready after the last one.
    #[inline]
    fn end_rows(&mut self, core: &Core) -> Poll<Result<(), IoError>> {
        let mut at = 0;
        while let Some((reading, line, page)) = self.rows.get(at) {
            let Some(result) = core.nand.take_end(reading) else {
                at += 1;
                continue;
            };
            let parts = match self.waited {
                Some(_) => core.nand.tracer().parts(reading),
                None => None,
            };
            if let Err(error) = core.row_ended((*line, *page), result) {
                self.failed = Some(self.failed.map_or(error, |first| first.min(error)));
            }
            let _ = self.rows.swap_remove(at);
            if self.rows.is_empty() {
                self.count_read(parts);
            }
        }
        if at > 0 {
            return Poll::Pending;
        }
        Poll::Ready(self.failed.take().map_or(Ok(()), Err))
    }

    #[inline]
    fn step_read(&mut self, core: &Core) {
        match self.step {
            Step::Lookup if core.map_cache.is_some() && self.page < self.end => {
                self.page += 1;
                self.look_up(core, self.page - 1, false);
            }
            Step::Lookup => {
                self.step = match core.front {
                    Some(_) => Step::Merge,
                    None => Step::Count,
                };
                self.read_flash(core);
            }
            Step::Merge => {
                let (core, pages) = (core.this(), core.pages_of(self.extent));
                self.step = Step::Count;
                self.await_future(async move {
                    if let Some(front) = &core.front {
                        core.copy_logged(front, pages.0..pages.1).await;
                    }
                    Ok(())
                });
            }
            _ => {
                let ledger = &mut core.state.borrow_mut().ledger;
                ledger.host_read_sectors += u64::from(self.extent.sectors);
                self.step = Step::End;
            }
        }
    }

    /// Starts the flash reads of the pages of a command.
    #[inline]
    fn read_flash(&mut self, core: &Core) {
        let (first, end) = core.pages_of(self.extent);
        if let Some(ahead) = core.prefetcher()
            && self.continue_stream(core, ahead, first, end)
        {
            return;
        }
        if end - first == 1 {
            let place = core.state.borrow().map.get(first);
            if let Where::Flash(place) = place {
                let bytes = (self.extent.bytes() as u32).next_multiple_of(UNIT as u32);
                let read = core.row_read(first, place, bytes);
                self.start_row(core, &read, ReadCause::Host);
            }
            return;
        }
        let mut rows = core.jobs.rows.borrow_mut();
        core.gather_rows(first..end, &mut rows);
        for row in rows.drain(..) {
            self.start_row(core, &row, ReadCause::Host);
        }
    }

    /// Serves a read that continues a stream, and reads ahead of it; false if it continues none.
    fn continue_stream(
        &mut self,
        core: &Core,
        ahead: Prefetcher<'_>,
        first: u32,
        end: u32,
    ) -> bool {
        let mut rows = core.jobs.rows.borrow_mut();
        let Some((stream, coming)) = ahead.continue_stream(first, end, &mut rows) else {
            return false;
        };
        if coming.is_empty() {
            for row in rows.drain(..) {
                self.start_row(core, &row, ReadCause::Host);
            }
        } else {
            let (core, rows) = (core.this(), std::mem::take(&mut *rows));
            self.await_future(async move { core.read_coming(rows, coming).await });
        }
        drop(rows);
        ahead.read_ahead(stream);
        true
    }

    /// Starts the read of a row.
    #[inline]
    fn start_row(&mut self, core: &Core, read: &RowRead, cause: ReadCause) {
        core.begin_reading(read.line, cause, read.row);
        let reading = core.nand.read_at_once(read.row, read.bytes, Priority::Read);
        let reading = reading.expect("the map points to rows of the flash");
        self.rows.push((reading, read.line, read.page));
        self.wait = Wait::Rows;
    }

    /// Looks `page` up in a paged map.
    fn look_up(&mut self, core: &Core, page: u32, dirty: bool) {
        let Some(missed) = core.touch_map(page, dirty) else {
            return;
        };
        let core = core.this();
        self.await_future(async move {
            core.await_map(missed).await;
            Ok(())
        });
    }

    fn step_write(
        &mut self,
        core: &Core,
        content: Content<'_>,
        (frontier, tag, fua): (usize, u16, bool),
    ) -> Result<(), IoError> {
        let page = self.page;
        if page == self.end {
            self.end_write(core, frontier, fua);
            return Ok(());
        }
        if let Step::Lookup = self.step {
            self.step = Step::Rest;
            if core.map_cache.is_some() {
                self.look_up(core, page, true);
                if self.wait != Wait::Nothing {
                    return Ok(());
                }
            }
        }
        let part = core.part(self.extent, page);
        let is_whole = part.to - part.from == core.layout.page_bytes() as usize;
        if let Step::Rest = self.step {
            self.step = Step::Room;
            if !is_whole {
                self.read_rest(core, page);
                if self.wait != Wait::Nothing {
                    return Ok(());
                }
            }
        }
        if let Step::Room = self.step {
            let waits = !core.state.borrow().is_pending(page);
            self.step = Step::Put(waits);
            if waits && let Some(ticket) = core.buffer.join(1) {
                (self.wait, self.until) = (Wait::Room, ticket);
                return Ok(());
            }
        }
        let Step::Put(waits) = self.step else {
            unreachable!("a write has no such step");
        };
        let incoming = Incoming {
            page,
            frontier,
            cause: if is_whole { Cause::Host } else { Cause::Rmw },
            tag,
        };
        core.buffer_page(incoming, (part, content), waits)?;
        self.page += 1;
        self.step = Step::Lookup;
        Ok(())
    }

    /// Counts a write whose pages are all in the buffer, and makes it durable if `fua`.
    fn end_write(&mut self, core: &Core, frontier: usize, fua: bool) {
        let sectors = u64::from(self.extent.sectors);
        let mut state = core.state.borrow_mut();
        state.ledger.host_write_sectors += sectors;
        state.ledger.handles[frontier].host_sectors += sectors;
        drop(state);
        self.step = Step::End;
        if fua {
            let core = core.this();
            self.await_future(async move { core.flush_buffer().await });
        }
    }

    /// Reads the rest of a page that a write covers in part.
    fn read_rest(&mut self, core: &Core, page: u32) {
        let place = core.state.borrow().map.get(page);
        if let Where::Flash(place) = place {
            let read = core.row_read(page, place, core.layout.page_bytes() as u32);
            self.start_row(core, &read, ReadCause::Rmw);
        }
    }
}

impl Core {
    /// Advances a command until its end.
    pub(crate) fn run<'a>(self: &'a Rc<Self>, running: Running, content: Content<'a>) -> Run<'a> {
        Run {
            core: self,
            running,
            content,
        }
    }
}

/// Future of the end of a command. A future that is dropped leaves the buffer's queue, and its reads
/// of flash go on without it.
pub(crate) struct Run<'a> {
    core: &'a Rc<Core>,
    running: Running,
    content: Content<'a>,
}

impl Future for Run<'_> {
    type Output = Result<(), IoError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let (core, content) = (self.core, self.content);
        let result = ready!(self.running.advance(core, content));
        self.running.tell_waited(core);
        Poll::Ready(result)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let running = &self.running;
        match running.wait {
            Wait::Rows => {
                for (reading, line, _) in &running.rows {
                    self.core.nand.abandon(reading);
                    self.core.end_reading(*line);
                }
            }
            Wait::Room => self.core.buffer.leave(running.until),
            _ => {}
        }
    }
}
