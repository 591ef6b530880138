//! In-band authentication of hosts and of the drive: DH-HMAC-CHAP.
//!
//! Each queue of a host has a [`Gate`], which is shut until the host has proved that it has
//! its secret, and, if it asks for that, the drive that it has its own. Neither secret nor
//! anything that tells it goes over the line.
//!
//! Invariants: a gate opens by a response that was made with the secret of the host, to a
//! challenge that was made for this queue and is used once, and at no other time; whatever
//! else is said ends in a failure, which shuts the gate for good. Messages are taken whole or
//! refused, and nothing is allocated by a length that they name. A proof takes some milliseconds of
//! the thread of the drive, so there are only so many ([`turnstile`]), and who is served has the
//! rest.
//!
//! What is agreed on is not used for another channel: there is no TLS here.

mod group;
mod hash;
mod message;
mod secret;

pub use secret::{Secret, SecretError};

use engine::Turnstile;
use group::{Group, Own};
use hash::Hash;
use message::{Said, Why};
use std::time::{Duration, Instant};

/// Proofs that may come together: those of three hosts at all their queues, and some more.
const TOGETHER: u32 = 64;
/// After so long there may be one more: a tenth of the time of the drive's thread. One in the
/// largest group takes 13 ms.
const PERIOD: Duration = Duration::from_millis(128);

/// Counts proofs that are begun.
pub(crate) fn turnstile() -> Turnstile {
    Turnstile::new(TOGETHER, PERIOD, Instant::now())
}

/// Fills bytes with what nobody can guess; none if there is nothing.
type Chance<'a> = dyn FnMut(&mut [u8]) -> Option<()> + 'a;

/// What a host and the drive prove themselves with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// That of the host.
    pub host: Secret,
    /// That of the drive, for hosts that ask for it.
    pub drive: Option<Secret>,
}

/// Between whom.
struct Parties {
    secrets: Secrets,
    host: String,
    subsystem: String,
}

/// What was agreed on.
struct Terms {
    transaction: u16,
    hash: Hash,
    group: Group,
    own: Own,
    challenge: Vec<u8>,
    sequence: u32,
}

/// Whose turn it is.
enum Turn {
    /// The host has to begin.
    Negotiate,
    /// It has to read the challenge.
    Challenge(Terms),
    /// It has to answer that.
    Reply(Terms),
    /// It has to read that it has proved itself, and the response of the drive.
    Success(u16, Hash, Option<Vec<u8>>),
    /// It has to confirm that the drive has.
    Confirm(u16),
    /// It has to read why nothing comes of it.
    Failure(u16, Why),
}

/// What a message has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// More is to be said.
    Goes,
    /// The gate is open from now on.
    Opened,
    /// It stays shut: the host is hung up on.
    Shut,
}

/// The gate of a queue.
pub(crate) struct Gate {
    parties: Parties,
    turn: Turn,
    is_open: bool,
}

