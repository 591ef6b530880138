//! Common steps of commands to a page-mapped drive or to conventional zones: checks, counts,
//! placement, firmware time.

use crate::drive::{Content, Core, IoError, Sink};
use crate::map::Where;
use crate::policy::WriteView;
use crate::running::Running;
use nand::UNIT;
use std::rc::Rc;
use units::{Extent, Ns, Origin, Placement, SECTOR};

impl Core {
    pub(crate) fn check_range(&self, extent: Extent) -> Result<(), IoError> {
        let sectors = self.config.capacity.0 / SECTOR;
        let fits = extent.start.0.checked_add(u64::from(extent.sectors));
        if fits.is_some_and(|end| end <= sectors) {
            return Ok(());
        }
        Err(IoError::OutOfRange {
            first: extent.start.0,
            last: extent
                .start
                .0
                .saturating_add(u64::from(extent.sectors))
                .saturating_sub(1),
            sectors,
        })
    }

    /// Reads `extent` of a page-mapped drive or of conventional zones.
    pub(crate) async fn read_block(
        self: &Rc<Self>,
        extent: Extent,
        sink: &mut impl Sink,
    ) -> Result<(), IoError> {
        let result = match &self.front {
            Some(front) if front.has_cache() => {
                self.check_range(extent)?;
                self.count_command(true);
                self.state.borrow().map.prefetch(self.pages_of(extent).0);
                Box::pin(self.read_through(front, extent, sink)).await
            }
            _ => {
                let mut running = Running::default();
                running.begin_read(self, extent, self.sim.now())?;
                let result = self.run(running, Content::Nothing).await;
                result.and_then(|()| self.hand_over(extent, sink))
            }
        };
        self.count_failure(&result);
        result
    }

    /// Counts a failed read over the drive's life.
    pub(crate) fn count_failure(&self, result: &Result<(), IoError>) {
        if result.is_err() {
            let mut smart = self.smart.get();
            smart.media_errors += 1;
            self.smart.set(smart);
        }
    }

    /// Writes `extent` of a page-mapped drive or of conventional zones.
    pub(crate) async fn write_block(
        self: &Rc<Self>,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        origin: Origin,
        fua: bool,
    ) -> Result<(), IoError> {
        let Some(front) = self.front.as_ref().filter(|front| front.writes_back()) else {
            let mut running = Running::default();
            let write = (extent, placement, origin, fua);
            running.begin_write(self, write, self.sim.now())?;
            return self.run(running, content).await;
        };
        self.check_range(extent)?;
        self.count_command(false);
        let frontier = self.host_frontier(placement, extent)?;
        self.state.borrow().map.prefetch(self.pages_of(extent).0);
        let written = self.write_through(front, extent, content, frontier, self.tag(origin));
        Box::pin(written).await?;
        if fua && !front.keeps_lines() {
            let (first, end) = self.pages_of(extent);
            Box::pin(self.put_clean(front, (first..end).collect())).await?;
        }
        match fua {
            true => Box::pin(self.flush_buffer()).await,
            false => Ok(()),
        }
    }

    pub(crate) fn count_command(&self, read: bool) {
        let mut smart = self.smart.get();
        smart.read_commands += u64::from(read);
        smart.write_commands += u64::from(!read);
        self.smart.set(smart);
    }

    /// The frontier of a write: that of the handle which the caller's policy chooses, or else of
    /// the handle which the host names.
    pub(crate) fn host_frontier(
        &self,
        placement: Placement,
        extent: Extent,
    ) -> Result<usize, IoError> {
        let named = self.named_handle(placement)?;
        let view = || self.view_of_write(extent, named.unwrap_or_default());
        let chosen = self.policies.borrow().handle(view);
        let handle = chosen.map(usize::from).or(named);
        Ok(handle.map_or(0, |handle| self.with_room(handle)))
    }

    /// The view of a write through handle `named`, for a placement policy.
    fn view_of_write(&self, extent: Extent, named: usize) -> WriteView {
        let (page, end) = self.pages_of(extent);
        let state = self.state.borrow();
        let age = match state.map.get(page) {
            Where::Nowhere => None,
            Where::Buffer(_) => Some(0),
            Where::Flash(place) => {
                let (line, _) = self.layout.line_of(place);
                Some(state.age(line))
            }
        };
        WriteView {
            page,
            pages: end - page,
            handle: named as u16,
            handles: (self.layout.handles * self.layout.groups) as u16,
            age,
        }
    }

    /// The handle that the host names; `None` on a conventional drive, and for an invalid handle on
    /// an FDP drive, which logs an event.
    fn named_handle(&self, placement: Placement) -> Result<Option<usize>, IoError> {
        let count = self.layout.handles * self.layout.groups;
        let named = usize::from(placement.0);
        if self.config.interface == crate::Interface::Block {
            return Ok(None);
        }
        if named < count as usize {
            return Ok(Some(named));
        }
        if self.config.interface == crate::Interface::Fdp {
            self.report_invalid(placement);
            return Ok(None);
        }
        Err(IoError::Placement(placement.0, count))
    }

    /// The frontier for data of handle `named`. If its group is full, the same handle in the group
    /// with the fewest pages that is not: the host may write everything to one group, and the drive
    /// holds more than that.
    pub(crate) fn with_room(&self, named: usize) -> usize {
        if self.layout.groups == 1 {
            return named;
        }
        let mut state = self.state.borrow_mut();
        let handles = self.layout.handles as usize;
        if !state.loads[named / handles].is_full {
            return named;
        }
        let groups = state.loads.iter().enumerate();
        let with_room = groups.filter(|(_, load)| !load.is_full);
        let Some((group, _)) = with_room.min_by_key(|(_, load)| load.pages) else {
            return named;
        };
        state.ledger.redirected += 1;
        group * handles + named % handles
    }

    /// The mapped pages that `extent` touches: the first, and one past the last.
    #[inline]
    pub(crate) fn pages_of(&self, extent: Extent) -> (u32, u32) {
        // A mapped page is a power of two.
        let bits =
            (UNIT as u64 / SECTOR).trailing_zeros() + self.layout.sectors_per_page.trailing_zeros();
        let first = extent.start.0 >> bits;
        (
            first as u32,
            ((extent.end() + (1 << bits) - 1) >> bits) as u32,
        )
    }

    /// Time at which a command has passed the firmware: it arrives at `arrival`, occupies the
    /// processors for `service`, and its data take `moved` through the controller's DRAM.
    #[inline]
    pub(crate) fn passed(&self, arrival: Ns, service: Ns, moved: Ns) -> Ns {
        let command = self.config.controller.command;
        if service == Ns::ZERO {
            return arrival + command + moved;
        }
        self.turns.processors(arrival, service) + service.max(command) + moved
    }

    /// Time to move `pages` mapped pages through the controller's DRAM.
    #[inline]
    pub(crate) fn dram_time(&self, pages: u32) -> Ns {
        let units = u64::from(pages * self.layout.sectors_per_page);
        Ns(self.config.controller.dram_per_unit.0 * units)
    }
}
