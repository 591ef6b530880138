//! A controller: what one host has of a subsystem.
//!
//! Invariants: a command is answered once, by its token; before the controller is
//! enabled it answers nothing but commands of fabrics; a discovery controller knows no
//! namespace.

mod bytes;
mod discovery;
mod erase;
mod events;
mod features;
mod identify;
mod io;
mod logs;
mod placement;
mod running;
mod zones;

use crate::auth::{Gate, Outcome};
use crate::backend::Backend;
use crate::command::admin::{Abort, Admin};
use crate::command::fabrics::{Fabrics, Property};
use crate::command::{self, Command, QueueKind};
use crate::entry::{Dword, Entry};
use crate::status::Status;
use crate::subsystem::{ENTRIES, Subsystem};
use crate::token::{Answer, Effect, Token};
use events::Events;
use features::Features;
pub(crate) use identify::INLINE_BYTES;
use logs::Errors;
use running::Running;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

/// Revision 2.1 of the base specification.
//= nvme-2.1 3.1.4.2
pub(crate) const VERSION: u32 = 0x2_0100;
/// Half-seconds until a controller is ready or has been reset, at most: ready it is at once, and a
/// reset waits for what is under way, which on a busy drive takes a while.
//= nvme-2.1 3.1.4.1
pub(crate) const READY_TIMEOUT: u64 = 120;

/// Bytes that a host has to take of a message of authentication: the longest one has a
/// challenge and a number of the largest group.
const MESSAGE: usize = 16 + 64 + 512;

/// How long a host may say nothing to a controller for discovery if it has promised nothing: for
/// those there is a time in any case, in ms.
//= nvme-2.1 3.1.3.3
const DISCOVERY_IDLE_MS: u32 = 120_000;

/// The bit of the capabilities that says that there are several command sets.
const SEVERAL_SETS: u64 = 1 << 43;

/// What a controller with namespaces can do; it is ready after `timeout` half-seconds at
/// most.
//= nvme-2.1 3.1.4.1
pub(crate) const fn capabilities(timeout: u64) -> u64 {
    // Queues are contiguous; the command set of blocks, and several at once.
    (ENTRIES as u64 - 1) | 1 << 16 | timeout << 24 | 1 << 37 | SEVERAL_SETS
}

/// What a controller is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Io,
    Discovery,
}

/// How a host reaches a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At this address.
    Address(SocketAddr),
    /// As a drive of its own computer.
    Bus,
}

/// Where a controller is in its life.
//= nvme-2.1 3.1.4.6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Disabled,
    Ready,
    ShutDown,
}

/// What one host has of a subsystem.
pub(crate) struct Controller {
    pub(crate) id: u16,
    pub(crate) kind: Kind,
    pub(crate) host: String,
    pub(crate) host_id: [u8; 16],
    /// How the host has reached it.
    pub(crate) way: Way,
    life: Cell<Life>,
    configuration: Cell<u32>,
    /// Queues that the host is connected to.
    pub(crate) queues: RefCell<BTreeSet<u16>>,
    features: RefCell<Features>,
    /// How often the host has to say something, in ms; 0 if it need not.
    keep_alive_ms: Cell<u32>,
    events: RefCell<Events>,
    errors: RefCell<Errors>,
    running: Running,
}

/// What a command is carried out in.
pub(crate) struct Scope<B> {
    pub(crate) subsystem: Rc<Subsystem<B>>,
    pub(crate) controller: Rc<Controller>,
    pub(crate) queue: u16,
    /// Where the host has to prove itself.
    pub(crate) gate: Option<Rc<RefCell<Gate>>>,
}

impl Controller {
    pub(crate) fn new(id: u16, kind: Kind, host: String, host_id: [u8; 16], way: Way) -> Self {
        Self {
            id,
            kind,
            host,
            host_id,
            way,
            life: Cell::new(Life::Disabled),
            configuration: Cell::new(0),
            queues: RefCell::default(),
            features: RefCell::default(),
            keep_alive_ms: Cell::new(0),
            events: RefCell::default(),
            errors: RefCell::default(),
            running: Running::default(),
        }
    }

