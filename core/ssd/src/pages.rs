//! Whole pages, for a front that lies outside this crate.
//!
//! Such a front has DRAM of its own and counts its own costs. It fetches pages from
//! flash and puts pages into the write buffer, each at one instant, and it may look at
//! what waits at the flash. Such a drive maps 4 KiB, with its whole map in DRAM, and has
//! neither a front of this crate nor zones.
//!
//! # Invariants
//!
//! - [`Drive::put_page`] takes no time: before it the page is what the front holds, after
//!   it what the drive holds. Whoever puts has waited for room.
//! - A page that is fetched may change meanwhile: its contents are those of
//!   [`Drive::page`] at the instant at which they are asked for.

use crate::drive::{Core, Drive, IoError};
use crate::ledger::{Cause, ReadCause};
use crate::line::LineState;
use crate::map::Where;
use crate::state::Incoming;
use nand::{Load, Payload};

/// What waits where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLoad {
    /// At its die.
    pub die: Load,
    /// At all dies of its channel.
    pub channel: Load,
    /// Its line is being collected, or something is to be erased on its die.
    pub collecting: bool,
}

impl Core {
    fn whole(&self, page: u32) -> bool {
        page < self.layout.host_pages && self.layout.sectors_per_page == 1 && self.front.is_none()
    }
}

impl Drive {
    /// Waits for room for one page in the write buffer.
    ///
    /// # Errors
    /// On a drive out of spare blocks.
    pub async fn take_room(&self) -> Result<(), IoError> {
        self.core.buffer.take(1).await;
        if self.core.read_only.get() {
            self.core.buffer.put(1);
            return Err(IoError::ReadOnly);
        }
        Ok(())
    }

    /// Takes room for one page if there is some at once.
    #[must_use]
    pub fn try_room(&self) -> bool {
        !self.core.read_only.get() && self.core.buffer.try_take(1)
    }

    /// Gives room back that was taken and not used.
    pub fn give_room_back(&self) {
        self.core.buffer.put(1);
    }

    /// Puts a page into the write buffer, room in which was taken; its contents where
    /// they are kept.
    ///
    /// # Panics
    /// If the drive has no such page, or maps others than of 4 KiB.
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

    /// Whether a page has to be read from flash; if not it is nowhere, or in the write
    /// buffer.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn is_on_flash(&self, page: u32) -> bool {
        matches!(self.core.state.borrow().map.get(page), Where::Flash(_))
    }

    /// Reads a page for the time that it takes, if it is on flash.
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

    /// What a page holds in write buffer or flash, zeros if it is nowhere or contents
    /// are not kept.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn page(&self, page: u32) -> Payload {
        let contents = self.core.contents(page).unwrap_or_default();
        contents.into_iter().next().unwrap_or_default()
    }

    /// What waits at the flash where a page lies; none if it is not on flash.
    ///
    /// # Panics
    /// If the drive has no such page.
    #[must_use]
    pub fn flash_load(&self, page: u32) -> Option<FlashLoad> {
        let state = self.core.state.borrow();
        let Where::Flash(place) = state.map.get(page) else {
            return None;
        };
        let (line, offset) = self.core.layout.line_of(place);
        let at = self.core.layout.place(offset);
        let row = self.core.row(&state, line, at.unit, at.row);
        let nand = &self.core.nand;
        let die = nand.die_load(row.die);
        let moves = state.lines.lines[line as usize].state == LineState::Collecting;
        Some(FlashLoad {
            die,
            channel: nand.channel_load(nand.geometry().channel(row.die)),
            collecting: moves || die.erases > 0,
        })
    }

    /// Whether the drive has run out of spare blocks and takes no writes any more.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.core.read_only.get()
    }
}
