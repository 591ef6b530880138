//! Tests that requests of records take the times of commands that tasks await.

use host::{BlockDevice, HostConfig, QueuePair, Request, Who};
use sim::{Actor, Kernel, Rng, Seed, Sim, TaskId};
use ssd::{CacheHolds, Command, Content, Drive, DriveConfig, IoError, Precondition, Preset};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Poll;
use units::{Bytes, Extent, KIB, MIB, Ns, Origin, Placement};

/// Time and result of each command, in the order of their ends.
type Ends = Vec<(Ns, Result<(), IoError>)>;

/// Sectors of the drive.
const SECTORS: u64 = 64 * MIB / 512;

fn command(rng: &mut Rng) -> Command {
    let sectors = [1, 8, 8, 16, 64][rng.below(5) as usize];
    // One in a thousand reaches past the end.
    let extent = Extent::new(rng.below(SECTORS - sectors + 64), sectors as u32);
    match rng.below(10) {
        0 => Command::Flush,
        1 => Command::Trim(extent),
        2..6 => {
            // One in nine does not exist on a drive with handles.
            let placement = Placement(rng.below(9) as u16);
            Command::Write(extent, placement, Origin(0), rng.chance(1, 8))
        }
        _ => Command::Read(extent),
    }
}

async fn execute(queue: &QueuePair, command: Command) -> Result<(), IoError> {
    let who = Who::default();
    match command {
        Command::Read(extent) => queue.read(extent, &mut (), who).await,
        Command::Write(extent, placement, _, fua) => {
            let content = Content::Nothing;
            queue.write(extent, content, placement, who, fua).await
        }
        Command::Trim(extent) => queue.trim(extent).await,
        Command::Flush => queue.flush().await,
    }
}

fn by_tasks(sim: &Sim, device: &BlockDevice, commands: &[Vec<Command>], ends: &Rc<RefCell<Ends>>) {
    for (worker, commands) in commands.iter().enumerate() {
        let (queue, commands) = (device.queue(worker), commands.clone());
        let (sim, ends) = (sim.clone(), Rc::clone(ends));
        sim.clone().spawn_detached(async move {
            for command in commands {
                let result = execute(&queue, command).await;
                ends.borrow_mut().push((sim.now(), result));
            }
        });
    }
}

struct Worker {
    id: TaskId,
    queue: QueuePair,
    request: Request,
    left: Vec<Command>,
}

struct Records {
    sim: Sim,
    workers: RefCell<Vec<Worker>>,
    ends: Rc<RefCell<Ends>>,
    ended: Cell<u32>,
}

impl Actor for Records {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let worker = &mut self.workers.borrow_mut()[number as usize];
        while let Poll::Ready(result) = worker.queue.advance(&mut worker.request) {
            self.ends.borrow_mut().push((self.sim.now(), result));
            let Some(command) = worker.left.pop() else {
                self.sim.end_record(worker.id);
                self.ended.set(self.ended.get() + 1);
                break;
            };
            worker.request.renew(command, Who::default());
        }
        None
    }
}

fn by_records(
    sim: &Sim,
    device: &BlockDevice,
    commands: &[Vec<Command>],
    ends: &Rc<RefCell<Ends>>,
) -> Rc<Records> {
    let mut actor = None;
    let records = Rc::new_cyclic(|me: &Weak<Records>| {
        actor = Some(sim.enroll(me.clone()));
        Records {
            sim: sim.clone(),
            workers: RefCell::default(),
            ends: Rc::clone(ends),
            ended: Cell::new(0),
        }
    });
    for (worker, commands) in commands.iter().enumerate() {
        let mut left: Vec<_> = commands.iter().rev().copied().collect();
        let first = left.pop().expect("each worker has a command");
        let id = sim.start_record(actor.expect("it was enrolled"), worker as u32);
        records.workers.borrow_mut().push(Worker {
            id,
            queue: device.queue(worker),
            request: Request::new(first, Who::default()),
            left,
        });
    }
    records
}

/// Ends of the commands of `workers` by records or by tasks, and the traffic of the host.
fn ends(
    (config, past): (&DriveConfig, Precondition),
    host: HostConfig,
    workers: u64,
    records: bool,
) -> (Ends, host::Ledger, ssd::Smart) {
    let mut rng = Seed(7).stream("commands");
    let mut each = || (0..200).map(|_| command(&mut rng)).collect();
    let commands: Vec<Vec<Command>> = (0..workers).map(|_| each()).collect();
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = past.media(config, Seed(1)).expect("it can be built");
    let drive = Drive::ready(&sim, config, media, Seed(1)).expect("as above");
    let device = BlockDevice::new(&sim, host, drive).expect("the host can be");
    let ends = Rc::new(RefCell::new(Vec::new()));
    if records {
        let records = by_records(&sim, &device, &commands, &ends);
        kernel.run();
        assert_eq!(u64::from(records.ended.get()), workers, "all have ended");
    } else {
        by_tasks(&sim, &device, &commands, &ends);
        kernel.run();
    }
    let smart = device.drive().smart();
    device.drive().check();
    (ends.take(), device.ledger(), smart)
}

fn narrow() -> HostConfig {
    let mut host = HostConfig::default();
    (host.queues.pairs, host.queues.depth, host.cpu.cores) = (2, 2, 1);
    host
}

fn drive(name: &str) -> DriveConfig {
    let preset = Preset::named(name).expect("a preset");
    (preset.config)().resized(Bytes(64 * MIB))
}

#[test]
fn requests_take_the_times_of_awaited_commands() {
    let mut paged = drive("block");
    paged.mapping.cache = Bytes(16 * KIB);
    let mut entries = paged.clone();
    entries.mapping.cache_holds = CacheHolds::Entries;
    let mut failing = drive("block");
    failing.faults.read_retries = 200_000;
    let mut small = drive("block");
    small.controller.write_buffer = Bytes(2 * MIB);
    let drives = [
        drive("block"),
        drive("byte"),
        drive("streams"),
        drive("fdp"),
        paged,
        entries,
        failing,
        small,
    ];
    for (number, config) in drives.iter().enumerate() {
        for (host, workers) in [(HostConfig::default(), 1), (narrow(), 7)] {
            for past in [Precondition::Fresh, Precondition::Full] {
                let case = |records| ends((config, past), host, workers, records);
                let (tasks, records) = (case(false), case(true));
                assert_eq!(tasks.0.len() as u64, workers * 200);
                assert!(
                    tasks == records,
                    "drive {number}, {workers} workers, {past:?}"
                );
            }
        }
    }
}