    /// Notes how often the host has promised to say something, in ms; 0 for not at all. Gives how
    /// long it may say nothing.
    pub(crate) fn promised(&self, keep_alive_ms: u32) -> u32 {
        self.keep_alive_ms.set(keep_alive_ms);
        match (self.kind, keep_alive_ms) {
            (Kind::Discovery, 0) => DISCOVERY_IDLE_MS,
            (_, ms) => ms,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.life.get() == Life::Ready
    }

    //= nvme-2.1 3.1.4
    fn property(&self, property: Property) -> u64 {
        match property {
            Property::Capabilities => match self.kind {
                Kind::Io => capabilities(READY_TIMEOUT),
                Kind::Discovery => capabilities(READY_TIMEOUT) & !SEVERAL_SETS,
            },
            Property::Version => VERSION.into(),
            Property::Configuration => self.configuration.get().into(),
            Property::State => match self.life.get() {
                // It is still at work for what came before.
                Life::Disabled => self.running.is_awaited().into(),
                Life::Ready => 1,
                // Processing of the shutdown is complete.
                Life::ShutDown => 1 | 0b10 << 2,
            },
            Property::Reset => 0,
            Property::ReadyTimeouts => READY_TIMEOUT << 16 | READY_TIMEOUT,
        }
    }

    /// Changes the configuration. Says whether the other queues go.
    //= nvme-2.1 3.1.4.5
    fn configure(&self, value: u32) -> Result<bool, Status> {
        let (dword, was) = (Dword(value), self.life.get());
        let enabled = dword.is_set(0);
        if enabled && self.life.get() == Life::Disabled {
            let set = dword.bits(4, 6);
            // Blocks only, or all sets that there are; pages of 4 KiB.
            if !matches!(set, 0 | 0b110) || dword.bits(7, 10) != 0 {
                return Err(Status::InvalidField);
            }
        }
        self.configuration.set(value);
        let life = match (enabled, dword.bits(14, 15)) {
            // Only a reset ends a shutdown.
            (true, 0) if was != Life::ShutDown => Life::Ready,
            (true, _) => Life::ShutDown,
            (false, _) => Life::Disabled,
        };
        self.life.set(life);
        if life == Life::Disabled {
            self.features.take();
            self.events.borrow_mut().reset();
        }
        Ok(was == Life::Ready && life != Life::Ready)
    }
}

impl<B: Backend> Scope<B> {
    /// Carries out the command and pays its token.
    pub(crate) async fn carry_out(self, entry: &Entry, data: Vec<u8>, room: usize, token: Token) {
        let kind = match self.queue {
            0 => QueueKind::Admin,
            _ => QueueKind::Io,
        };
        let command = command::parse(entry, kind);
        let running = &self.controller.running;
        // Until it is answered: a reset is answered behind it.
        let _turn =
            matches!(command, Ok(Command::Io { .. } | Command::Admin(_))).then(|| running.begin());
        let ended = match command {
            Ok(Command::Fabrics(Fabrics::AuthenticationSend(len))) => self.hear(len, &data),
            Ok(Command::Fabrics(Fabrics::AuthenticationReceive(len))) => self.tell(len, room),
            _ if self.is_shut() => Err(Status::AuthenticationRequired),
            Ok(Command::Admin(Admin::AwaitEvent)) if self.controller.is_ready() => {
                // It is answered when there is an event.
                return self.controller.events.borrow_mut().wait(token);
            }
            Ok(command) => {
                let resets = command.is_reset();
                match self.dispatch(command, data, room).await {
                    Ok(_) if resets => return running.when_none(token),
                    ended => ended,
                }
            }
            Err(status) => Err(status),
        };
        if let Err(status) = ended {
            let mut errors = self.controller.errors.borrow_mut();
            errors.note(self.controller.way, self.queue, entry, status);
            drop(errors);
            if status == Status::WriteProtected {
                self.tell_read_only();
            }
        }
        token.complete(ended);
    }

    /// Whether the host has yet to prove itself.
    fn is_shut(&self) -> bool {
        let gate = self.gate.as_ref();
        gate.is_some_and(|gate| !gate.borrow().is_open())
    }

    /// Hears what the host says to prove itself.
    //= nvme-2.1 6.2
    fn hear(&self, len: u32, data: &[u8]) -> Result<Answer, Status> {
        let gate = self.gate.as_ref().ok_or(Status::CommandSequence)?;
        if len as usize != data.len() {
            return Err(Status::DataLengthInvalid);
        }
        if gate.borrow().begins() && !self.subsystem.proofs.admits(Instant::now()) {
            return Err(Status::Interrupted);
        }
        let outcome = gate.borrow_mut().take(data);
        Ok(Answer {
            effect: effect(outcome),
            ..Answer::default()
        })
    }

    /// Tells the host what it needs to prove itself, or that it has.
    //= nvme-2.1 6.1
    fn tell(&self, len: u32, room: usize) -> Result<Answer, Status> {
        let gate = self.gate.as_ref().ok_or(Status::CommandSequence)?;
        if room < MESSAGE || room < len as usize || (len as usize) < MESSAGE {
            return Err(Status::DataLengthInvalid);
        }
        let (data, outcome) = gate.borrow_mut().give();
        Ok(Answer {
            data,
            effect: effect(outcome),
            ..Answer::default()
        })
    }

