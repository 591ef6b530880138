//! Pages that move to the host and back: the kernel's part.
//!
//! The device offers a hot page, or sampling finds it. The page is copied while it is in use.
//! Then its lines, which have the old address, are evicted from the caches; its translation
//! changes, all cores drop the old one (TLB shootdown), and the device is told that it may drop
//! the page. Lines that only the device's memory held move along and count as dirty. When the
//! host's share is full, the least recently referenced page goes back first.

use super::{Action, Machine, Values};
use crate::far::Far;
use crate::link::Request;
use crate::op::Program;
use crate::pages::{far_line, split};
use crate::tick::Tick;
use crate::tiering::{Offer, Promote, Tiering};
use crate::window::Cause;
use units::Ns;

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// The device calls a page of its own hot.
    pub(super) fn offered(&mut self, far_page: u64, now: Tick) {
        let Tiering::Hinted(moves) = self.config.tiering else {
            return;
        };
        self.counts.offers += 1;
        let Some(page) = self.pages.at_far(far_line(far_page.saturating_mul(64))) else {
            return;
        };
        let (held, limit) = self.pages.held();
        let offer = Offer {
            held,
            limit,
            offers: self.pages.offered(page),
        };
        if !self.may_want(page) || !self.promote.take(&offer) {
            return;
        }
        if self.wanted.len() as u64 >= moves.queue {
            self.counts.passed_over += 1;
            return;
        }
        let core = self.next_handler();
        self.charge(core, Tick::of(moves.handler));
        self.later(now + Tick::of(moves.handler), Action::Handled(page));
    }

    fn may_want(&self, page: u64) -> bool {
        self.pages.may_move(page)
            && !self.is_copied(self.pages.first_line(page))
            && !self.wanted.contains(&page)
    }

    /// The kernel found a page worth moving.
    pub(super) fn want(&mut self, page: u64, now: Tick) {
        let queue = self.config.tiering.moves().map_or(0, |moves| moves.queue);
        if !self.may_want(page) {
            return;
        }
        if self.wanted.len() as u64 >= queue {
            self.counts.passed_over += 1;
        } else {
            self.later(now, Action::Handled(page));
        }
    }

    /// Interrupts go round the cores.
    fn next_handler(&mut self) -> usize {
        self.handler = (self.handler + 1) % self.cores.len();
        self.handler
    }

    /// Takes time from a core.
    fn charge(&mut self, core: usize, span: Tick) {
        self.cores[core].window.spend(span, Cause::Kernel);
        self.plan(core);
        self.refresh(core);
    }

    /// The handler has run for a page.
    pub(super) fn handled(&mut self, now: Tick, page: u64) {
        if self.may_want(page) {
            self.wanted.push_back(page);
            self.promote_next(now);
        }
    }

    /// Starts the copies that there is room for.
    pub(super) fn promote_next(&mut self, now: Tick) {
        let Some(moves) = self.config.tiering.moves() else {
            return;
        };
        while (self.copying.len() as u64) < moves.entries {
            let Some(&page) = self.wanted.front() else {
                return;
            };
            let Some(to) = self.pages.take_frame() else {
                if self.demote(now) {
                    continue;
                }
                return;
            };
            self.wanted.pop_front();
            let from = self.pages.first_line(page);
            self.copy(Some(page), from, to, self.pages.chunks() * 64, now);
        }
    }

    /// A page has been copied: it lies in the host from now on.
    //= skybyte 3.3
    pub(super) fn moved(&mut self, now: Tick, slot: u16, page: u64) {
        let Some(mut entry) = self.end_copy(slot) else {
            return;
        };
        for index in 0..entry.lines {
            if let Some(data) = self.caches.purge(entry.from + index) {
                entry.mark_newer(index);
                self.host_write(entry.to + index, &data, now);
            }
        }
        self.requests.outdate(entry.from, entry.lines);
        self.pages.moved_in(page, entry.to);
        self.counts.promotions += 1;
        self.shoot_down(page);
        for (chunk, newer) in (0..).zip(&entry.newer) {
            self.pages.mark_lines(page, chunk, *newer);
        }
        self.tell_dropped(now, page, split(entry.from).1 / 64);
        self.promote_next(now);
    }

    /// Tells the device that it may drop a page, from its page `first` of 4 KiB on, and learns
    /// which lines were newer than its flash.
    //= skybyte 4
    fn tell_dropped(&mut self, now: Tick, page: u64, first: u64) {
        // The acknowledgement passes the link as a request does, and so does a command.
        let tag = crate::far::Tag(0);
        let there = self.link.down(now, Request::MemRd(tag));
        let at = self.at_device(there);
        if self.pages.chunks() == 1 {
            let lines = self.far.dropped(at, first);
            self.pages.mark_lines(page, 0, lines);
        } else {
            for (chunk, lines) in self.far.dropped_chunks(at, first, &[u64::MAX; 8]) {
                self.pages.mark_lines(page, chunk - first, lines);
            }
            let moves = self.config.tiering.moves();
            let core = self.next_handler();
            self.charge(
                core,
                Tick::of(moves.map_or(Ns::ZERO, |moves| moves.command)),
            );
        }
        self.listen();
    }

    /// All cores forget a translation, and are told.
    fn shoot_down(&mut self, page: u64) {
        self.forget_translation(page);
        self.interrupt_all();
    }

    fn forget_translation(&mut self, page: u64) {
        for core in &mut self.cores {
            core.tlb.forget(page);
        }
    }

    fn interrupt_all(&mut self) {
        let Some(moves) = self.config.tiering.moves() else {
            return;
        };
        self.counts.shootdowns += 1;
        let asks = self.next_handler();
        for core in 0..self.cores.len() {
            let span = if core == asks {
                moves.shootdown
            } else {
                moves.interrupted
            };
            self.charge(core, Tick::of(span));
        }
    }

    /// Sends pages back that were not referenced for longest, of which the cores are told
    /// together. False if none can go.
    //= skybyte 3.3
    fn demote(&mut self, now: Tick) -> bool {
        let most = self.config.tiering.moves().map_or(0, |moves| moves.batch);
        let batch = most.min(self.pages.held().1 / 2).max(1);
        let gone = (0..batch).take_while(|_| self.demote_one(now)).count();
        if gone > 0 {
            self.interrupt_all();
        }
        gone > 0
    }

    /// Sends a page back. False if none can go.
    fn demote_one(&mut self, now: Tick) -> bool {
        if self.posted.len() >= self.config.posted {
            return false;
        }
        let Some(page) = self.pages.victim() else {
            return false;
        };
        let Some(mut back) = self.pages.send_back(page) else {
            return false;
        };
        for index in 0..self.pages.chunks() * 64 {
            let line = back.from + index;
            let newer = self.caches.purge(line);
            let (chunk, bit) = ((index / 64) as usize, 1 << (index % 64));
            if newer.is_some() {
                back.lines[chunk] |= bit;
            }
            if back.lines[chunk] & bit == 0 {
                continue;
            }
            self.counts.demoted_lines += 1;
            let (done, held) = self.host_read(0, line, now);
            self.write_line(back.to + index, &newer.unwrap_or(held), done, 0);
        }
        self.counts.demotions += 1;
        self.forget_translation(back.page);
        true
    }

    /// The kernel marks pages, to be told of the next access to each.
    //= skybyte 6.8
    pub(super) fn sample(&mut self, now: Tick) {
        let Tiering::Sampled(_, sampling) = self.config.tiering else {
            return;
        };
        let cores = &mut self.cores;
        self.pages.sample(sampling.pages, |page| {
            for core in cores.iter_mut() {
                core.tlb.forget(page);
            }
        });
        self.interrupt_all();
        self.later(now + Tick::of(sampling.period), Action::Sample);
    }
}
