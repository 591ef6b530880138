//! In-band authentication of hosts and of the drive: DH-HMAC-CHAP.
//!
//! Each queue of a host has a [`Gate`], which opens once the host has proved that it knows its
//! secret and, if the host requests it, the drive has proved that it knows its own. No message
//! reveals a secret.
//!
//! Invariants: a gate opens only by a response made with the host's secret to a challenge that was
//! created for this queue and is used once; any other message fails and closes the gate for good.
//! Messages are parsed whole or rejected, and no length they name is allocated. A proof takes some
//! milliseconds of the drive's thread, so their rate is limited ([`turnstile`]) and the rest of the
//! time is left to authenticated hosts.
//!
//! The agreed key is not used for a secure channel: there is no TLS here.

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

/// Burst of proofs: enough for three hosts with all their queues, and some more.
const TOGETHER: u32 = 64;
/// Time per further proof: at 13 ms for a proof in the largest group, a tenth of the thread's time.
const PERIOD: Duration = Duration::from_millis(128);

/// Limits the rate of proofs.
pub(crate) fn turnstile() -> Turnstile {
    Turnstile::new(TOGETHER, PERIOD, Instant::now())
}

/// Fills a buffer with unpredictable bytes; none if the source fails.
type Chance<'a> = dyn FnMut(&mut [u8]) -> Option<()> + 'a;

/// Secrets of a host and of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// Secret of the host.
    pub host: Secret,
    /// Secret of the drive, for hosts that authenticate the drive; none if it has no secret.
    pub drive: Option<Secret>,
}

/// Names and secrets of both sides.
struct Parties {
    secrets: Secrets,
    host: String,
    subsystem: String,
}

/// Parameters of a started authentication.
struct Terms {
    transaction: u16,
    hash: Hash,
    group: Group,
    own: Own,
    challenge: Vec<u8>,
    sequence: u32,
}

/// State of the exchange: the message expected next.
enum Turn {
    /// The host sends Negotiate.
    Negotiate,
    /// The host receives the Challenge.
    Challenge(Terms),
    /// The host sends its Reply.
    Reply(Terms),
    /// The host receives Success1 with the response of the drive, if any.
    Success(u16, Hash, Option<Vec<u8>>),
    /// The host sends Success2.
    Confirm(u16),
    /// The host receives the Failure.
    Failure(u16, Why),
}

/// Result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The exchange continues with the next message.
    Goes,
    /// The gate is open.
    Opened,
    /// The authentication has failed: the connection is closed.
    Shut,
}

/// Authentication state of a queue.
pub(crate) struct Gate {
    parties: Parties,
    turn: Turn,
    is_open: bool,
}

impl Gate {
    /// A closed gate for a host that connects to a subsystem.
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

    /// Whether the next message of the host starts an authentication.
    pub(crate) const fn begins(&self) -> bool {
        matches!(self.turn, Turn::Negotiate)
    }

    /// Processes a message of the host.
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
                // The host receives the Failure before the connection is closed.
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

    /// Returns the next message for the host.
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
            // No message is pending for the host.
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
            // A sequence number of 0 means that no challenge is sent.
            sequence: u32::from_le_bytes(sequence) | 1,
        })
    }

    /// Encodes the Challenge message.
    fn told(&self) -> Option<Vec<u8>> {
        let number = self.own.told()?;
        let value = (&self.challenge[..], self.sequence);
        let terms = (self.hash, self.group);
        Some(message::challenge(self.transaction, terms, value, &number))
    }

    /// Augments a challenge with the key of the group, if there is one.
    //= nvme-2.0 8.13.5
    fn augmented(&self, key: &[u8], challenge: &[u8]) -> Vec<u8> {
        match key {
            [] => challenge.to_vec(),
            key => self.hash.keyed(&self.hash.of_bytes(key), &[challenge]),
        }
    }

    /// Bytes that a response covers: challenge, sequence number, role and names of both sides.
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
    /// Whether `response` was made with the secret of the host.
    //= nvme-2.0 8.13.5
    fn has_proved(&self, terms: &Terms, key: &[u8], response: &[u8]) -> bool {
        let challenge = terms.augmented(key, &terms.challenge);
        let answered = (&challenge[..], terms.sequence);
        let signed = terms.signed(answered, "HostHost", &self.host, &self.subsystem);
        let secret = self.secrets.host.key_of(&self.host);
        terms.hash.is_keyed(&secret, &[&signed], response)
    }

    /// Response of the drive to the challenge of a host; none if the drive has no secret.
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