    async fn dispatch(
        &self,
        command: Command,
        data: Vec<u8>,
        room: usize,
    ) -> Result<Answer, Status> {
        if let Command::Fabrics(fabrics) = &command {
            return self.fabrics(fabrics).await;
        }
        if !self.controller.is_ready() {
            return Err(Status::CommandSequence);
        }
        let answer = match command {
            Command::Io { nsid, io } => self.io(nsid, io, &data, room).await?,
            Command::Admin(admin) if self.controller.kind == Kind::Discovery => {
                self.discover(&admin)?
            }
            Command::Admin(admin) => Box::pin(self.admin(admin, &data)).await?,
            Command::Fabrics(_) => return Err(Status::InvalidOpcode),
        };
        let fits = answer.data.len() <= room;
        fits.then_some(answer).ok_or(Status::DataLengthInvalid)
    }

    async fn fabrics(&self, fabrics: &Fabrics) -> Result<Answer, Status> {
        match *fabrics {
            // Once is enough, and the others are answered before they come here.
            Fabrics::Connect(_)
            | Fabrics::AuthenticationSend(_)
            | Fabrics::AuthenticationReceive(_) => Err(Status::CommandSequence),
            Fabrics::Disconnect if self.queue == 0 => Err(Status::InvalidQueue),
            Fabrics::Disconnect => Ok(Answer {
                effect: Effect::Left,
                ..Answer::default()
            }),
            // Properties are those of the controller, and go by its admin queue.
            //= nvme-2.1 6.5
            _ if self.queue != 0 => Err(Status::InvalidField),
            Fabrics::PropertyGet(property) => {
                Ok(Answer::result(self.controller.property(property)))
            }
            Fabrics::PropertySet(Property::Configuration, value) => {
                let queues_go = self.controller.configure(value as u32)?;
                if queues_go {
                    self.subsystem.hang_up(self.controller.id);
                }
                if self.controller.life.get() == Life::ShutDown {
                    self.flush_all().await?;
                }
                Ok(Answer::default())
            }
            // Another host's controllers would be reset too.
            Fabrics::PropertySet(..) => Err(Status::InvalidField),
        }
    }

    async fn admin(&self, admin: Admin, data: &[u8]) -> Result<Answer, Status> {
        match admin {
            Admin::Identify(identify) => self.identify(identify),
            Admin::GetLog(log) => self.log(log),
            Admin::Abort(abort) => Ok(self.abort(abort)),
            Admin::SetFeature(set) => self.set_feature(set, data),
            Admin::GetFeature(get) => self.get_feature(get),
            Admin::KeepAlive => Ok(Answer::default()),
            Admin::Format(format) => self.format(format).await,
            Admin::Sanitize(action) => self.sanitize(action).await,
            Admin::DirectiveReceive(directive) => self.directive_receive(directive),
            Admin::DirectiveSend(directive) => self.directive_send(directive),
            // Answered before it comes here.
            Admin::AwaitEvent => Err(Status::CommandSequence),
        }
    }

    /// Takes a command back that waits for an event; others are on their way through
    /// the drive, and come back by themselves.
    //= nvme-2.1 5.1.1
    fn abort(&self, abort: Abort) -> Answer {
        let waiting = abort.queue == 0;
        let taken = waiting && self.controller.events.borrow_mut().abort(abort.cid);
        Answer::result(u64::from(!taken))
    }
}

/// What becomes of the connection.
const fn effect(outcome: Outcome) -> Effect {
    match outcome {
        Outcome::Goes => Effect::None,
        Outcome::Opened => Effect::Opened,
        Outcome::Shut => Effect::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller() -> Controller {
        let portal = "127.0.0.1:4420".parse().expect("an address");
        let way = Way::Address(portal);
        Controller::new(1, Kind::Io, "host".to_owned(), [0; 16], way)
    }

    //= nvme-2.1 3.1.4.5
    #[test]
    fn a_controller_is_ready_when_it_is_enabled_and_shuts_down_when_it_is_told() {
        let controller = controller();
        let state = || controller.property(Property::State);
        assert_eq!(state(), 0);
        assert_eq!(controller.configure(0x46_0061), Ok(false));
        assert_eq!((state(), controller.is_ready()), (1, true));
        assert_eq!(controller.configure(0x46_4061), Ok(true));
        assert_eq!((state(), controller.is_ready()), (0b1001, false));
        assert_eq!(controller.configure(0x46_0061), Ok(false));
        assert_eq!((state(), controller.is_ready()), (0b1001, false));
        assert_eq!(controller.configure(0), Ok(false));
        assert_eq!(state(), 0);
        assert_eq!(controller.configure(0x46_0061), Ok(false));
        assert_eq!((state(), controller.is_ready()), (1, true));
    }

    #[test]
    fn pages_and_command_sets_that_are_not_there_are_refused() {
        for wrong in [0x46_0081, 0x46_0011, 0x46_0071] {
            assert_eq!(controller().configure(wrong), Err(Status::InvalidField));
        }
    }
}
