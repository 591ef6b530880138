//! Protocol state of one connection, without I/O: bytes in, commands out; completions in, bytes
//! out.
//!
//! Invariants: while the connection is open, every received command is answered or in flight; at
//! most twice as many are in flight as the queue has entries, counted until their completions are
//! sent; buffered data (incomplete, waiting for the drive or for the host) are at most [`HELD_MAX`]
//! bytes and one more command, besides data in the capsules of those commands.

use super::input::{self, DATA_MAX, Fatal, Unit};
use super::pdu::{self, Format, Kind};
use crate::entry::{Direction, Entry, Sgl};
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::{Completion, Effect, Link};
use engine::Output;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::layout::Field;

/// Most bytes of buffered data: a queue of 32 commands of 128 KiB.
const HELD_MAX: usize = 4 << 20;

/// Most bytes of data before the Connect completes: those of the Connect itself.
//= nvme-2.1 6.3
const FIRST_DATA: usize = 1024;

/// Most bytes of data of a command before the host is authenticated: the maximum that Linux sends.
const GATE_DATA: usize = 4096;

/// Queue entries before the Connect sets their number.
const FIRST_ENTRIES: u16 = 1;

/// A command for the subsystem, with its data complete.
#[derive(Debug, PartialEq, Eq)]
pub struct Submission {
    /// Queue of the command; none for the Connect that creates the queue.
    pub link: Option<Link>,
    /// Submission queue entry of the command.
    pub entry: Entry,
    /// Data from the host.
    pub data: Vec<u8>,
    /// Bytes that the host can receive.
    pub room: usize,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the opening unit.
    New,
    /// Opened; waits for a Connect.
    Open,
    /// The Connect is in flight.
    Joining,
    Live(Link),
    /// Terminated: input is ignored and no command is answered; pending output is still sent.
    Over,
}

/// Incoming data of a command.
struct Transfer {
    entry: Entry,
    data: Vec<u8>,
    received: usize,
    /// Whether a data digest mismatched.
    damaged: bool,
}

/// A completed command that waits for its completion to be sent.
struct Leaving {
    /// Position in the output stream at which the completion is sent.
    at: u64,
    held: usize,
}

/// An error, and the header that caused it.
type Mistake = (Fatal, Vec<u8>);

/// Protocol state of one connection of a host.
pub struct Connection {
    phase: Phase,
    /// Beginning of an incomplete unit.
    kept: Vec<u8>,
    format: Format,
    entries: u16,
    /// Head of the submission queue; without flow control, the value of the next completion's head
    /// field.
    head: u16,
    flow_control: bool,
    is_admin: bool,
    /// Whether the host still has to authenticate.
    gated: bool,
    keep_alive_ms: u32,
    /// Number of commands that have no completion sent yet.
    under_way: usize,
    /// Identifiers of unanswered commands, and the bytes that each holds.
    names: BTreeMap<u16, usize>,
    transfers: BTreeMap<u16, Transfer>,
    /// Commands that wait for buffer space.
    deferred: VecDeque<Entry>,
    held: usize,
    output: Output,
    /// Bytes sent since the connection began.
    gone: u64,
    leaving: VecDeque<Leaving>,
    submissions: VecDeque<Submission>,
    /// Queue of the connection, until it is left.
    link: Option<Link>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            phase: Phase::New,
            kept: Vec::new(),
            format: Format::default(),
            entries: FIRST_ENTRIES,
            head: 0,
            flow_control: true,
            is_admin: false,
            gated: false,
            keep_alive_ms: 0,
            under_way: 0,
            names: BTreeMap::new(),
            transfers: BTreeMap::new(),
            deferred: VecDeque::new(),
            held: 0,
            output: Output::default(),
            gone: 0,
            leaving: VecDeque::new(),
            submissions: VecDeque::new(),
            link: None,
        }
    }
}

