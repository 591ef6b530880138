//! Traffic over the link: reads with their answers, writes and refused writes.
//!
//! A blocked read has an entry by its tag, with its waiters; other misses on its line join
//! it. A write that the device refuses stays with the host, in order, and reads of its line
//! find it there.

use super::access::{Access, part_of};
use super::posted::Posted;
use super::{Action, Machine, Values};
use crate::cache::Block;
use crate::far::{Far, FarEvent, Line, LineData, ReadReply, Tag};
use crate::link::{Ndr, Request, Response};
use crate::op::Program;
use crate::pages::{is_far, split};
use crate::tick::Tick;
use crate::tiering::Promote;
use crate::window::Cause;
use units::Ns;

/// Waiter for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A part of a load.
    Load(u64, u8),
    /// A store of the window.
    Own(u64),
    /// The oldest store of the buffer.
    Drain,
    /// A prefetch: no operation waits.
    Ahead,
}

impl Waiter {
    /// Owner of the waiter's MSHR: the number of its operation plus one, or zero for stores of
    /// the buffer and prefetches, which are never squashed.
    #[inline]
    pub(super) const fn asker(self) -> u64 {
        match self {
            Self::Load(number, _) | Self::Own(number) => number + 1,
            Self::Drain | Self::Ahead => 0,
        }
    }
}

/// Purpose of the request with a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A line for the caches.
    #[default]
    Line,
    /// A line of a copy: slot of the copy, and index of the line in it.
    Copy(u16, u64),
    /// The request was squashed: no operation wants the line any more.
    Dead,
}

#[derive(Debug, Default)]
struct Entry {
    purpose: Purpose,
    line: u64,
    waiters: Vec<(usize, Waiter)>,
    /// Cores with an MSHR held by this request, one bit each.
    cores: u64,
    own: bool,
    /// Whether its page has moved since the request, so that the answer may be stale.
    outdated: bool,
    left: Tick,
    arrived: Tick,
    answered: Tick,
    data: LineData,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u16>,
    /// Lines that caches wait for, with their tags.
    active: Vec<(u64, u16)>,
    /// Lines with a delay hint in flight, and the time of its arrival.
    delayed: Vec<(u64, Tick)>,
}

