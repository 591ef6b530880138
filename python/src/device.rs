//! A drive that Python steps: see [`stack::device`].
//!
//! Invariants: an exception of a policy written in Python ends the call in which it was raised. A
//! drive is used by the thread that made it, which holds it: an object of Python that is dropped by
//! another thread leaves the drive to the next drive made by that one.

use crate::plans::read;
use crate::policies::Failure;
use crate::refused;
use crate::runs::chosen;
use pyo3::prelude::*;
use stack::device::{Command, Completion, Device, DeviceError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use units::{Ns, Origin, Placement};
use workload::Op;

/// Number, submission and end in ns, error, and first sector of an append.
type Done = (u64, u64, u64, Option<String>, Option<u64>);

/// A kind of command, with its first sector and its length in sectors.
type Asked = (String, u64, u32);

/// Placement handle, force unit access, origin and queue pair of a command.
type Manner = (u16, bool, u16, Option<u32>);

/// A drive of this thread.
struct Held {
    device: Device,
    failure: Failure,
    /// Whether a call to a drive of this clock is running, which may call a policy in Python.
    is_busy: Rc<Cell<bool>>,
}

/// Places that were given up by other threads.
type Graves = Arc<Mutex<Vec<usize>>>;

/// The drives of this thread.
#[derive(Default)]
struct Room {
    places: Vec<Option<Rc<Held>>>,
    graves: Graves,
}

impl Room {
    /// Takes the drives that other threads have given up.
    fn swept(&mut self) -> Vec<Option<Rc<Held>>> {
        let mut graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
        let places = graves.drain(..);
        places.map(|place| self.places[place].take()).collect()
    }
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// A drive behind a host, at a clock of its own or of another one: its place in the room of its
/// thread.
#[pyclass(frozen, module = "flashloom._native")]
pub(crate) struct Stepped {
    thread: ThreadId,
    place: usize,
    graves: Graves,
}

impl Stepped {
    /// Gives `held` a place in the room of this thread.
    fn place(held: Held) -> Self {
        // They are freed outside of the room, since policies that they hold may be objects of Python.
        let _given_up = ROOM.with_borrow_mut(Room::swept);
        ROOM.with_borrow_mut(|room| {
            let free = room.places.iter().position(Option::is_none);
            let place = free.unwrap_or(room.places.len());
            room.places
                .resize_with(room.places.len().max(place + 1), || None);
            room.places[place] = Some(Rc::new(held));
            Self {
                thread: std::thread::current().id(),
                place,
                graves: Arc::clone(&room.graves),
            }
        })
    }

    /// Calls `call` with the drive, on its thread and while no other call is running.
    fn with<T>(&self, call: impl FnOnce(&Held) -> Result<T, DeviceError>) -> PyResult<T> {
        if std::thread::current().id() != self.thread {
            return Err(refused("expected the thread that made this device"));
        }
        let held = ROOM.with_borrow(|room| room.places[self.place].clone());
        let held = held.ok_or_else(|| refused("expected a drive that is not freed"))?;
        if held.is_busy.replace(true) {
            return Err(refused("expected no call of a drive by a policy of it"));
        }
        let result = call(&held);
        held.is_busy.set(false);
        held.failure.raised()?;
        result.map_err(refused)
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        if std::thread::current().id() != self.thread {
            let mut graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
            graves.push(self.place);
            return;
        }
        let given_up = |room: &RefCell<Room>| room.borrow_mut().places[self.place].take();
        // The room of a thread that ends frees its drives itself. A drive is freed outside of it.
        drop(ROOM.try_with(given_up));
    }
}

#[pymethods]
impl Stepped {
    /// Makes the drive of a plan's document.
    #[new]
    #[pyo3(signature = (plan, victim=None, placement=None))]
    fn new(plan: &str, victim: Option<Py<PyAny>>, placement: Option<Py<PyAny>>) -> PyResult<Self> {
        let (mut plan, failure) = (read(plan)?, Failure::default());
        plan.policies = chosen(victim, placement, &failure);
        Ok(Self::place(Held {
            device: Device::new(&plan).map_err(refused)?,
            failure,
            is_busy: Rc::default(),
        }))
    }

    #[pyo3(signature = (plan, victim=None, placement=None))]
    fn beside(
        &self,
        plan: &str,
        victim: Option<Py<PyAny>>,
        placement: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut plan = read(plan)?;
        self.with(|held| {
            plan.policies = chosen(victim, placement, &held.failure);
            Ok(Held {
                device: held.device.beside(&plan)?,
                failure: held.failure.clone(),
                is_busy: Rc::clone(&held.is_busy),
            })
        })
        .map(Self::place)
    }

    fn fork(&self) -> PyResult<Self> {
        self.with(|held| {
            Ok(Held {
                device: held.device.fork()?,
                failure: held.failure.clone(),
                is_busy: Rc::default(),
            })
        })
        .map(Self::place)
    }

    fn now(&self) -> PyResult<u64> {
        self.with(|held| Ok(held.device.now().0))
    }

    fn sectors(&self) -> PyResult<u64> {
        self.with(|held| Ok(held.device.sectors()))
    }

    fn in_flight(&self) -> PyResult<u64> {
        self.with(|held| Ok(held.device.in_flight()))
    }

    fn next_event(&self) -> PyResult<Option<u64>> {
        self.with(|held| Ok(held.device.next_event().map(|time| time.0)))
    }

    fn origin(&self, name: &str) -> PyResult<u16> {
        self.with(|held| Ok(held.device.origin(name).0))
    }

    fn submit(&self, time: u64, asked: Asked, manner: Manner) -> PyResult<u64> {
        let (op, sector, sectors) = asked;
        let (handle, fua, origin, queue) = manner;
        let command = Command {
            placement: Placement(handle),
            fua,
            origin: Origin(origin),
            queue,
            ..Command::new(named(&op)?, sector, sectors)
        };
        self.with(|held| held.device.submit(Ns(time), command))
    }

    fn step(&self) -> PyResult<bool> {
        self.with(|held| held.device.step())
    }

    fn advance(&self, time: u64) -> PyResult<()> {
        self.with(|held| held.device.advance(Ns(time)))
    }

    /// Takes all completions, the earliest first.
    fn completions(&self) -> PyResult<Vec<Done>> {
        self.with(|held| {
            let completions = std::iter::from_fn(|| held.device.completion());
            Ok(completions.map(|done| told(&done)).collect())
        })
    }

    /// Names and values of the counters.
    fn counters(&self) -> PyResult<(Vec<(&'static str, u64)>, f64)> {
        let counted = self.with(|held| Ok(held.device.counters()))?;
        let whole = vec![
            ("host_read_bytes", counted.host_read_bytes),
            ("host_write_bytes", counted.host_write_bytes),
            ("trim_bytes", counted.trim_bytes),
            ("flushes", counted.flushes),
            ("nand_read_pages", counted.nand_read_pages),
            ("nand_program_pages", counted.nand_program_pages),
            ("nand_erase_blocks", counted.nand_erase_blocks),
            ("nand_page_bytes", counted.nand_page_bytes),
            ("gc_lines", counted.gc_lines),
        ];
        Ok((whole, counted.waf))
    }

    fn finish(&self, workload: &str) -> PyResult<String> {
        let record = self.with(|held| held.device.finish(workload))?;
        Ok(report::to_json(&record))
    }
}

/// The kind of command called `name`; `deallocate` is another name of a trim.
fn named(name: &str) -> PyResult<Op> {
    let known = |op: &Op| op.name() == name || (name == "deallocate" && *op == Op::Trim);
    Op::ALL.into_iter().find(known).ok_or_else(|| {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        refused(format!(
            "{name:?}: expected a command: deallocate, {}",
            names.join(", ")
        ))
    })
}

fn told(done: &Completion) -> Done {
    let error = done.result.err().map(|error| error.to_string());
    let (submitted, completed) = (done.submitted.0, done.completed.0);
    (done.id, submitted, completed, error, done.address)
}
