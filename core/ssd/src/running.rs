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
use crate::read::RowRead;
use crate::state::Incoming;
use nand::{Priority, Reading, UNIT};
use sim::Boxed;
use std::future::Future;
use std::ops::Range;
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
    /// Deallocates an extent.
    Trim(Extent),
    /// Makes every acknowledged write durable.
    Flush,
}

/// The next step of a command.
#[derive(Clone, Copy)]
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
    End,
}

enum Wait {
    Nothing,
    Until(Ns),
    /// A flash read of a page of a line: the reading, the line and the mapped page.
    Row(Reading, u32, u32),
    /// Room in the buffer, by its ticket.
    Room(u64),
    Future(Boxed<'static, Result<(), IoError>>),
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write {
        frontier: usize,
        tag: u16,
        fua: bool,
    },
    /// A future does all of it.
    Whole,
}

/// A command under way at a drive. [`Drive::begin`] returns it, [`Drive::advance`] advances it.
pub struct Running {
    kind: Kind,
    extent: Extent,
    /// The page at which the command is, and one past its last page.
    page: u32,
    end: u32,
    step: Step,
    wait: Wait,
}

impl Running {
    fn whole(command: impl Future<Output = Result<(), IoError>> + 'static) -> Self {
        Self {
            kind: Kind::Whole,
            extent: Extent::new(0, 0),
            page: 0,
            end: 0,
            step: Step::End,
            wait: Wait::Future(Box::pin(command)),
        }
    }
}

impl Drive {
    /// Begins a command for the current task or record, which advances it at once.
    ///
    /// # Errors
    /// If the command reaches past the end, or the stream does not exist.
    #[inline]
    pub fn begin(&self, command: Command) -> Result<Running, IoError> {
        let core = &self.core;
        match command {
            Command::Read(extent) if self.advances_reads() => core.begin_read(extent),
            Command::Write(extent, placement, origin, fua) if self.advances_writes() => {
                core.begin_write(extent, placement, origin, fua)
            }
            _ => {
                let drive = self.clone();
                Ok(Running::whole(async move { drive.execute(command).await }))
            }
        }
    }

