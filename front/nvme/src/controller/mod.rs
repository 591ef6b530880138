//! A controller: one host's session with a subsystem.
//!
//! Invariants: each command completes once, by its token; a controller that is not enabled accepts
//! only Fabrics commands; a discovery controller has no namespaces.

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
/// CAP.TO: longest time in half-seconds to become ready or to reset. Enabling is immediate; a reset
/// waits for the commands in flight, which can take long on a busy drive.
//= nvme-2.1 3.1.4.1
pub(crate) const READY_TIMEOUT: u64 = 120;

/// Bytes that a host must accept in an authentication message: the longest message has a challenge
/// and a public value of the largest group.
const MESSAGE: usize = 16 + 64 + 512;

/// Keep-alive timeout in ms of a discovery controller whose host has set none: discovery
/// controllers always have one.
//= nvme-2.1 3.1.3.3
const DISCOVERY_IDLE_MS: u32 = 120_000;

/// CAP bit: several command sets are supported.
const SEVERAL_SETS: u64 = 1 << 43;

/// Capabilities of an I/O controller; `timeout` is CAP.TO in half-seconds.
//= nvme-2.1 3.1.4.1
pub(crate) const fn capabilities(timeout: u64) -> u64 {
    // Contiguous queues required; NVM command set, and several at once.
    (ENTRIES as u64 - 1) | 1 << 16 | timeout << 24 | 1 << 37 | SEVERAL_SETS
}

/// Type of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Io,
    Discovery,
}

/// Transport of a host's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// NVMe/TCP, at this local address.
    Address(SocketAddr),
    /// PCIe, as a drive of a virtual machine.
    Bus,
}

/// State of a controller.
//= nvme-2.1 3.1.4.6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Disabled,
    Ready,
    ShutDown,
}

/// A controller and its host.
pub(crate) struct Controller {
    pub(crate) id: u16,
    pub(crate) kind: Kind,
    pub(crate) host: String,
    pub(crate) host_id: [u8; 16],
    /// Transport of the host.
    pub(crate) way: Way,
    life: Cell<Life>,
    configuration: Cell<u32>,
    /// I/O and admin queues that the host is connected to.
    pub(crate) queues: RefCell<BTreeSet<u16>>,
    features: RefCell<Features>,
    /// Keep-alive timeout in ms; 0 for none.
    keep_alive_ms: Cell<u32>,
    events: RefCell<Events>,
    errors: RefCell<Errors>,
    running: Running,
}

/// Context in which a command executes.
pub(crate) struct Scope<B> {
    pub(crate) subsystem: Rc<Subsystem<B>>,
    pub(crate) controller: Rc<Controller>,
    pub(crate) queue: u16,
    /// Authentication of the queue; none if not required.
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

    /// Sets the keep-alive timeout in ms; 0 for none. Returns the timeout that applies.
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
                // A reset still waits for earlier commands.
                Life::Disabled => self.running.is_awaited().into(),
                Life::Ready => 1,
                // Shutdown processing complete.
                Life::ShutDown => 1 | 0b10 << 2,
            },
            Property::Reset => 0,
            Property::ReadyTimeouts => READY_TIMEOUT << 16 | READY_TIMEOUT,
        }
    }

    /// Writes CC. Returns whether the I/O queues are to be dropped.
    //= nvme-2.1 3.1.4.5
    fn configure(&self, value: u32) -> Result<bool, Status> {
        let (dword, was) = (Dword(value), self.life.get());
        let enabled = dword.is_set(0);
        if enabled && self.life.get() == Life::Disabled {
            let set = dword.bits(4, 6);
            // NVM command set, or all supported sets; pages of 4 KiB.
            if !matches!(set, 0 | 0b110) || dword.bits(7, 10) != 0 {
                return Err(Status::InvalidField);
            }
        }
        self.configuration.set(value);
        let life = match (enabled, dword.bits(14, 15)) {
            // Only a reset leaves the shutdown state.
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
    /// Executes the command and completes its token.
    pub(crate) async fn carry_out(self, entry: &Entry, data: Vec<u8>, room: usize, token: Token) {
        let kind = match self.queue {
            0 => QueueKind::Admin,
            _ => QueueKind::Io,
        };
        let command = command::parse(entry, kind);
        let running = &self.controller.running;
        // Held until the completion, as a reset waits for it.
        let _turn =
            matches!(command, Ok(Command::Io { .. } | Command::Admin(_))).then(|| running.begin());
        let ended = match command {
            Ok(Command::Fabrics(Fabrics::AuthenticationSend(len))) => self.hear(len, &data),
            Ok(Command::Fabrics(Fabrics::AuthenticationReceive(len))) => self.tell(len, room),
            _ if self.is_shut() => Err(Status::AuthenticationRequired),
            Ok(Command::Admin(Admin::AwaitEvent)) if self.controller.is_ready() => {
                // Completes with the next event.
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

    /// Whether the host still has to authenticate.
    fn is_shut(&self) -> bool {
        let gate = self.gate.as_ref();
        gate.is_some_and(|gate| !gate.borrow().is_open())
    }

    /// Processes an authentication message of the host.
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

    /// Returns the next authentication message for the host.
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
            // Connect is valid only once; the others are handled earlier.
            Fabrics::Connect(_)
            | Fabrics::AuthenticationSend(_)
            | Fabrics::AuthenticationReceive(_) => Err(Status::CommandSequence),
            Fabrics::Disconnect if self.queue == 0 => Err(Status::InvalidQueue),
            Fabrics::Disconnect => Ok(Answer {
                effect: Effect::Left,
                ..Answer::default()
            }),
            // Properties belong to the controller and are accessed through its admin queue.
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
            // A subsystem reset would also reset controllers of other hosts.
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
            // Handled earlier.
            Admin::AwaitEvent => Err(Status::CommandSequence),
        }
    }

    /// Aborts an open event request; other commands are in the drive and complete by themselves.
    //= nvme-2.1 5.1.1
    fn abort(&self, abort: Abort) -> Answer {
        let waiting = abort.queue == 0;
        let taken = waiting && self.controller.events.borrow_mut().abort(abort.cid);
        Answer::result(u64::from(!taken))
    }
}

/// Effect of an authentication step on the connection.
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
