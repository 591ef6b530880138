//! A subsystem: namespaces, controllers and their queues, shared by all transports.
//!
//! Invariants: a host that is not allowed gets a rejected Connect and nothing else; a controller
//! lives as long as its admin queue, and its I/O queues are dropped with it.

use crate::auth::{self, Gate, Secrets};
use crate::backend::Backend;
use crate::command::fabrics::{Connect, ConnectData};
use crate::command::{self, Command, Fabrics, QueueKind};
use crate::controller::{Controller, Kind, Scope, Way};
use crate::entry::Entry;
use crate::namespace::{Namespace, Watch};
use crate::status::Status;
use crate::token::{Answer, Effect, Link, Token};
use engine::{Service, Turnstile};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;

/// Qualified name of every discovery subsystem.
//= nvme-2.1 4.7
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Maximum number of controllers: bounds the memory that hosts can use.
const CONTROLLERS: usize = 64;
/// Maximum number of discovery controllers, which leaves room for others.
const DISCOVERIES: usize = 16;
/// Maximum number of I/O queues of a controller.
pub(crate) const QUEUES: u16 = 16;
/// Bit of a Connect's result: authentication is required.
//= nvme-2.1 6.3
const PROVE_YOURSELF: u32 = 17;
/// Maximum queue size in entries: the default of Linux.
pub(crate) const ENTRIES: u16 = 128;
/// Largest transfer of a command in bytes: 2^`TRANSFER_POWER` pages of 4 KiB.
pub const TRANSFER: usize = 4096 << TRANSFER_POWER;
/// [`TRANSFER`] as a power of two of 4 KiB pages (MDTS).
pub(crate) const TRANSFER_POWER: u8 = 8;

/// Access control of a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allowed {
    /// Every host may connect.
    #[default]
    Anyone,
    /// Hosts with these names.
    Only(BTreeSet<String>),
    /// Hosts with these names, after authentication with their secrets.
    Proved(BTreeMap<String, Secrets>),
}

impl Allowed {
    fn has(&self, host: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(names) => names.contains(host),
            Self::Proved(names) => names.contains_key(host),
        }
    }

    /// Secrets for `host`; none if it need not authenticate.
    fn secrets(&self, host: &str) -> Option<&Secrets> {
        match self {
            Self::Anyone | Self::Only(_) => None,
            Self::Proved(names) => names.get(host),
        }
    }
}

/// Identity and access control of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Qualified name of the subsystem (NQN).
    pub nqn: String,
    /// Serial number, at most 20 characters.
    pub serial: String,
    /// Model, at most 40 characters.
    pub model: String,
    /// Hosts that may connect.
    pub allowed: Allowed,
}

/// A connection that wants to become a queue.
pub struct Visitor {
    /// Local address of the connection.
    pub portal: SocketAddr,
    /// Closes the connection of the queue.
    pub hang_up: HangUp,
}

/// Callback that closes a connection.
pub(crate) type HangUp = Box<dyn FnOnce()>;

/// A connected queue of a controller.
struct Seat {
    controller: Rc<Controller>,
    queue: u16,
    hang_up: Option<HangUp>,
    /// Authentication state; none if not required.
    gate: Option<Rc<RefCell<Gate>>>,
}

impl Drop for Seat {
    /// Closes the connection: no command of the queue is answered any more.
    fn drop(&mut self) {
        if let Some(hang_up) = self.hang_up.take() {
            hang_up();
        }
    }
}

/// Namespaces, and the controllers of connected hosts.
pub struct Subsystem<B> {
    pub(crate) identity: Identity,
    /// Namespaces; index 0 is namespace 1.
    pub(crate) namespaces: Vec<Namespace<B>>,
    controllers: RefCell<BTreeMap<u16, Rc<Controller>>>,
    seats: RefCell<BTreeMap<Link, Seat>>,
    next_link: Cell<u64>,
    next_controller: Cell<u16>,
    /// Limits the rate of authentications.
    pub(crate) proofs: Turnstile,
    /// Whether a sanitize has completed.
    pub(crate) sanitized: Cell<bool>,
}

impl<B: Backend> Subsystem<B> {
    /// A subsystem of these namespaces, numbered from 1 on.
    #[must_use]
    pub fn new(identity: Identity, namespaces: Vec<Namespace<B>>) -> Self {
        Self {
            identity,
            namespaces,
            controllers: RefCell::default(),
            seats: RefCell::default(),
            next_link: Cell::new(1),
            next_controller: Cell::new(1),
            proofs: auth::turnstile(),
            sanitized: Cell::new(false),
        }
    }