    /// Advances a command, and returns its result at its end. A command that is pending has
    /// scheduled an event of the current task or record.
    #[inline]
    pub fn advance(&self, running: &mut Running) -> Poll<Result<(), IoError>> {
        let result = ready!(self.core.advance(running, Content::Nothing));
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

impl Core {
    /// Begins a read; its holder advances it at once.
    pub(crate) fn begin_read(&self, extent: Extent) -> Result<Running, IoError> {
        self.check_range(extent)?;
        self.count_command(true);
        Ok(self.enter(extent, Kind::Read))
    }

    /// Begins a write; its holder advances it at once.
    pub(crate) fn begin_write(
        &self,
        extent: Extent,
        placement: Placement,
        origin: Origin,
        fua: bool,
    ) -> Result<Running, IoError> {
        self.check_range(extent)?;
        self.count_command(false);
        let kind = Kind::Write {
            frontier: self.host_frontier(placement, extent)?,
            tag: self.tag(origin),
            fua,
        };
        Ok(self.enter(extent, kind))
    }

    fn enter(&self, extent: Extent, kind: Kind) -> Running {
        let (page, end) = self.pages_of(extent);
        self.state.borrow().map.prefetch(page);
        let pages = end - page;
        let wait = match self.front {
            None => self.until(self.block_time(pages)),
            Some(_) => {
                let core = self.this();
                Wait::Future(Box::pin(async move {
                    if let Some(front) = &core.front {
                        core.enter_block(front, pages).await;
                    }
                    Ok(())
                }))
            }
        };
        Running {
            kind,
            extent,
            page,
            end,
            step: Step::Lookup,
            wait,
        }
    }

    fn until(&self, span: Ns) -> Wait {
        let time = self.sim.now() + span;
        match self.sim.alarm(time) {
            true => Wait::Until(time),
            false => Wait::Nothing,
        }
    }

    /// Advances a command that writes `content`, and returns its result at its end.
    pub(crate) fn advance(
        &self,
        running: &mut Running,
        content: Content<'_>,
    ) -> Poll<Result<(), IoError>> {
        loop {
            ready!(self.poll_wait(&mut running.wait))?;
            running.wait = match running.kind {
                _ if matches!(running.step, Step::End) => return Poll::Ready(Ok(())),
                Kind::Read => self.step_read(running),
                Kind::Write { frontier, tag, fua } => {
                    self.step_write(running, content, (frontier, tag, fua))?
                }
                Kind::Whole => return Poll::Ready(Ok(())),
            };
        }
    }

    fn poll_wait(&self, wait: &mut Wait) -> Poll<Result<(), IoError>> {
        let is_over = match wait {
            Wait::Nothing => true,
            Wait::Until(time) => self.sim.now() >= *time,
            Wait::Room(ticket) => self.buffer.collect(*ticket),
            Wait::Row(reading, line, page) => {
                let (line, page) = (*line, *page);
                let Some(result) = self.nand.take_end(reading) else {
                    return Poll::Pending;
                };
                *wait = Wait::Nothing;
                return Poll::Ready(self.row_ended((line, page), result));
            }
            Wait::Future(future) => {
                let mut context = Context::from_waker(Waker::noop());
                return future.as_mut().poll(&mut context);
            }
        };
        if is_over {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn step_read(&self, running: &mut Running) -> Wait {
        match running.step {
            Step::Lookup if self.map_cache.is_some() && running.page < running.end => {
                running.page += 1;
                self.look_up(running.page - 1, false)
            }
            Step::Lookup => {
                let (first, _) = self.pages_of(running.extent);
                running.step = match self.front {
                    Some(_) => Step::Merge,
                    None => Step::Count,
                };
                self.read_flash(running.extent, first..running.end)
            }
            Step::Merge => {
                let (core, pages) = (self.this(), self.pages_of(running.extent));
                running.step = Step::Count;
                Wait::Future(Box::pin(async move {
                    if let Some(front) = &core.front {
                        core.copy_logged(front, pages.0..pages.1).await;
                    }
                    Ok(())
                }))
            }
            _ => {
                let ledger = &mut self.state.borrow_mut().ledger;
                ledger.host_read_sectors += u64::from(running.extent.sectors);
                running.step = Step::End;
                Wait::Nothing
            }
        }
    }

    /// Starts the flash reads of `pages`, which `extent` covers.
    #[inline]
    fn read_flash(&self, extent: Extent, pages: Range<u32>) -> Wait {
        if pages.len() == 1 {
            let place = self.state.borrow().map.get(pages.start);
            let Where::Flash(place) = place else {
                return Wait::Nothing;
            };
            let bytes = (extent.bytes() as u32).next_multiple_of(UNIT as u32);
            return self.read_row_of(self.row_read(pages.start, place, bytes), ReadCause::Host);
        }
        let mut rows = self.jobs.rows.borrow_mut();
        self.gather_rows(pages, &mut rows);
        if rows.len() > 1 {
            let rows = rows.drain(..).collect();
            let core = self.this();
            return Wait::Future(Box::pin(async move {
                core.read_rows(rows, ReadCause::Host).await
            }));
        }
        match rows.pop() {
            Some(row) => self.read_row_of(row, ReadCause::Host),
            None => Wait::Nothing,
        }
    }

    /// Starts the read of a row.
    #[inline]
    fn read_row_of(&self, read: RowRead, cause: ReadCause) -> Wait {
        self.begin_reading(read.line, cause, read.row);
        let reading = self.nand.read_at_once(read.row, read.bytes, Priority::Read);
        let reading = reading.expect("the map points to rows of the flash");
        Wait::Row(reading, read.line, read.page)
    }

    /// Looks `page` up in a paged map.
    fn look_up(&self, page: u32, dirty: bool) -> Wait {
        match self.touch_map(page, dirty) {
            None => Wait::Nothing,
            Some(missed) => {
                let core = self.this();
                Wait::Future(Box::pin(async move {
                    core.await_map_page(missed).await;
                    Ok(())
                }))
            }
        }
    }

    fn step_write(
        &self,
        running: &mut Running,
        content: Content<'_>,
        (frontier, tag, fua): (usize, u16, bool),
    ) -> Result<Wait, IoError> {
        let page = running.page;
        if page == running.end {
            return Ok(self.end_write(running, frontier, fua));
        }
        let part = self.part(running.extent, page);
        let is_whole = part.to - part.from == self.layout.page_bytes() as usize;
        match running.step {
            Step::Lookup => {
                running.step = if is_whole { Step::Room } else { Step::Rest };
                if self.map_cache.is_some() {
                    return Ok(self.look_up(page, true));
                }
            }
            Step::Rest => {
                running.step = Step::Room;
                return Ok(self.read_rest(page));
            }
            Step::Room => {
                let waits = !self.state.borrow().is_pending(page);
                running.step = Step::Put(waits);
                if waits && let Some(ticket) = self.buffer.join(1) {
                    return Ok(Wait::Room(ticket));
                }
            }
            Step::Put(waits) => {
                let cause = if is_whole { Cause::Host } else { Cause::Rmw };
                let incoming = Incoming {
                    page,
                    frontier,
                    cause,
                    tag,
                };
                self.buffer_page(incoming, (part, content), waits)?;
                running.page += 1;
                running.step = Step::Lookup;
            }
            Step::Merge | Step::Count | Step::End => unreachable!("a write has no such step"),
        }
        Ok(Wait::Nothing)
    }

    /// Counts a write whose pages are all in the buffer, and makes it durable if `fua`.
    fn end_write(&self, running: &mut Running, frontier: usize, fua: bool) -> Wait {
        let sectors = u64::from(running.extent.sectors);
        let mut state = self.state.borrow_mut();
        state.ledger.host_write_sectors += sectors;
        state.ledger.handles[frontier].host_sectors += sectors;
        drop(state);
        running.step = Step::End;
        if !fua {
            return Wait::Nothing;
        }
        let core = self.this();
        Wait::Future(Box::pin(async move { core.flush().await }))
    }

    /// Reads the rest of a page that a write covers in part.
    fn read_rest(&self, page: u32) -> Wait {
        let place = self.state.borrow().map.get(page);
        let Where::Flash(place) = place else {
            return Wait::Nothing;
        };
        let read = self.row_read(page, place, self.layout.page_bytes() as u32);
        self.read_row_of(read, ReadCause::Rmw)
    }

    /// Advances a command until its end.
    pub(crate) fn run<'a>(self: &'a Rc<Self>, running: Running, content: Content<'a>) -> Run<'a> {
        Run {
            core: self,
            running,
            content,
        }
    }
}

/// Future of the end of a command. A future that is dropped gives back what it waits for.
pub(crate) struct Run<'a> {
    core: &'a Rc<Core>,
    running: Running,
    content: Content<'a>,
}

impl Future for Run<'_> {
    type Output = Result<(), IoError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let (core, content) = (self.core, self.content);
        core.advance(&mut self.running, content)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        match &self.running.wait {
            Wait::Row(reading, ..) => self.core.nand.abandon(reading),
            Wait::Room(ticket) => self.core.buffer.leave(*ticket),
            _ => {}
        }
    }
}