impl Requests {
    pub(super) fn take(&mut self, purpose: Purpose, line: u64) -> Option<u16> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => {
                let tag = u16::try_from(self.entries.len()).ok()?;
                self.entries.push(Entry::default());
                tag
            }
        };
        let entry = &mut self.entries[tag as usize];
        (entry.purpose, entry.line, entry.cores) = (purpose, line, 0);
        entry.outdated = false;
        Some(tag)
    }

    /// Marks requests for the `lines` lines from `first` as outdated, because their page moves.
    pub(super) fn outdate(&mut self, first: u64, lines: u64) {
        for &(line, tag) in &self.active {
            let moves = (first..first + lines).contains(&line);
            self.entries[tag as usize].outdated |= moves;
        }
    }

    pub(super) fn give(&mut self, tag: u16) {
        self.entries[tag as usize].waiters.clear();
        self.free.push(tag);
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Runs the simulation kernel until `time`; returns its time, which may be later.
    pub(super) fn at_device(&mut self, time: Tick) -> Ns {
        let now = time.ns_up();
        if now > self.sim.now() {
            self.kernel.run_until(now);
        }
        self.sim.now()
    }

    /// Handles the pending events of the device.
    pub(super) fn listen(&mut self) {
        while let Some(event) = self.far.event() {
            match event {
                FarEvent::Data(Tag(tag), time, data) => {
                    let there = self.link.up(Tick::of(time), Response::MemData(Tag(tag)));
                    let entry = &mut self.requests.entries[tag as usize];
                    (entry.data, entry.answered) = (data, Tick::of(time));
                    self.later(there, Action::Arrive(tag));
                }
                FarEvent::Room => self.later(Tick::of(self.sim.now()), Action::Room),
                FarEvent::Hot(page, time) => {
                    let there = self.link.up(Tick::of(time), Response::Interrupt);
                    self.offered(page, there);
                }
            }
        }
        self.refresh_kernel();
    }

    /// Sends a read; returns the time of its arrival at the device, and the reply.
    pub(super) fn ask(&mut self, line: u64, tag: u16, leaves: Tick) -> (Tick, ReadReply) {
        self.ask_by(line, tag, leaves, F::read)
    }

    /// Like [`Self::ask`], with the method of the device for the kind of read.
    pub(super) fn ask_by(
        &mut self,
        line: u64,
        tag: u16,
        leaves: Tick,
        read: fn(&mut F, Ns, Line, Tag) -> ReadReply,
    ) -> (Tick, ReadReply) {
        let there = self.link.down(leaves, Request::MemRd(Tag(tag)));
        let now = self.at_device(there);
        let reply = read(&mut self.far, now, Line(split(line).1), Tag(tag));
        self.listen();
        (there, reply)
    }

    /// Joins a pending miss on the same line, if there is one.
    pub(super) fn join(&mut self, core: usize, line: u64, waiter: Waiter) -> Option<Access> {
        let active = self.requests.active.iter();
        let &(_, tag) = active.clone().find(|active| active.0 == line)?;
        let entry = &mut self.requests.entries[tag as usize];
        entry.waiters.push((core, waiter));
        if entry.cores & 1 << core == 0 {
            entry.cores |= 1 << core;
            self.caches.hold(core);
        }
        Some(Access::Waits)
    }

    /// Brings a line of the device.
    pub(super) fn bring_far(
        &mut self,
        core: usize,
        line: u64,
        own: bool,
        leaves: Tick,
        waiter: Waiter,
    ) -> Access {
        if let Some(access) = self.join(core, line, waiter) {
            return access;
        }
        if self.is_page_cached(line) {
            return self.bring_cached(core, line, own, leaves, waiter);
        }
        if let Some(held) = self.held_by_host(line) {
            let (done, data) = match held {
                Held::Copied(at) => self.host_read(core, at, leaves),
                Held::Posted(data) => (leaves + self.times.cycle, data),
            };
            self.host.add(done - leaves, Tick::ZERO);
            self.known(core, line, own, done, &data, leaves);
            return Access::Known(done, Cause::Host);
        }
        let delayed = &mut self.requests.delayed;
        delayed.retain(|hint| hint.1 > leaves);
        let hint = delayed.iter().find(|hint| hint.0 == line).copied();
        if let Some((_, known)) = hint
            && !self.is_patient(core, waiter)
        {
            return Access::Delayed(known);
        }
        if self.posted.len() >= self.config.posted {
            return Access::NoRoom;
        }
        self.read_device(core, line, own, leaves, waiter)
    }

    fn read_device(
        &mut self,
        core: usize,
        line: u64,
        own: bool,
        leaves: Tick,
        waiter: Waiter,
    ) -> Access {
        let Some(tag) = self.requests.take(Purpose::Line, line) else {
            return Access::Full(Tick::NEVER);
        };
        self.counts.far_reads += 1;
        let leaves = if self.cores[core].node == 0 {
            leaves
        } else {
            leaves + self.times.away
        };
        let read = match self.is_patient(core, waiter) {
            true => F::read_to_wait,
            false => F::read,
        };
        let (there, reply) = self.ask_by(line, tag, leaves, read);
        match reply {
            ReadReply::Data(time, data) => {
                self.requests.give(tag);
                let left = Tick::of(time);
                let done = self.link.up(left, Response::MemData(Tag(tag)));
                let inside = left.since(there);
                self.device.add(done.since(leaves).since(inside), inside);
                let data = data.unwrap_or([0; 64]);
                self.known(core, line, own, done, &data, leaves);
                Access::Known(done, Cause::Device)
            }
            ReadReply::Waits => {
                let entry = &mut self.requests.entries[tag as usize];
                (entry.own, entry.left, entry.arrived) = (own, leaves, there);
                entry.waiters.push((core, waiter));
                entry.cores = 1 << core;
                self.requests.active.push((line, tag));
                self.caches.hold(core);
                self.caches.last_misses().hold();
                Access::Waits
            }
            ReadReply::Delay(time) => {
                self.requests.give(tag);
                let hint = Response::NoData(Ndr::SkyByteDelay, Tag(tag));
                let known = self.link.up(Tick::of(time), hint);
                let inside = Tick::of(time).since(there);
                self.in_vain.add(known.since(leaves).since(inside), inside);
                self.caches.miss_until(core, known);
                self.requests.delayed.push((line, known));
                Access::Delayed(known)
            }
        }
    }

    /// Whether a read of the line is under way.
    pub(super) fn is_asked(&self, line: u64) -> bool {
        self.requests.active.iter().any(|active| active.0 == line)
    }

    /// Prefetches a line of the device.
    pub(super) fn read_ahead(&mut self, core: usize, line: u64, now: Tick) {
        let Some(tag) = self.requests.take(Purpose::Line, line) else {
            return;
        };
        self.counts.far_reads += 1;
        let (there, reply) = self.ask(line, tag, now);
        match reply {
            ReadReply::Data(time, data) => {
                self.requests.give(tag);
                let done = self.link.up(Tick::of(time), Response::MemData(Tag(tag)));
                self.caches.ahead_until(core, done);
                let data = data.unwrap_or([0; 64]);
                self.caches.fill(core, line, (false, true), done, &data);
                self.send_out(now);
            }
            ReadReply::Waits => {
                let entry = &mut self.requests.entries[tag as usize];
                (entry.own, entry.left, entry.arrived) = (false, now, there);
                entry.waiters.push((core, Waiter::Ahead));
                self.requests.active.push((line, tag));
                self.caches.last_misses().hold();
            }
            ReadReply::Delay(time) => {
                self.requests.give(tag);
                let hint = Response::NoData(Ndr::SkyByteDelay, Tag(tag));
                self.link.up(Tick::of(time), hint);
            }
        }
    }

    /// The data of a read that waited have come.
    pub(super) fn arrive(&mut self, now: Tick, tag: u16) {
        let entry = &mut self.requests.entries[tag as usize];
        let data = entry.data.take().unwrap_or([0; 64]);
        match entry.purpose {
            Purpose::Dead => {
                let inside = entry.answered.since(entry.arrived);
                let outside = now.since(entry.left).since(inside);
                self.in_vain.add(outside, inside);
            }
            Purpose::Copy(slot, index) => self.copy_came(now, slot, index, &data),
            Purpose::Line => self.arrive_line(now, tag, &data),
        }
        self.requests.give(tag);
        for core in 0..self.cores.len() {
            self.unstall(core, now);
        }
    }

    fn arrive_line(&mut self, now: Tick, tag: u16, data: &Block) {
        self.requests.active.retain(|active| active.1 != tag);
        let entry = &mut self.requests.entries[tag as usize];
        let (line, own, mut cores) = (entry.line, entry.own, entry.cores);
        let outdated = entry.outdated;
        let inside = entry.answered.since(entry.arrived);
        let outside = now.since(entry.left).since(inside);
        let waiters = std::mem::take(&mut entry.waiters);
        let first = waiters.first().copied();
        // Without waiters, the first requester has been squashed but kept its MSHR.
        let filled = first.map_or(cores.trailing_zeros() as usize, |waiter| waiter.0);
        self.caches.last_misses().release();
        while cores != 0 {
            self.caches.release(cores.trailing_zeros() as usize);
            cores &= cores - 1;
        }
        let stale = outdated
            || !self.pages.lies_at(line)
            || self.held_by_host(line).is_some()
            || self.caches.holds(line);
        if stale {
            self.counts.stale_answers += 1;
        } else {
            let asked = first.is_some_and(|waiter| waiter.1 != Waiter::Ahead);
            if asked {
                self.flash.add(outside, inside);
                self.caches.count_miss(own);
            }
            self.caches
                .fill(filled, line, (own && asked, !asked), now, data);
            self.send_out(now);
        }
        for &(core, waiter) in &waiters {
            let here = !stale && core == filled && first.is_some_and(|f| f.1 != Waiter::Ahead);
            self.answer(core, waiter, here.then_some(data), now);
        }
        self.requests.entries[tag as usize].waiters = waiters;
    }

    /// Gives a waiter its line, or lets it ask again.
    fn answer(&mut self, core: usize, waiter: Waiter, data: Option<&Block>, now: Tick) {
        let window = &mut self.cores[core].window;
        match waiter {
            Waiter::Own(_) | Waiter::Ahead => {}
            Waiter::Drain => {
                if let Some(oldest) = window.stores.front_mut() {
                    oldest.waits = false;
                }
                window.drain_from = now;
                self.next_drain(core);
                self.refresh(core);
            }
            Waiter::Load(number, part) => {
                let op = window.op_mut(number);
                op.waits -= 1;
                let Some(data) = data else {
                    // If its other line is not asked for either, it waits to ask already.
                    let waits = op.parts != 0;
                    op.parts |= 1 << part;
                    if !waits {
                        window.issues.push(now, number);
                        self.refresh(core);
                    }
                    return;
                };
                if now >= op.so_far {
                    (op.so_far, op.cause) = (now, Cause::Flash);
                }
                let (_, offset, start, length) = part_of(op.at, op.size, part);
                if W::KEPT {
                    self.take_value(core, number, start, Some(*data), offset, length);
                }
                self.complete(core, number, now);
            }
        }
    }

    /// Operations of `core` from `number` on wait for nothing any more. Whether that frees a
    /// register of the last cache.
    pub(super) fn squash_waiters(&mut self, core: usize, number: u64) -> bool {
        let mut freed = false;
        let frees = self.config.os.free_on_squash;
        let Requests {
            entries, active, ..
        } = &mut self.requests;
        let caches = &mut self.caches;
        active.retain(|&(_, tag)| {
            let entry = &mut entries[tag as usize];
            entry.waiters.retain(|&(who, waiter)| match waiter {
                Waiter::Load(op, _) | Waiter::Own(op) => who != core || op < number,
                Waiter::Drain | Waiter::Ahead => true,
            });
            let bit = 1 << core;
            let mine = entry.waiters.iter().any(|waiter| waiter.0 == core);
            if frees && !mine && entry.cores & bit != 0 {
                entry.cores &= !bit;
                caches.release(core);
            }
            if frees && entry.waiters.is_empty() {
                entry.purpose = Purpose::Dead;
                caches.last_misses().release();
                freed = true;
                return false;
            }
            true
        });
        freed
    }

    /// Writes lines that the caches have evicted to the device or the host's DRAM.
    pub(super) fn send_out(&mut self, now: Tick) {
        for index in 0..self.caches.out.len() {
            let out = self.caches.out[index];
            self.write_line(out.line, &out.data, now, 0);
        }
        self.caches.out.clear();
    }

    /// Writes a line back, which the flushes of these cores wait for, one bit each.
    //= skybyte 3.3
    pub(super) fn write_line(&mut self, line: u64, data: &Block, now: Tick, flushers: u64) {
        if !is_far(line) {
            self.host_write(line, data, now);
        } else if !self.redirect(line, data, now, true) {
            let post = Posted {
                line,
                data: *data,
                flushers,
                whole: false,
            };
            if self.posted.is_empty() && self.send(&post, now) {
                return;
            }
            self.counts.refused_writes += 1;
            self.posted.push(post);
            return;
        }
        self.acknowledge(flushers, now);
    }

    /// Sends a write; false if the device has no room.
    fn send(&mut self, post: &Posted, now: Tick) -> bool {
        let there = self.link.down(now, Request::MemWr(Tag(0)));
        let at = self.at_device(there);
        let data = W::KEPT.then_some(post.data);
        let taken = self.far.write(at, Line(split(post.line).1), data);
        self.listen();
        let Some(time) = taken else { return false };
        self.counts.far_writes += 1;
        let done = Response::NoData(Ndr::Cmp, Tag(0));
        let known = self.link.up(Tick::of(time), done);
        self.acknowledge(post.flushers, known);
        true
    }

    /// A flush of each of these cores, one bit each, is done at `time`.
    pub(super) fn acknowledge(&mut self, mut cores: u64, time: Tick) {
        while cores != 0 {
            let core = cores.trailing_zeros() as usize;
            cores &= cores - 1;
            let one = &mut self.cores[core];
            one.flushes -= 1;
            one.flushed = one.flushed.max(time);
            one.news = true;
            self.learn(core);
        }
    }

    /// Sends held writes, oldest first, while the device accepts them.
    pub(super) fn send_posted(&mut self, now: Tick) {
        while let Some(&post) = self.posted.front() {
            if self.redirect(post.line, &post.data, now, false) {
                self.acknowledge(post.flushers, now);
            } else if self.page_is_first() {
                if !self.send_page(now) {
                    break;
                }
                continue;
            } else if !self.send(&post, now) {
                break;
            }
            self.posted.pop();
        }
    }

    /// The device has room again.
    pub(super) fn room(&mut self, now: Tick) {
        self.send_posted(now);
        self.fetch_waiting(now);
        if self.posted.len() < self.config.posted {
            self.promote_next(now);
            for core in 0..self.cores.len() {
                self.unstall(core, now);
            }
        }
    }

    /// Writes the line of `at` back and keeps it. False if there is no room to.
    pub(super) fn flush(&mut self, core: usize, at: u64, now: Tick) -> bool {
        let line = self.pages.line_of(at);
        if is_far(line) && self.posted.len() >= self.config.posted {
            return false;
        }
        if let Some(data) = self.caches.clean(line) {
            self.cores[core].flushes += 1;
            self.write_line(line, &data, now, 1 << core);
        } else if let Some(post) = self.posted.last_of_mut(line)
            && post.flushers & 1 << core == 0
        {
            // It left the caches before, by itself or by another's flush, and the device has
            // not taken it yet.
            post.flushers |= 1 << core;
            self.cores[core].flushes += 1;
        }
        true
    }

    /// Sends a store that misses all caches as a write of its line, without fetching the line.
    pub(super) fn write_through(&mut self, core: usize, at: u64, line: u64, now: Tick) -> Access {
        if self.posted.len() >= self.config.posted {
            return Access::NoRoom;
        }
        if let Some(access) = self.join(core, line, Waiter::Drain) {
            return access;
        }
        self.pages.touch(at);
        self.caches.count_miss(true);
        self.caches.fill(core, line, (true, false), now, &[0; 64]);
        self.send_out(now);
        self.write_line(line, &[0; 64], now, 0);
        Access::Known(now + self.times.l1, Cause::Device)
    }

    /// The host's copy of a line of the device, if it is newer.
    pub(super) fn held_by_host(&self, line: u64) -> Option<Held> {
        if let Some(at) = self.newer_copy(line) {
            return Some(Held::Copied(at));
        }
        let found = self.posted.last_of(line)?;
        Some(Held::Posted(found.data))
    }
}

/// Place at which the host holds a line of the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    /// In its DRAM, on this line.
    Copied(u64),
    /// Among the writes that were refused.
    Posted(Block),
}