impl Connection {
    /// Whether the connection is terminated and ignores input.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the connection is a queue with an authenticated host (if authentication is
    /// required).
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_)) && !self.gated
    }

    /// Keep-alive timeout in ms; none if there is none.
    #[must_use]
    pub fn keep_alive_ms(&self) -> Option<u32> {
        let timed = self.is_admin && self.is_live() && self.keep_alive_ms > 0;
        timed.then_some(self.keep_alive_ms)
    }

    /// Processes bytes from the host.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        let (mut kept, mut left) = (std::mem::take(&mut self.kept), bytes);
        if let Err((fatal, head)) = self.take_all(&mut kept, &mut left) {
            self.end(fatal, &head);
        }
        if !self.is_over() {
            kept.extend_from_slice(left);
            self.kept = kept;
        }
    }

    /// Processes all complete units, first the one that `kept` begins, if any.
    fn take_all(&mut self, kept: &mut Vec<u8>, left: &mut &[u8]) -> Result<(), Mistake> {
        if !kept.is_empty() {
            match input::complete(kept, left, self.format) {
                Ok(false) => return Ok(()),
                Ok(true) => self.take_next(&mut &kept[..])?,
                Err(fatal) => {
                    kept.extend_from_slice(left);
                    return Err((fatal, input::head(kept).to_vec()));
                }
            };
            kept.clear();
        }
        while !self.is_over() && self.take_next(left)? {}
        Ok(())
    }

    /// Processes the first unit of `bytes`; returns false if it is incomplete.
    fn take_next(&mut self, bytes: &mut &[u8]) -> Result<bool, Mistake> {
        let head = input::head(bytes);
        match input::next(bytes, self.format) {
            Ok(None) => Ok(false),
            Ok(Some(unit)) => match self.take(&unit) {
                Ok(()) => Ok(true),
                Err(fatal) => Err((fatal, unit.header.to_vec())),
            },
            Err(fatal) => Err((fatal, head.to_vec())),
        }
    }

    /// Returns the next command to execute. Complete it with [`Connection::complete`] under its
    /// command identifier.
    pub fn submission(&mut self) -> Option<Submission> {
        self.submissions.pop_front()
    }

    /// Bytes of output that are not sent.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.output.bytes()
    }

    /// Whether no command is in flight and no output is unsent.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.under_way == 0 && self.unsent() == 0
    }

    /// Buffered bytes of data, completions and incomplete units.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let transfers = self.transfers.values().map(|transfer| transfer.data.len());
        let submissions = self.submissions.iter().map(|command| command.data.len());
        let data: usize = transfers.chain(submissions).sum();
        data + self.unsent() as usize + self.kept.len()
    }

    /// Lets `act` remove output. Sent bytes free buffer space, which starts deferred commands.
    pub fn write<R>(&mut self, act: impl FnOnce(&mut Output) -> R) -> R {
        let before = self.unsent();
        let result = act(&mut self.output);
        self.gone += before - self.unsent();
        while let Some(one) = self.leaving.pop_front_if(|one| one.at <= self.gone) {
            self.under_way -= 1;
            self.held -= one.held;
        }
        self.start_deferred();
        result
    }

    fn start_deferred(&mut self) {
        while let Some(entry) = self.deferred.front().copied()
            && self.has_room(transport_len(&entry))
        {
            self.deferred.pop_front();
            self.start(entry);
        }
    }

    /// Ends a broken connection; returns its queue.
    pub fn hang_up(&mut self) -> Option<Link> {
        self.ending();
        self.output = Output::default();
        self.left()
    }

    /// Returns the queue of a terminated connection, once.
    pub fn left(&mut self) -> Option<Link> {
        self.link.take_if(|_| self.phase == Phase::Over)
    }

    /// Ends the connection and drops its incomplete commands.
    fn ending(&mut self) {
        self.phase = Phase::Over;
        self.forget();
    }

    /// Drops incomplete transfers and commands that have not been submitted.
    fn forget(&mut self) {
        self.transfers.clear();
        self.deferred.clear();
        self.submissions.clear();
        self.kept = Vec::new();
    }

    /// Terminates the connection after a protocol error.
    //= nvme-tcp 6
    fn end(&mut self, fatal: Fatal, head: &[u8]) {
        if let Some((reason, detail)) = fatal.code() {
            let mut end = pdu::header(Kind::ControllerEnds);
            pdu::REASON.put(&mut end, reason);
            pdu::DETAIL.put(&mut end, detail);
            // The faulty header follows, without digest.
            let len = end.len() + head.len();
            pdu::LEN.put(&mut end, len as u32);
            end.extend_from_slice(head);
            self.output.push(end);
        }
        self.ending();
    }

    fn take(&mut self, unit: &Unit<'_>) -> Result<(), Fatal> {
        match (unit.kind, self.phase) {
            (Kind::HostEnds, _) => Err(Fatal::Ended),
            (Kind::OpenRequest, Phase::New) => self.open(unit.header),
            (Kind::Command, Phase::Open | Phase::Live(_)) => self.command(unit),
            (Kind::HostData, Phase::Open | Phase::Live(_)) => self.host_data(unit),
            _ => Err(Fatal::Sequence),
        }
    }

    //= nvme-tcp 2
    fn open(&mut self, header: &[u8]) -> Result<(), Fatal> {
        if pdu::VERSION.get(header) != 0 {
            return Err(Fatal::Parameter(8));
        }
        let (dwords, digests) = (pdu::ALIGNMENT.get(header), pdu::DIGESTS.get(header));
        if dwords > 31 {
            return Err(Fatal::Header(10));
        }
        if digests & !0b11 != 0 {
            return Err(Fatal::Header(11));
        }
        let mut response = pdu::header(Kind::OpenResponse);
        pdu::DIGESTS.put(&mut response, digests);
        pdu::MOST_DATA.put(&mut response, DATA_MAX as u32);
        self.output.push(response);
        self.format = Format {
            header_digest: digests & 1 != 0,
            data_digest: digests & 2 != 0,
            alignment: (usize::from(dwords) + 1) * 4,
        };
        self.phase = Phase::Open;
        Ok(())
    }

    //= nvme-tcp 3
    fn command(&mut self, unit: &Unit<'_>) -> Result<(), Fatal> {
        let entry = Entry::new(Field::<[u8; 64]>::at(pdu::COMMON).get(unit.header));
        self.under_way += 1;
        if self.under_way > 2 * usize::from(self.entries) {
            return Err(Fatal::Limit);
        }
        if self.names.contains_key(&entry.cid()) {
            // The bytes held by the first command of this identifier stay held.
            self.respond(entry.cid(), Some(Status::CommandIdConflict), 0, 0);
            return Ok(());
        }
        self.names.insert(entry.cid(), 0);
        let located = located(&entry, unit.data);
        let most = match (self.phase, self.gated) {
            (Phase::Live(_), false) => usize::MAX,
            (Phase::Live(_), true) => GATE_DATA,
            _ => FIRST_DATA,
        };
        let is_much = |located: &Located<'_>| located.bytes() > most;
        match located {
            Ok(located) if is_much(&located) => {
                self.refuse(&entry, Status::CommandSequence);
                self.ending();
            }
            Ok(_) if !unit.is_sound => self.refuse(&entry, Status::TransientTransport),
            Ok(Located::Here(data)) => self.submit(entry, data.to_vec(), 0),
            Ok(Located::There(len)) => {
                if self.deferred.is_empty() && self.has_room(len) {
                    self.start(entry);
                } else {
                    self.deferred.push_back(entry);
                }
            }
            Err(status) => self.refuse(&entry, status),
        }
        Ok(())
    }

    /// Whether `len` more bytes may be buffered; always true for a single command.
    fn has_room(&self, len: usize) -> bool {
        self.held == 0 || self.held + len <= HELD_MAX
    }

    /// Starts the data transfer of a command.
    fn start(&mut self, entry: Entry) {
        let len = transport_len(&entry);
        self.hold(entry.cid(), len);
        if entry.direction() == Direction::ToHost {
            return self.submit(entry, Vec::new(), len);
        }
        if len == 0 {
            return self.submit(entry, Vec::new(), 0);
        }
        //= nvme-tcp 4
        let used: BTreeSet<u16> = self.transfers.keys().copied().collect();
        let tag = (0..=u16::MAX).find(|tag| !used.contains(tag)).unwrap_or(0);
        let mut ready = pdu::header(Kind::Ready);
        pdu::CID.put(&mut ready, entry.cid());
        pdu::TAG.put(&mut ready, tag);
        pdu::DATA_LEN.put(&mut ready, len as u32);
        self.put(ready);
        let transfer = Transfer {
            entry,
            data: vec![0; len],
            received: 0,
            damaged: false,
        };
        self.transfers.insert(tag, transfer);
    }

    fn hold(&mut self, cid: u16, len: usize) {
        self.held += len;
        self.names.insert(cid, len);
    }

    //= nvme-tcp 4
    fn host_data(&mut self, unit: &Unit<'_>) -> Result<(), Fatal> {
        let (header, data) = (unit.header, unit.data);
        let tag = pdu::TAG.get(header);
        let transfer = self.transfers.get_mut(&tag).ok_or(Fatal::Header(10))?;
        if transfer.entry.cid() != pdu::CID.get(header) {
            return Err(Fatal::Header(8));
        }
        let begins = pdu::OFFSET.get(header) as usize == transfer.received;
        let end = transfer.received + data.len();
        if !begins || end > transfer.data.len() || data.is_empty() {
            return Err(Fatal::Range);
        }
        if pdu::DATA_LEN.get(header) as usize != data.len() {
            return Err(Fatal::Header(16));
        }
        transfer.data[transfer.received..end].copy_from_slice(data);
        transfer.received = end;
        transfer.damaged |= !unit.is_sound;
        let is_whole = end == transfer.data.len();
        if (pdu::FLAGS.get(header) & pdu::LAST != 0) != is_whole {
            return Err(Fatal::Header(1));
        }
        if is_whole && let Some(done) = self.transfers.remove(&tag) {
            if done.damaged {
                self.refuse(&done.entry, Status::TransientTransport);
            } else {
                self.submit(done.entry, done.data, 0);
            }
        }
        Ok(())
    }

    fn submit(&mut self, entry: Entry, data: Vec<u8>, room: usize) {
        let link = match self.phase {
            Phase::Live(link) => Some(link),
            _ => {
                self.phase = Phase::Joining;
                None
            }
        };
        self.submissions.push_back(Submission {
            link,
            entry,
            data,
            room,
        });
    }

    fn refuse(&mut self, entry: &Entry, status: Status) {
        let held = self.names.remove(&entry.cid()).unwrap_or(0);
        self.respond(entry.cid(), Some(status), 0, held);
    }

    /// Sends the completion of a command. If the connection has ended during a Connect, returns the
    /// queue that must be left.
    pub fn complete(&mut self, done: Completion) -> Option<Link> {
        if self.is_over() {
            return match done.effect {
                Effect::Joined { link, .. } => Some(link),
                _ => None,
            };
        }
        if done.effect == Effect::Lost {
            self.ending();
            return None;
        }
        let held = self.names.remove(&done.cid).unwrap_or(0);
        if let Some(ms) = done.keep_alive_ms {
            self.keep_alive_ms = ms;
        }
        if let Effect::Joined {
            link,
            entries,
            flow_control,
            admin,
            gated,
        } = done.effect
        {
            self.phase = Phase::Live(link);
            self.link = Some(link);
            (self.entries, self.flow_control) = (entries, flow_control);
            // A head of FFFFh tells the host that flow control is off.
            (self.is_admin, self.head) = (admin, if flow_control { 0 } else { u16::MAX });
            self.gated = gated;
        }
        if done.effect == Effect::Opened {
            self.gated = false;
        }
        if !done.data.is_empty() {
            self.controller_data(done.cid, done.data);
        }
        self.respond(done.cid, done.status, done.result, held);
        // A rejected Connect, or a Disconnect, terminates the connection.
        if self.phase == Phase::Joining || done.effect == Effect::Left {
            self.ending();
        }
        None
    }

    //= nvme-tcp 5
    fn controller_data(&mut self, cid: u16, data: Vec<u8>) {
        let mut head = pdu::header(Kind::ControllerData);
        pdu::FLAGS.put(&mut head, pdu::LAST);
        pdu::CID.put(&mut head, cid);
        pdu::DATA_LEN.put(&mut head, data.len() as u32);
        let (format, digest) = (self.format, self.format.digest(&data));
        self.output.put(|out| format.begin(out, head, data.len()));
        self.output.push(data);
        if let Some(digest) = digest {
            self.output.put(|out| out.extend(digest));
        }
    }

    /// Queues a unit without data.
    fn put(&mut self, head: Vec<u8>) {
        let format = self.format;
        self.output.put(|out| format.append(out, head, &[]));
    }

    /// Head field of the next completion.
    //= nvme-2.1 6.3
    fn next_head(&mut self) -> u16 {
        if !self.flow_control {
            return std::mem::take(&mut self.head);
        }
        self.head = (self.head + 1) % self.entries;
        self.head
    }

    //= nvme-2.1 4.2
    fn respond(&mut self, cid: u16, status: Option<Status>, result: u64, held: usize) {
        const RESULT: Field<u64> = Field::at(pdu::COMMON);
        const HEAD: Field<u16> = Field::at(pdu::COMMON + 8);
        const NAME: Field<u16> = Field::at(pdu::COMMON + 12);
        const STATUS: Field<u16> = Field::at(pdu::COMMON + 14);
        let mut response = pdu::header(Kind::Response);
        RESULT.put(&mut response, result);
        HEAD.put(&mut response, self.next_head());
        NAME.put(&mut response, cid);
        STATUS.put(&mut response, status.map_or(0, Status::field));
        self.put(response);
        let at = self.gone + self.unsent();
        self.leaving.push_back(Leaving { at, held });
    }
}

