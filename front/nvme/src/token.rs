//! Obligation to complete a command exactly once.
//!
//! Invariant: a [`Token`] completes once. A token that is dropped, because its work can never
//! finish, completes with an internal error.

use crate::status::Status;

/// Identifies a queue of a controller while a host is connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub(crate) u64);

/// Effect of a completion on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// The command does not change its connection.
    #[default]
    None,
    /// The connection has become a queue.
    Joined {
        /// Identifier of the queue.
        link: Link,
        /// Queue size: most commands in flight.
        entries: u16,
        /// Whether submission queue flow control is on.
        flow_control: bool,
        /// Whether this is the admin queue.
        admin: bool,
        /// Whether the host must authenticate before other commands.
        gated: bool,
    },
    /// The host has authenticated.
    Opened,
    /// The connection ends after this completion.
    Left,
    /// The drive has lost its power: the connection closes without this completion.
    Lost,
}

/// Result of a successful command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) result: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) effect: Effect,
    pub(crate) keep_alive_ms: Option<u32>,
}

impl Answer {
    /// Result with data for the host.
    pub(crate) fn data(data: Vec<u8>) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// Result with a number for the completion's first two dwords.
    pub(crate) fn result(result: u64) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }
}

/// Completion of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Command identifier, chosen by the host.
    pub cid: u16,
    /// Error status; none for success.
    pub status: Option<Status>,
    /// First two dwords of the completion.
    pub result: u64,
    /// Data for the host, empty unless the command returns some.
    pub data: Vec<u8>,
    /// Effect on the connection.
    pub effect: Effect,
    /// New keep-alive timeout in ms, if it changes.
    pub keep_alive_ms: Option<u32>,
}

/// Callback of a completion.
pub type Tell = Box<dyn FnOnce(Completion)>;

/// Completes one command. `Send` if its callback is.
pub struct Token<T: FnOnce(Completion) = Tell> {
    cid: u16,
    tell: Option<T>,
}

impl<T: FnOnce(Completion) + 'static> Token<T> {
    /// Token of command `cid`; `tell` is called once, on the thread of the simulation, and must not
    /// block.
    pub(crate) fn of(cid: u16, tell: T) -> Self {
        let tell = Some(tell);
        Self { cid, tell }
    }

    /// Converts to a token that stays on its thread.
    pub(crate) fn here(mut self) -> Token {
        let tell = self.tell.take().map(|tell| Box::new(tell) as Tell);
        Token {
            cid: self.cid,
            tell,
        }
    }
}

impl Token {
    /// Token of command `cid`; `tell` is called once and must not block.
    #[must_use]
    pub fn new(cid: u16, tell: impl FnOnce(Completion) + 'static) -> Self {
        Self::of(cid, Box::new(tell))
    }

    /// Command identifier (CID) chosen by the host.
    pub(crate) const fn cid(&self) -> u16 {
        self.cid
    }

    /// Completes the command with its result.
    pub(crate) fn complete(mut self, ended: Result<Answer, Status>) {
        self.pay(ended);
    }
}

impl<T: FnOnce(Completion)> Token<T> {
    fn pay(&mut self, ended: Result<Answer, Status>) {
        let Some(tell) = self.tell.take() else { return };
        let (status, answer) = match ended {
            Ok(answer) => (None, answer),
            Err(status) => {
                let effect = match status {
                    Status::PowerLost => Effect::Lost,
                    _ => Effect::None,
                };
                let result = Answer::result(status.result());
                (Some(status), Answer { effect, ..result })
            }
        };
        tell(Completion {
            cid: self.cid,
            status,
            result: answer.result,
            data: answer.data,
            effect: answer.effect,
            keep_alive_ms: answer.keep_alive_ms,
        });
    }
}

impl<T: FnOnce(Completion)> Drop for Token<T> {
    fn drop(&mut self) {
        self.pay(Err(Status::InternalError));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn command_is_answered_once_if_completed_or_dropped() {
        let (tell, told) = channel();
        let token = |cid| {
            let tell = tell.clone();
            Token::new(cid, move |done| tell.send(done).expect("heard"))
        };
        token(1).complete(Ok(Answer::result(7)));
        token(2).complete(Err(Status::InvalidField));
        drop(token(3));
        let heard: Vec<_> = told.try_iter().collect();
        let ends = heard.iter().map(|c| (c.cid, c.status, c.result));
        let expected = [
            (1, None, 7),
            (2, Some(Status::InvalidField), 0),
            (3, Some(Status::InternalError), 0),
        ];
        assert!(ends.eq(expected));
    }
}