impl Gate {
    /// A shut one, for a host that wants to reach a subsystem.
    pub(crate) fn new(secrets: Secrets, host: String, subsystem: String) -> Self {
        Self {
            parties: Parties {
                secrets,
                host,
                subsystem,
            },
            turn: Turn::Negotiate,
            is_open: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether what a host sends now begins a proof.
    pub(crate) const fn begins(&self) -> bool {
        matches!(self.turn, Turn::Negotiate)
    }

    /// Takes what a host sends.
    //= nvme-2.1 6.2
    pub(crate) fn take(&mut self, data: &[u8]) -> Outcome {
        self.take_with(data, &mut |bytes| getrandom::fill(bytes).ok())
    }

    fn take_with(&mut self, data: &[u8], chance: &mut Chance<'_>) -> Outcome {
        let turn = std::mem::replace(&mut self.turn, Turn::Negotiate);
        let (transaction, hash) = match &turn {
            Turn::Reply(terms) => (terms.transaction, Some(terms.hash)),
            Turn::Confirm(transaction) => (*transaction, None),
            _ => (0, None),
        };
        let next = Said::parse(data, hash).and_then(|said| self.next(turn, said, chance));
        match next {
            Ok((turn, outcome)) => {
                self.turn = turn;
                self.is_open |= outcome == Outcome::Opened;
                outcome
            }
            Err(why) => {
                // The host reads that before it is hung up on.
                self.turn = Turn::Failure(transaction, why);
                self.is_open = false;
                Outcome::Goes
            }
        }
    }

    //= nvme-2.0 8.13.5
    fn next(
        &self,
        turn: Turn,
        said: Said,
        chance: &mut Chance<'_>,
    ) -> Result<(Turn, Outcome), Why> {
        match (turn, said) {
            (
                Turn::Negotiate,
                Said::Negotiate {
                    transaction,
                    hash,
                    group,
                },
            ) => {
                let terms = Terms::new(transaction, (hash, group), chance).ok_or(Why::Failed)?;
                Ok((Turn::Challenge(terms), Outcome::Goes))
            }
            (
                Turn::Reply(terms),
                Said::Reply {
                    transaction,
                    response,
                    challenge,
                    group_number,
                },
            ) if transaction == terms.transaction => {
                let key = terms.own.key(&group_number).ok_or(Why::Payload)?;
                if !self.parties.has_proved(&terms, &key, &response) {
                    return Err(Why::Failed);
                }
                let prove = |asked| self.parties.prove(&terms, &key, asked).ok_or(Why::Failed);
                let proof = challenge.map(prove).transpose()?;
                let turn = Turn::Success(transaction, terms.hash, proof);
                Ok((turn, Outcome::Goes))
            }
            (Turn::Confirm(expected), Said::Confirmed { transaction })
                if transaction == expected =>
            {
                Ok((Turn::Negotiate, Outcome::Opened))
            }
            (Turn::Confirm(_), Said::Refused) => Ok((Turn::Negotiate, Outcome::Shut)),
            (Turn::Reply(_) | Turn::Confirm(_), Said::Reply { .. } | Said::Confirmed { .. }) => {
                Err(Why::Payload)
            }
            _ => Err(Why::Message),
        }
    }

    /// Gives what the host is to read.
    //= nvme-2.1 6.1
    pub(crate) fn give(&mut self) -> (Vec<u8>, Outcome) {
        match std::mem::replace(&mut self.turn, Turn::Negotiate) {
            Turn::Challenge(terms) => match terms.told() {
                Some(told) => {
                    self.turn = Turn::Reply(terms);
                    (told, Outcome::Goes)
                }
                None => self.fail(0, Why::Failed),
            },
            Turn::Success(transaction, hash, Some(proof)) => {
                self.turn = Turn::Confirm(transaction);
                (
                    message::success(transaction, hash, Some(&proof)),
                    Outcome::Goes,
                )
            }
            Turn::Success(transaction, hash, None) => {
                self.is_open = true;
                (message::success(transaction, hash, None), Outcome::Opened)
            }
            Turn::Failure(transaction, why) => self.fail(transaction, why),
            // There is nothing to be read.
            Turn::Negotiate | Turn::Reply(_) | Turn::Confirm(_) => self.fail(0, Why::Message),
        }
    }

    fn fail(&mut self, transaction: u16, why: Why) -> (Vec<u8>, Outcome) {
        self.is_open = false;
        (message::failure(transaction, why), Outcome::Shut)
    }
}

impl Terms {
    fn new(
        transaction: u16,
        (hash, group): (Hash, Group),
        chance: &mut Chance<'_>,
    ) -> Option<Self> {
        let (mut challenge, mut sequence) = (vec![0; hash.bytes()], [0; 4]);
        chance(&mut challenge)?;
        chance(&mut sequence)?;
        Some(Self {
            transaction,
            hash,
            group,
            own: Own::new(group, chance)?,
            challenge,
            // Zero is for who challenges nobody.
            sequence: u32::from_le_bytes(sequence) | 1,
        })
    }

    /// The challenge, as the host reads it.
    fn told(&self) -> Option<Vec<u8>> {
        let number = self.own.told()?;
        let value = (&self.challenge[..], self.sequence);
        let terms = (self.hash, self.group);
        Some(message::challenge(self.transaction, terms, value, &number))
    }

    /// A challenge that the key of the group is part of, if there is one.
    //= nvme-2.0 8.13.5
    fn augmented(&self, key: &[u8], challenge: &[u8]) -> Vec<u8> {
        match key {
            [] => challenge.to_vec(),
            key => self.hash.keyed(&self.hash.of_bytes(key), &[challenge]),
        }
    }

    /// What a response to a challenge with this sequence number is made over: who answers
    /// in which role, and whom.
    //= nvme-2.0 8.13.5
    fn signed(
        &self,
        (challenge, sequence): (&[u8], u32),
        role: &str,
        by: &str,
        to: &str,
    ) -> Vec<u8> {
        let (sequence, transaction) = (sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let (role, by, to) = (role.as_bytes(), by.as_bytes(), to.as_bytes());
        [challenge, &sequence, &transaction, &[0], role, by, &[0], to].concat()
    }
}

impl Parties {
    /// Whether a response to the challenge was made with the secret of the host.
    //= nvme-2.0 8.13.5
    fn has_proved(&self, terms: &Terms, key: &[u8], response: &[u8]) -> bool {
        let challenge = terms.augmented(key, &terms.challenge);
        let answered = (&challenge[..], terms.sequence);
        let signed = terms.signed(answered, "HostHost", &self.host, &self.subsystem);
        let secret = self.secrets.host.key_of(&self.host);
        terms.hash.is_keyed(&secret, &[&signed], response)
    }

    /// The response of the drive to what a host has asked; none if it has no secret.
    //= nvme-2.0 8.13.5
    fn prove(
        &self,
        terms: &Terms,
        key: &[u8],
        (asked, sequence): (Vec<u8>, u32),
    ) -> Option<Vec<u8>> {
        let secret = self.secrets.drive.as_ref()?.key_of(&self.subsystem);
        let challenge = terms.augmented(key, &asked);
        let answered = (&challenge[..], sequence);
        let signed = terms.signed(answered, "Controller", &self.subsystem, &self.host);
        Some(terms.hash.keyed(&secret, &[&signed]))
    }
}