/// Location of a command's data.
enum Located<'a> {
    /// Inside the capsule, or empty.
    Here(&'a [u8]),
    /// Bytes for the transport to move.
    There(usize),
}

impl Located<'_> {
    const fn bytes(&self) -> usize {
        match self {
            Self::Here(data) => data.len(),
            Self::There(len) => *len,
        }
    }
}

/// Locates the data of a command; `inline` are the data in its capsule.
fn located<'a>(entry: &Entry, inline: &'a [u8]) -> Result<Located<'a>, Status> {
    if !entry.has_sgl() {
        return Err(Status::InvalidField);
    }
    match (entry.direction(), entry.sgl()) {
        (Direction::None, _) => Ok(Located::Here(&[])),
        (Direction::ToController, Sgl::InCapsule { offset, len }) => {
            let offset = usize::try_from(offset).map_err(|_| Status::SglOffsetInvalid)?;
            let end = offset.checked_add(len as usize);
            let data = end.and_then(|end| inline.get(offset..end));
            data.map(Located::Here).ok_or(Status::SglOffsetInvalid)
        }
        (_, Sgl::Transport { len }) if len as usize <= TRANSFER => Ok(Located::There(len as usize)),
        (_, Sgl::Transport { .. }) => Err(Status::InvalidField),
        _ => Err(Status::SglTypeInvalid),
    }
}

/// Bytes that the transport moves for a command; 0 if the data are elsewhere.
fn transport_len(entry: &Entry) -> usize {
    match entry.sgl() {
        Sgl::Transport { len } => len as usize,
        _ => 0,
    }
}
