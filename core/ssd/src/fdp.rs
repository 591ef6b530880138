//! FDP: statistics and events about reclaim units.
//!
//! A reclaim unit is a line, and every handle refers to the line that its writes are appended to. A
//! handle that moves on because its unit is full causes no event. Events of the host and of the
//! controller are kept in separate logs, because the host queries them separately; each log keeps
//! the newest events that fit into a log page of 4 KiB, and is empty at power-on. Every event is
//! enabled for every handle.
//!
//! Two events of the specification never occur on this drive: it does not limit the time that a
//! unit may stay open (1h), and after power-on it continues to fill open units (2h).

use crate::drive::{Core, Drive, IoError};
use crate::frontier::Kind;
use crate::layout::NONE;
use crate::state::State;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use units::{Bytes, Ns, Placement};

/// Events that a log holds: 64 bytes each, after a header of the same size.
//= nvme-2.1 5.1.12.1.31
const EVENTS: usize = 4096 / 64 - 1;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FdpEventKind {
    /// The host moved a handle on before its reclaim unit was full.
    //= nvme-2.1 5.1.12.1.31.1.1
    NotFullyWritten,
    /// A write named a placement that does not exist, and went to the default one.
    //= nvme-2.1 5.1.12.1.31.1.4
    InvalidPlacement,
    /// Data of an initially isolated handle were relocated to another reclaim unit.
    //= nvme-2.1 5.1.12.1.31.2.1
    MediaReallocated,
    /// The drive moved a handle on although its unit was not full and the host had not requested
    /// it.
    //= nvme-2.1 5.1.12.1.31.2.2
    ImplicitlyModified,
}

impl FdpEventKind {
    /// Event type by its number in the specification.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::NotFullyWritten => 0x00,
            Self::InvalidPlacement => 0x03,
            Self::MediaReallocated => 0x80,
            Self::ImplicitlyModified => 0x81,
        }
    }

    /// Whether the host caused the event; if not, the controller did.
    #[must_use]
    pub const fn is_of_host(self) -> bool {
        self.code() < 0x80
    }
}

/// An event of a drive's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdpEvent {
    /// Kind of the event.
    pub kind: FdpEventKind,
    /// Time of the event, in the virtual time of the run.
    pub at: Ns,
    /// Placement of the event, in the host's numbering.
    pub placement: Placement,
    /// Reclaim group of the placement; for an invalid placement, the group of the default one.
    pub group: u32,
    /// Handle in the group; for an invalid placement, the handle of the default one.
    pub handle: u32,
    /// Mapped pages relocated; 0 for events without relocation.
    pub moved_pages: u32,
    /// One of the relocated pages; `None` for events without relocation.
    pub page: Option<u32>,
}

/// The newest events of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdpEvents {
    /// Events in their order; at most 63.
    pub events: VecDeque<FdpEvent>,
    /// Older events that were dropped to make room.
    pub dropped: u64,
}

impl FdpEvents {
    fn push(&mut self, event: FdpEvent) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event);
    }
}

/// Statistics over the drive's life, and events since power-on.
//= nvme-2.1 5.1.12.1.30
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdpLog {
    /// User data that the host wrote (HBMW).
    pub host_bytes_written: Bytes,
    /// User data programmed, new and relocated (MBMW). Map, journal, summaries and padding do not
    /// count.
    pub media_bytes_written: Bytes,
    /// Bytes of erased blocks (MBE).
    pub media_bytes_erased: Bytes,
    /// Log of events that the host caused.
    pub host: FdpEvents,
    /// Log of events that the controller caused.
    pub controller: FdpEvents,
}

/// Event logs of the host and of the controller.
#[derive(Debug, Default)]
pub(crate) struct EventLogs {
    host: FdpEvents,
    controller: FdpEvents,
}

impl EventLogs {
    /// Empty logs for an FDP drive; `None` for any other.
    pub(crate) fn new(interface: crate::Interface) -> Option<RefCell<Self>> {
        (interface == crate::Interface::Fdp).then(RefCell::default)
    }

    fn push(&mut self, event: FdpEvent) {
        if event.kind.is_of_host() {
            self.host.push(event);
        } else {
            self.controller.push(event);
        }
    }
}

/// Progress of the relocation of one line.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// Reads that have not completed.
    pub(crate) reading: Cell<u32>,
    /// Pages queued as copies so far.
    pub(crate) pages: Cell<u32>,
    /// A mapped page among the queued ones.
    pub(crate) page: Cell<Option<u32>>,
}

impl Drive {
    /// Statistics and events of an FDP drive; `None` on any other.
    #[must_use]
    pub fn fdp(&self) -> Option<FdpLog> {
        let logs = self.core.fdp.as_ref()?.borrow();
        let smart = self.smart();
        let layout = &self.core.layout;
        let geometry = &layout.geometry;
        let block = geometry.bytes() / geometry.blocks();
        Some(FdpLog {
            host_bytes_written: Bytes(smart.host_write_sectors * units::SECTOR),
            media_bytes_written: Bytes(smart.user_pages * layout.page_bytes()),
            media_bytes_erased: Bytes(smart.erased_blocks * block),
            host: logs.host.clone(),
            controller: logs.controller.clone(),
        })
    }

