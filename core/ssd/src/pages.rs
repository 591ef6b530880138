//! Access by whole pages, for a front that lies outside this crate.
//!
//! Such a front has its own DRAM and accounts for its own costs. It fetches pages from flash, puts
//! pages into the write buffer, each at one instant, and may inspect the queues of the flash. The
//! drive must map 4 KiB, with its whole map in DRAM, and have neither a front of this crate nor
//! zones.
//!
//! # Invariants
//!
//! - [`Drive::put_page`] takes no time: before it the front owns the page, after it the drive does.
//!   The front has waited for room before.
//! - A page may change while it is fetched: its contents are those that [`Drive::page`] returns at
//!   the instant of that call.

use crate::drive::{Core, Drive, IoError};
use crate::ledger::{Cause, ReadCause};
use crate::line::LineState;
use crate::map::Where;
use crate::state::Incoming;
use nand::{Load, Payload};

/// Work queued at the flash that holds a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLoad {
    /// Work queued at the die of the page.
    pub die: Load,
    /// Work queued at all dies of its channel.
    pub channel: Load,
    /// Whether the page's line is being collected, or an erase waits at its die.
    pub collecting: bool,
}

impl Core {
    fn whole(&self, page: u32) -> bool {
        page < self.layout.host_pages && self.layout.sectors_per_page == 1 && self.front.is_none()
    }
}

impl Drive {
    /// Waits for room for one page in the write buffer, and takes it.
    ///
    /// # Errors
    /// [`IoError::ReadOnly`] on a drive that is out of spare blocks.
    pub async fn take_room(&self) -> Result<(), IoError> {
        self.core.buffer.take(1).await;
        if self.core.read_only.get() {
            self.core.buffer.put(1);
            return Err(IoError::ReadOnly);
        }
        Ok(())
    }

    /// Takes room for one page in the write buffer if there is some at once; false if not.
    #[must_use]
    pub fn try_room(&self) -> bool {
        !self.core.read_only.get() && self.core.buffer.try_take(1)
    }

    /// Returns room for one page that was taken and not used.
    pub fn give_room_back(&self) {
        self.core.buffer.put(1);
    }

    /// Puts `page` into the write buffer, in room taken before. `payload` is dropped if the drive
    /// keeps no contents.
    ///
    /// # Panics
    /// If the drive has no such page, maps pages larger than 4 KiB, or has a front of its own.
    pub fn put_page(&self, page: u32, payload: Option<Payload>, cause: Cause) {
        assert!(self.core.whole(page), "page {page} is one of the drive");
        let incoming = Incoming {
            page,
            frontier: self.core.with_room(0),
            cause,
            tag: 0,
        };
        let payload = payload.filter(|_| self.core.config.flash.keep_contents);
        self.core.put_page(incoming, payload);
    }

    /// Whether the newest version of `page` is on flash. If not, it is in the write buffer or
    /// unmapped.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn is_on_flash(&self, page: u32) -> bool {
        matches!(self.core.state.borrow().map.get(page), Where::Flash(_))
    }

    /// Reads `page` from flash and takes the time of that read; returns at once if it is not on
    /// flash.
    ///
    /// # Errors
    /// If the flash cannot be read.
    ///
    /// # Panics
    /// If the drive has no such page.
    pub async fn fetch_page(&self, page: u32, cause: ReadCause) -> Result<(), IoError> {
        let place = self.core.state.borrow().map.get(page);
        match place {
            Where::Flash(place) => self.core.read_page_of(page, place, cause).await,
            _ => Ok(()),
        }
    }

    /// Contents of `page` in write buffer or flash; zeros if it is unmapped or contents are not
    /// kept.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn page(&self, page: u32) -> Payload {
        let contents = self.core.contents(page).unwrap_or_default();
        contents.into_iter().next().unwrap_or_default()
    }

    /// Work queued at the flash that holds `page`; `None` if it is not on flash.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn flash_load(&self, page: u32) -> Option<FlashLoad> {
        let state = self.core.state.borrow();
        let Where::Flash(place) = state.map.get(page) else {
            return None;
        };
        let at = state.flash_page(&self.core.layout, place);
        let nand = &self.core.nand;
        let die = nand.die_load(at.block.die);
        let moves = state.lines.lines[at.line as usize].state == LineState::Collecting;
        Some(FlashLoad {
            die,
            channel: nand.channel_load(nand.geometry().channel(at.block.die)),
            collecting: moves || die.erases > 0,
        })
    }

    /// Whether the drive has run out of spare blocks and rejects all writes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.core.read_only.get()
    }
}
