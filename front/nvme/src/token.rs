//! What a command owes its host: one completion.
//!
//! Invariant: a [`Token`] is completed once. One that is dropped instead, because what
//! was to be done can never be done, completes with an internal error.

use crate::status::Status;

/// Names one queue of one controller while a host is connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub(crate) u64);

/// What a completion means to the transport besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// The connection is a queue now.
    Joined {
        /// Its name.
        link: Link,
        /// Most commands that may be under way.
        entries: u16,
        /// Whether the host wants to know how far its entries were taken.
        flow_control: bool,
        /// Whether it is the one for admin commands.
        admin: bool,
        /// Whether the host has to prove itself before it gets anything.
        gated: bool,
    },
    /// The host has proved itself.
    Opened,
    /// The host leaves once it has read this.
    Left,
    /// The power is gone: the host is hung up on, and does not hear of this.
    Lost,
}

/// What a command ends with when it works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) result: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) effect: Effect,
    pub(crate) keep_alive_ms: Option<u32>,
}

impl Answer {
    /// With data for the host.
    pub(crate) fn data(data: Vec<u8>) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// With a number for the host.
    pub(crate) fn result(result: u64) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the host calls the command.
    pub cid: u16,
    /// None if it worked.
    pub status: Option<Status>,
    /// The first two dwords.
    pub result: u64,
    /// Data for the host.
    pub data: Vec<u8>,
    /// What it means to the transport.
    pub effect: Effect,
    /// How often the host has to say something from now on, if that changes.
    pub keep_alive_ms: Option<u32>,
}

/// Tells whoever waits.
pub type Tell = Box<dyn FnOnce(Completion)>;

/// The debt of one command. It goes to another thread if what it tells with may.
pub struct Token<T: FnOnce(Completion) = Tell> {
    cid: u16,
    tell: Option<T>,
}

impl<T: FnOnce(Completion) + 'static> Token<T> {
    /// For the command that its host calls `cid`; `tell` is called once, on the thread
    /// of the simulation, and must not wait.
    pub(crate) fn of(cid: u16, tell: T) -> Self {
        let tell = Some(tell);
        Self { cid, tell }
    }

    /// The same debt, which stays on its thread.
    pub(crate) fn here(mut self) -> Token {
        let tell = self.tell.take().map(|tell| Box::new(tell) as Tell);
        Token {
            cid: self.cid,
            tell,
        }
    }
}

impl Token {
    /// For the command that its host calls `cid`; `tell` is called once, and must not wait.
    #[must_use]
    pub fn new(cid: u16, tell: impl FnOnce(Completion) + 'static) -> Self {
        Self::of(cid, Box::new(tell))
    }

    /// What the host calls the command.
    pub(crate) const fn cid(&self) -> u16 {
        self.cid
    }

    /// Pays.
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
    fn a_command_is_answered_once_whatever_becomes_of_it() {
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