    /// User data that the reclaim unit of a handle can still take (RUAMW); data that wait in the
    /// buffer count as written. `None` if there is no such handle, or the drive is no FDP drive.
    //= nvme-2.1 7.3
    #[must_use]
    pub fn writable_in_unit(&self, placement: Placement) -> Option<Bytes> {
        let (core, frontier) = (&self.core, usize::from(placement.0));
        let handles = core.layout.handles * core.layout.groups;
        core.fdp
            .as_ref()
            .filter(|_| u32::from(placement.0) < handles)?;
        let state = core.state.borrow();
        let queue = state.frontiers.get(frontier)?;
        let free = match queue.open {
            NONE => core.layout.line_data,
            open => {
                let line = &state.lines.lines[open as usize];
                let behind = core.layout.units_per_line.saturating_sub(line.issued);
                (behind + line.holes.len() as u32) * core.layout.unit
            }
        };
        let pages = free.min(core.layout.line_data);
        let left = pages.saturating_sub(queue.pending.len() as u32);
        Some(Bytes(u64::from(left) * core.layout.page_bytes()))
    }

    /// Makes a handle of an FDP drive refer to an empty reclaim unit. Earlier writes go to the unit
    /// that the handle leaves; the rest of that unit stays unused.
    ///
    /// # Errors
    /// If there is no such handle, or the drive is out of spare blocks.
    pub async fn update_handle(&self, placement: Placement) -> Result<(), IoError> {
        let handles = match self.core.fdp {
            Some(_) => self.core.layout.handles * self.core.layout.groups,
            None => 0,
        };
        if u32::from(placement.0) >= handles {
            return Err(IoError::Placement(placement.0, handles));
        }
        self.core
            .sim
            .sleep(self.core.config.controller.command)
            .await;
        self.core.close_unit(usize::from(placement.0)).await
    }
}

impl Core {
    /// Writes out the slots that wait at a host frontier, and closes its line.
    async fn close_unit(self: &std::rc::Rc<Self>, frontier: usize) -> Result<(), IoError> {
        {
            let queue = &mut self.state.borrow_mut().frontiers[frontier];
            queue.forced = queue.pending.len();
        }
        self.work[frontier].notify(&self.sim);
        while self.state.borrow().frontiers[frontier].forced > 0 {
            if self.read_only.get() {
                return Err(IoError::ReadOnly);
            }
            self.progress.wait(&self.sim).await;
        }
        let mut state = self.state.borrow_mut();
        if state.frontiers[frontier].open != NONE {
            self.report_unit(&state, frontier, FdpEventKind::NotFullyWritten);
            self.close_line(&mut state, frontier);
        }
        Ok(())
    }

    /// Logs that a host frontier leaves a line that is not full.
    pub(crate) fn report_unit(&self, state: &State, frontier: usize, kind: FdpEventKind) {
        let Some(logs) = &self.fdp else { return };
        let queue = &state.frontiers[frontier];
        if let Kind::Host(handle) = queue.kind {
            let place = (queue.group, handle);
            let placement = Placement((queue.group * self.layout.handles + handle) as u16);
            logs.borrow_mut()
                .push(self.event(kind, placement, place, (0, None)));
        }
    }

    /// Logs a write to a placement that does not exist; the write goes to the first handle of the
    /// first group.
    pub(crate) fn report_invalid(&self, placement: Placement) {
        if let Some(logs) = &self.fdp {
            let kind = FdpEventKind::InvalidPlacement;
            let event = self.event(kind, placement, (0, 0), (0, None));
            logs.borrow_mut().push(event);
        }
    }

    /// Logs that pages of `line` were relocated, if the host placed them there and handles are only
    /// initially isolated.
    pub(crate) fn report_moved(&self, line: u32, moving: &Moving) {
        let Some(logs) = &self.fdp else { return };
        let state = self.state.borrow();
        let queue = &state.frontiers[usize::from(state.lines.lines[line as usize].frontier)];
        let Kind::Host(handle) = queue.kind else {
            return;
        };
        if self.config.placement.persistently_isolated || moving.pages.get() == 0 {
            return;
        }
        let placement = Placement((queue.group * self.layout.handles + handle) as u16);
        let what = (moving.pages.get(), moving.page.get());
        let kind = FdpEventKind::MediaReallocated;
        let event = self.event(kind, placement, (queue.group, handle), what);
        logs.borrow_mut().push(event);
    }

    fn event(
        &self,
        kind: FdpEventKind,
        placement: Placement,
        (group, handle): (u32, u32),
        (moved_pages, page): (u32, Option<u32>),
    ) -> FdpEvent {
        FdpEvent {
            kind,
            at: self.sim.now(),
            placement,
            group,
            handle,
            moved_pages,
            page,
        }
    }
}
