//! What an FDP drive tells its host about reclaim units: statistics and events.
//!
//! A reclaim unit is a line, and every handle refers to the line that its writes
//! are appended to. A handle that goes on because its unit is full is no event.
//! Events of the host and of the controller are kept apart, since the host asks
//! for either; each log keeps the newest that fit into a log page of 4 KiB and
//! begins empty at power-on. Every event is enabled for every handle.
//!
//! Two events of the specification do not happen on this drive: it sets no limit
//! to the time that a unit may stay open (1h), and at power-on it takes open units
//! up again (2h).

use crate::drive::{Core, Drive, IoError};
use crate::frontier::Kind;
use crate::layout::NONE;
use crate::state::State;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use units::{Bytes, Ns, Placement};

/// Events of a log: 64 bytes each, after a header of the same size.
//= nvme-2.1 5.1.12.1.31
const EVENTS: usize = 4096 / 64 - 1;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FdpEventKind {
    /// The host moved a handle on before its reclaim unit was full.
    //= nvme-2.1 5.1.12.1.31.1.1
    NotFullyWritten,
    /// A write named a placement that does not exist, and went to the default one.
    //= nvme-2.1 5.1.12.1.31.1.4
    InvalidPlacement,
    /// Data of an initially isolated handle were moved to another reclaim unit.
    //= nvme-2.1 5.1.12.1.31.2.1
    MediaReallocated,
    /// The drive moved a handle on although its unit was not full and the host had
    /// not asked for it.
    //= nvme-2.1 5.1.12.1.31.2.2
    ImplicitlyModified,
}

impl FdpEventKind {
    /// Its number in the specification.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::NotFullyWritten => 0x00,
            Self::InvalidPlacement => 0x03,
            Self::MediaReallocated => 0x80,
            Self::ImplicitlyModified => 0x81,
        }
    }

    /// Whether the host caused it, or else the controller.
    #[must_use]
    pub const fn is_of_host(self) -> bool {
        self.code() < 0x80
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdpEvent {
    /// What happened.
    pub kind: FdpEventKind,
    /// When, in the virtual time of the run.
    pub at: Ns,
    /// The placement that it is about, as the host named it.
    pub placement: Placement,
    /// Reclaim group, for an invalid placement the one that was chosen instead.
    pub group: u32,
    /// Handle in the group, for an invalid placement the one that was chosen
    /// instead.
    pub handle: u32,
    /// Mapped pages that were moved; 0 for events that move none.
    pub moved_pages: u32,
    /// One of the mapped pages that were moved.
    pub page: Option<u32>,
}

/// The newest events of one side, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdpEvents {
    /// At most 63.
    pub events: VecDeque<FdpEvent>,
    /// Older events that had to make room.
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
    /// User data that were programmed, for the host and to move them (MBMW). Map,
    /// journal, summaries and padding are no user data.
    pub media_bytes_written: Bytes,
    /// Flash that was erased (MBE).
    pub media_bytes_erased: Bytes,
    /// Events that the host caused.
    pub host: FdpEvents,
    /// Events that the controller caused.
    pub controller: FdpEvents,
}

/// Both logs.
#[derive(Debug, Default)]
pub(crate) struct EventLogs {
    host: FdpEvents,
    controller: FdpEvents,
}

impl EventLogs {
    /// Logs for a drive, if it has handles to report about.
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

/// Pages of a line that the collector moves.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// Reads under way.
    pub(crate) reading: Cell<u32>,
    /// Pages queued so far.
    pub(crate) pages: Cell<u32>,
    /// One of them.
    pub(crate) page: Cell<Option<u32>>,
}

impl Drive {
    /// What an FDP drive reports; none of another drive.
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

    /// User data that the reclaim unit of a handle of an FDP drive still takes (RUAMW);
    /// what waits in the buffer for it is counted as written. None if there is no such
    /// handle.
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

    /// Makes a handle of an FDP drive refer to an empty reclaim unit. What was
    /// written to it before goes to the unit that it leaves, of which the rest
    /// stays unused.
    ///
    /// # Errors
    /// If there is no such handle, and on a drive out of spare blocks.
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
        self.core.leave_unit(usize::from(placement.0)).await
    }
}

impl Core {
    /// Writes out what waits at a host frontier and closes its line.
    async fn leave_unit(self: &std::rc::Rc<Self>, frontier: usize) -> Result<(), IoError> {
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

    /// Reports that a frontier leaves a line that is not full.
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

    /// Reports a write to a placement that does not exist; it goes to the first
    /// handle of the first group.
    pub(crate) fn report_invalid(&self, placement: Placement) {
        if let Some(logs) = &self.fdp {
            let kind = FdpEventKind::InvalidPlacement;
            let event = self.event(kind, placement, (0, 0), (0, None));
            logs.borrow_mut().push(event);
        }
    }

    /// Reports that pages of a line were moved, if the host placed them there and
    /// was not promised that they stay with their like.
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