    /// Namespaces, in the order of their numbers from 1 on.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace<B>] {
        &self.namespaces
    }

    /// Number of connected queues.
    #[must_use]
    pub fn links(&self) -> usize {
        self.seats.borrow().len()
    }

    /// Executes the first command of a connection, which must be a Connect.
    pub fn join(&self, entry: &Entry, data: &[u8], visitor: Visitor, token: Token) {
        let joined = match command::parse(entry, QueueKind::Admin) {
            Ok(Command::Fabrics(Fabrics::Connect(connect))) => self.connect(connect, data, visitor),
            Ok(_) => Err(Status::CommandSequence),
            Err(status) => Err(status),
        };
        token.complete(joined);
    }

    //= nvme-2.1 6.3
    fn connect(&self, connect: Connect, data: &[u8], visitor: Visitor) -> Result<Answer, Status> {
        let data = ConnectData::parse(data)?;
        if !self.identity.allowed.has(&data.host) {
            return Err(Status::ConnectInvalidHost);
        }
        if connect.last_entry >= ENTRIES {
            return Err(Status::ConnectInvalid {
                data: false,
                at: 44,
            });
        }
        let gate = self.identity.allowed.secrets(&data.host).map(|secrets| {
            let gate = Gate::new(secrets.clone(), data.host.clone(), data.subsystem.clone());
            Rc::new(RefCell::new(gate))
        });
        let gated = gate.is_some();
        let controller = if connect.queue == 0 {
            self.admit(data, visitor.portal)?
        } else {
            self.find(connect.queue, &data)?
        };
        let id = controller.id;
        let is_admin = connect.queue == 0;
        let keep_alive_ms = is_admin.then(|| controller.promised(connect.keep_alive_ms));
        let link = self.seat(controller, connect.queue, Some(visitor.hang_up), gate);
        Ok(Answer {
            result: u64::from(id) | u64::from(gated) << PROVE_YOURSELF,
            effect: Effect::Joined {
                link,
                entries: connect.last_entry + 1,
                flow_control: !connect.no_flow_control,
                admin: is_admin,
                gated,
            },
            keep_alive_ms,
            ..Answer::default()
        })
    }

    /// Registers a queue of a controller and returns its link.
    fn seat(
        &self,
        controller: Rc<Controller>,
        queue: u16,
        hang_up: Option<HangUp>,
        gate: Option<Rc<RefCell<Gate>>>,
    ) -> Link {
        let link = Link(self.next_link.get());
        self.next_link.set(link.0 + 1);
        controller.queues.borrow_mut().insert(queue);
        let seat = Seat {
            controller,
            queue,
            hang_up,
            gate,
        };
        self.seats.borrow_mut().insert(link, seat);
        link
    }

    /// Adds a controller for a PCIe drive; `hang_up` removes the drive. Returns its admin queue and
    /// the LBA formats of the namespaces. Access control is left to the monitor that plugs the
    /// drive in: PCIe has no host names.
    pub(crate) fn plug(&self, hang_up: HangUp) -> Result<(Link, Vec<Watch>), Status> {
        let new = |id| Controller::new(id, Kind::Io, String::new(), [0; 16], Way::Bus);
        let controller = self.add(new)?;
        let formats = self.namespaces.iter().map(Namespace::watch_format);
        let link = self.seat(controller, 0, Some(hang_up), None);
        Ok((link, formats.collect()))
    }

    /// Adds a queue to the controller of the admin queue `admin`. The transport ensures that each
    /// number is used once.
    pub(crate) fn add_queue(&self, admin: Link, queue: u16) -> Result<Link, Status> {
        let controller = {
            let seats = self.seats.borrow();
            let seat = seats.get(&admin).ok_or(Status::CommandSequence)?;
            Rc::clone(&seat.controller)
        };
        Ok(self.seat(controller, queue, None, None))
    }

    /// Creates a controller for a host.
    fn admit(&self, data: ConnectData, portal: SocketAddr) -> Result<Rc<Controller>, Status> {
        let kind = match data.subsystem.as_str() {
            DISCOVERY_NQN => Kind::Discovery,
            nqn if nqn == self.identity.nqn => Kind::Io,
            _ => return Err(ConnectData::NO_SUBSYSTEM),
        };
        // Only dynamic controllers: the host cannot choose one.
        if data.controller != u16::MAX {
            return Err(ConnectData::NO_CONTROLLER);
        }
        let discoveries = self.controllers();
        let discoveries = discoveries.iter().filter(|one| one.kind == Kind::Discovery);
        if kind == Kind::Discovery && discoveries.count() >= DISCOVERIES {
            return Err(Status::ConnectBusy);
        }
        let (host, host_id, way) = (data.host, data.host_id, Way::Address(portal));
        self.add(|id| Controller::new(id, kind, host, host_id, way))
    }

    /// Creates a controller with an unused identifier.
    fn add(&self, new: impl FnOnce(u16) -> Controller) -> Result<Rc<Controller>, Status> {
        if self.controllers.borrow().len() >= CONTROLLERS && !self.dismiss_stranger() {
            return Err(Status::ConnectBusy);
        }
        let mut controllers = self.controllers.borrow_mut();
        let mut id = self.next_controller.get();
        // Identifiers from FFF0h on are reserved.
        while controllers.contains_key(&id) || !(1..0xfff0).contains(&id) {
            id = id.wrapping_add(1);
        }
        self.next_controller.set(id.wrapping_add(1));
        let controller = Rc::new(new(id));
        controllers.insert(id, Rc::clone(&controller));
        Ok(controller)
    }

    /// Drops the first host that has not authenticated; returns false if there is none.
    fn dismiss_stranger(&self) -> bool {
        let is_stranger = |seat: &Seat| {
            let gate = seat.gate.as_ref();
            seat.queue == 0 && gate.is_some_and(|gate| !gate.borrow().is_open())
        };
        let found = {
            let seats = self.seats.borrow();
            let mut all = seats.iter();
            all.find(|(_, seat)| is_stranger(seat))
                .map(|(&link, _)| link)
        };
        found.map(|link| self.leave(link)).is_some()
    }

    /// Finds the controller for an I/O queue of a host.
    fn find(&self, queue: u16, data: &ConnectData) -> Result<Rc<Controller>, Status> {
        let controllers = self.controllers.borrow();
        let found = controllers.get(&data.controller);
        let found = found.ok_or(ConnectData::NO_CONTROLLER)?;
        if found.kind != Kind::Io || data.subsystem != self.identity.nqn {
            return Err(ConnectData::NO_SUBSYSTEM);
        }
        if found.host != data.host || found.host_id != data.host_id {
            return Err(Status::ConnectInvalidHost);
        }
        if !found.is_ready() {
            return Err(Status::CommandSequence);
        }
        if queue > QUEUES || found.queues.borrow().contains(&queue) {
            return Err(Status::ConnectInvalid {
                data: false,
                at: 42,
            });
        }
        Ok(Rc::clone(found))
    }

    /// Executes a command with its data; the host can receive at most `room` bytes.
    pub async fn submit(
        self: Rc<Self>,
        link: Link,
        entry: Entry,
        data: Vec<u8>,
        room: usize,
        token: Token,
    ) {
        let seat = {
            let seats = self.seats.borrow();
            let seat = seats.get(&link);
            seat.map(|seat| (Rc::clone(&seat.controller), seat.queue, seat.gate.clone()))
        };
        let Some((controller, queue, gate)) = seat else {
            return token.complete(Err(Status::CommandSequence));
        };
        let scope = Scope {
            subsystem: Rc::clone(&self),
            controller,
            queue,
            gate,
        };
        scope.carry_out(&entry, data, room, token).await;
    }

    /// Removes the queue of a closed connection.
    pub fn leave(&self, link: Link) {
        let seat = self.seats.borrow_mut().remove(&link);
        let Some(seat) = seat else { return };
        seat.controller.queues.borrow_mut().remove(&seat.queue);
        if seat.queue == 0 {
            self.controllers.borrow_mut().remove(&seat.controller.id);
            self.hang_up(seat.controller.id);
        }
    }

    /// Closes all connections of a controller except that of its admin queue.
    pub(crate) fn hang_up(&self, controller: u16) {
        let mut seats = self.seats.borrow_mut();
        let own = seats.values_mut();
        let own = own.filter(|seat| seat.controller.id == controller && seat.queue > 0);
        own.filter_map(|seat| seat.hang_up.take())
            .for_each(|hang_up| hang_up());
    }

    /// All controllers of hosts, discovery controllers included.
    pub(crate) fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.borrow().values().cloned().collect()
    }

    /// Namespace `nsid`, counted from 1.
    pub(crate) fn namespace(&self, nsid: u32) -> Result<&Namespace<B>, Status> {
        let index = nsid.checked_sub(1).ok_or(Status::InvalidNamespace)?;
        let found = self.namespaces.get(index as usize);
        found.ok_or(Status::InvalidNamespace)
    }
}

impl<B: Backend + Service> Service for Subsystem<B> {
    fn settle(&self) {
        self.namespaces
            .iter()
            .for_each(|namespace| namespace.backend().settle());
    }
}
