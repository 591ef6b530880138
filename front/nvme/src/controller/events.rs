//! Asynchronous events: the host leaves requests open, and each event completes one.
//!
//! Invariants: at most [`REQUESTS`] requests are open; after an event, further events of its kind
//! are masked until the host reads its log page.

use crate::status::Status;
use crate::token::{Answer, Token};
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of open requests.
pub(super) const REQUESTS: usize = 4;

/// Asynchronous event that a controller reports to its host.
//= nvme-2.1 5.1.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A namespace's properties have changed.
    NamespaceChanged,
    /// The drive has become read-only.
    ReadOnly,
}

impl Event {
    /// Bit of the feature that enables the event.
    //= nvme-2.1 5.1.25.1.6
    const fn wanted_by(self) -> u32 {
        match self {
            Self::NamespaceChanged => 1 << 8,
            // Bit of the critical warning in the health page.
            Self::ReadOnly => 1 << 3,
        }
    }

    /// Dword 0 of the completion: type, information and log page.
    const fn result(self) -> u64 {
        match self {
            Self::NamespaceChanged => 0x2 | super::logs::CHANGED_NAMESPACES << 16,
            // SMART event: reliability is degraded.
            Self::ReadOnly => 0x1 | super::logs::HEALTH << 16,
        }
    }
}

/// Notices that Identify Controller announces.
pub(super) const NOTICES: u32 = Event::NamespaceChanged.wanted_by();
/// All events that can be enabled; health warnings need no announcement.
pub(super) const KNOWN: u32 = NOTICES | Event::ReadOnly.wanted_by();

/// Open requests and pending events; at most one of the two is not empty.
#[derive(Default)]
pub(crate) struct Events {
    waiting: VecDeque<Token>,
    pending: BTreeSet<Event>,
    /// Reported events whose log page has not been read.
    masked: BTreeSet<Event>,
    /// Namespaces changed since the host read the page.
    pub(super) changed: BTreeSet<u32>,
}

impl Events {
    /// Leaves a request open until the next event.
    pub(super) fn wait(&mut self, token: Token) {
        if self.waiting.len() >= REQUESTS {
            return token.complete(Err(Status::TooManyEventRequests));
        }
        self.waiting.push_back(token);
        self.tell();
    }

    /// Reports an event if `wanted`, the value of the feature, enables it.
    pub(super) fn happened(&mut self, event: Event, wanted: u32) {
        if wanted & event.wanted_by() != 0 && !self.masked.contains(&event) {
            self.pending.insert(event);
            self.tell();
        }
    }

    /// Unmasks an event after its log page was read.
    pub(super) fn looked(&mut self, event: Event) {
        self.masked.remove(&event);
    }

    /// Aborts the open request `cid`; returns whether there was one.
    pub(super) fn abort(&mut self, cid: u16) -> bool {
        let found = self.waiting.iter().position(|token| token.cid() == cid);
        let token = found.and_then(|at| self.waiting.remove(at));
        let aborted = token.is_some();
        if let Some(token) = token {
            token.complete(Err(Status::AbortRequested));
        }
        aborted
    }

    /// Aborts all open requests and drops all events.
    pub(super) fn reset(&mut self) {
        let Self { waiting, .. } = std::mem::take(self);
        for token in waiting {
            token.complete(Err(Status::AbortRequested));
        }
    }

    fn tell(&mut self) {
        while !self.waiting.is_empty()
            && let Some(event) = self.pending.pop_first()
            && let Some(token) = self.waiting.pop_front()
        {
            self.masked.insert(event);
            token.complete(Ok(Answer::result(event.result())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn ask(events: &mut Events, cid: u16) -> Receiver<(u16, u64, Option<Status>)> {
        let (tell, told) = channel();
        events.wait(Token::new(cid, move |done| {
            // The receiver may be gone at the end of the test.
            let _ = tell.send((done.cid, done.result, done.status));
        }));
        told
    }

    //= nvme-2.1 5.1.2
    #[test]
    fn an_event_takes_one_request_and_is_masked_until_its_page_is_read() {
        let (mut events, event) = (Events::default(), Event::NamespaceChanged);
        events.happened(event, 0);
        let first = ask(&mut events, 1);
        assert!(first.try_recv().is_err(), "nobody wanted it");
        events.happened(event, KNOWN);
        assert_eq!(first.try_recv(), Ok((1, 0x04_0002, None)));
        let second = ask(&mut events, 2);
        events.happened(event, KNOWN);
        assert!(second.try_recv().is_err(), "masked");
        events.looked(event);
        events.happened(event, KNOWN);
        assert_eq!(second.try_recv(), Ok((2, 0x04_0002, None)));
        events.looked(event);
        events.happened(event, KNOWN);
        assert_eq!(ask(&mut events, 3).try_recv(), Ok((3, 0x04_0002, None)));
    }

    #[test]
    fn requests_are_few_and_can_be_taken_back() {
        let mut events = Events::default();
        let told: Vec<_> = (0..5).map(|cid| ask(&mut events, cid)).collect();
        let last = told[4].try_recv().expect("answered at once");
        assert_eq!(last.2, Some(Status::TooManyEventRequests));
        assert!(events.abort(2) && !events.abort(2));
        let aborted = told[2].try_recv().expect("answered");
        assert_eq!(aborted.2, Some(Status::AbortRequested));
        events.reset();
        assert!(told[0].try_recv().is_ok());
    }
}
