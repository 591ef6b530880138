//! A drive that its caller steps gives the results of runs, and refuses bad calls in a sentence.

use crate::{done, plan};
use report::record::Run;
use ssd::{IoError, Precondition};
use stack::device::{Command, Completion, Counters, Device, DeviceError, setup};
use stack::{Plan, StackError};
use units::{MIB, Ns, Origin};
use workload::{Op, Pacing, Stream, Workload};

/// The next command of a workload, and its arrival.
fn next(stream: &mut Stream) -> Option<(Ns, Command)> {
    let request = stream.next()?.expect("the workload is valid");
    let command = Command::new(request.op, request.extent.start.0, request.extent.sectors);
    let command = Command {
        fua: request.fua,
        ..command
            .with_handle(request.placement.0)
            .with_origin(request.origin)
    };
    Some((request.at, command))
}

/// Steps the drive of `plan` through the workload of the plan, as its run does.
fn stepped(plan: &Plan) -> (Device, Vec<Completion>) {
    let device = Device::new(plan).expect("the drive can be built");
    let workload = Workload::parse(&plan.workload).expect("it is a workload");
    let mut stream = workload
        .open(plan.drive.capacity, sim::Seed(plan.seed))
        .expect("it can be opened");
    for (number, name) in stream.labels().names().iter().enumerate().skip(1) {
        assert_eq!(usize::from(device.origin(name).0), number);
    }
    let mut completions = Vec::new();
    if let Pacing::Closed { depth, .. } = workload.pacing {
        let mut queues = Vec::new();
        for queue in 0..depth {
            let Some((_, command)) = next(&mut stream) else {
                break;
            };
            device
                .submit(device.now(), command.on_queue(queue))
                .unwrap();
            queues.push(queue);
        }
        while device.in_flight() > 0 {
            device.step().unwrap();
            while let Some(completion) = device.completion() {
                completions.push(completion);
                let Some((_, command)) = next(&mut stream) else {
                    continue;
                };
                let queue = queues[completion.id as usize];
                device
                    .submit(device.now(), command.on_queue(queue))
                    .unwrap();
                queues.push(queue);
            }
        }
    } else {
        let origin = device.now();
        while let Some((at, command)) = next(&mut stream) {
            device.submit(origin + at, command).unwrap();
        }
        while device.in_flight() > 0 {
            device.step().unwrap();
            completions.extend(std::iter::from_fn(|| device.completion()));
        }
    }
    (device, completions)
}

/// The record as JSON.
fn json(run: &Run) -> String {
    report::to_json(run)
}

/// Asserts that the stepped drive of `plan` gives the record of its run, byte for byte.
fn same(stack: &str, past: Precondition, workload: &str) {
    let plan = plan(stack, 64, past, workload);
    let run = done(&plan);
    let (device, completions) = stepped(&plan);
    let counted = device.counters();
    assert_eq!(
        completions.len() as u64,
        run.ops + run.errors.values().sum::<u64>()
    );
    let record = device.finish(&run.workload).expect("it is idle");
    let (ours, theirs) = (json(&record), json(&run));
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs, "{stack} {past:?} {workload}");
    }
    assert_eq!(ours, theirs);
    assert!(counted.host_write_bytes <= run.host.write_bytes);
    assert!(counted.nand_program_pages <= run.nand.program_pages);
    let after = device.counters();
    let host = (after.host_read_bytes, after.host_write_bytes);
    assert_eq!(host, (run.host.read_bytes, run.host.write_bytes));
    let of_run = (
        run.nand.program_pages,
        run.nand.read_pages,
        run.nand.erase_blocks,
    );
    let of_device = (
        after.nand_program_pages,
        after.nand_read_pages,
        after.nand_erase_blocks,
    );
    assert_eq!((of_device, after.waf), (of_run, run.waf.device));
}

#[test]
fn stepped_closed_loops_give_the_records_of_runs() {
    same("raw@block", Precondition::Aged, "randrw:ops=20000,depth=8");
    same(
        "raw@block",
        Precondition::Fresh,
        "seqwrite:ops=2000,depth=4,flush=16",
    );
    same(
        "raw@streams",
        Precondition::Aged,
        "hotcold:ops=20000,depth=32,handles=2",
    );
}

#[test]
fn stepped_open_loops_give_the_records_of_runs() {
    same(
        "raw@block",
        Precondition::Aged,
        "bursts:ops=10000,rate=60000",
    );
    same(
        "raw@block",
        Precondition::Full,
        "randrw:ops=10000,rate=200000",
    );
    same(
        "raw@fdp",
        Precondition::Aged,
        "hotcold:ops=10000,rate=30000,handles=2",
    );
}

#[test]
fn stepped_drives_of_hosts_and_zones_give_the_counters_of_runs() {
    same("raw@ocssd", Precondition::Fresh, "randrw:ops=2000,depth=1");
    same("raw@zns", Precondition::Fresh, "seqwrite:ops=500,depth=1");
}

/// A drive of 64 MiB with the interface `kind`.
fn small(kind: &str) -> Device {
    Device::from_toml(&format!("preset = {kind:?}\ncapacity = \"64MiB\"")).unwrap()
}

/// Advances until no command is in flight, and returns all completions.
fn settled(device: &Device) -> Vec<Completion> {
    while device.in_flight() > 0 {
        assert!(device.step().unwrap());
    }
    std::iter::from_fn(|| device.completion()).collect()
}

#[test]
fn advance_runs_all_events_up_to_a_time_and_none_beyond() {
    let device = small("block");
    device.submit(Ns::us(10), Command::read(0, 8)).unwrap();
    assert_eq!(device.next_event(), Some(Ns::ZERO), "the firmware starts");
    device.advance(Ns(9_999)).unwrap();
    assert_eq!(device.next_event(), Some(Ns::us(10)));
    let end = {
        let other = small("block");
        other.submit(Ns::us(10), Command::read(0, 8)).unwrap();
        settled(&other)[0].completed
    };
    device.advance(Ns(end.0 - 1)).unwrap();
    assert_eq!((device.now(), device.completion()), (Ns(end.0 - 1), None));
    device.advance(end).unwrap();
    let done = device.completion().expect("it ends now");
    assert_eq!((done.submitted, done.completed), (Ns::us(10), end));
    assert_eq!(done.result, Ok(()));
    device.advance(Ns::secs(1)).unwrap();
    assert_eq!((device.now(), device.in_flight()), (Ns::secs(1), 0));
}

#[test]
fn two_kinds_of_drives_at_one_clock_serve_as_they_do_alone() {
    let commands = |device: &Device, id: u64| {
        let at = device.now().max(Ns::us(1)) + Ns::us(7 * id);
        device.submit(at, Command::write(id * 8, 8)).unwrap();
    };
    let block = small("block");
    let fdp = block
        .beside(&setup("preset = \"fdp\"\ncapacity = \"64MiB\"").unwrap())
        .unwrap();
    let alone = small("fdp");
    for id in 0..50 {
        // The queues of the two hosts' cores differ, so the cores are idle for each other.
        commands(&alone, id);
        commands(&fdp, id);
    }
    block.submit(Ns::ms(5), Command::write(0, 8)).unwrap();
    while block.in_flight() + fdp.in_flight() > 0 {
        block.step().unwrap();
    }
    let of_fdp: Vec<_> = std::iter::from_fn(|| fdp.completion()).collect();
    assert_eq!(of_fdp, settled(&alone));
    assert_eq!(
        block.completion().map(|done| done.submitted),
        Some(Ns::ms(5))
    );
    assert_eq!(block.now(), fdp.now());
    assert_eq!(fdp.counters().host_write_bytes, 50 * 4096);
    assert_eq!(block.counters().host_write_bytes, 4096);
}

#[test]
fn forks_hold_the_same_and_go_their_own_ways() {
    let unprotected = "\n[controller]\npower_loss_protection = false";
    let text = format!("preset = \"block\"\ncapacity = \"64MiB\"{unprotected}");
    let device = Device::from_toml(&text).unwrap();
    for place in 0..64 {
        device
            .submit(device.now(), Command::write(place * 512, 512))
            .unwrap();
    }
    let refused = device.fork().err().expect("commands are in flight");
    assert_eq!(
        refused.to_string(),
        "fork: 64 commands are in flight, expected none"
    );
    settled(&device);
    let refused = device.fork().err().expect("the buffer is volatile");
    assert!(matches!(refused, DeviceError::Unflushed), "{refused}");
    device.submit(device.now(), Command::flush()).unwrap();
    settled(&device);
    let [one, two] = [device.fork().unwrap(), device.fork().unwrap()];
    assert_eq!(
        one.counters(),
        Counters {
            nand_page_bytes: 16_384,
            ..Counters::default()
        }
    );
    let read = |fork: &Device| {
        fork.submit(Ns::us(1), Command::read(512, 512)).unwrap();
        settled(fork)
    };
    let (first, second) = (read(&one), read(&two));
    assert_eq!(first, second);
    assert!(one.counters().nand_read_pages > 0, "the pages are mapped");
    one.submit(one.now(), Command::write(0, 8)).unwrap();
    settled(&one);
    assert!(one.fork().is_err());
    one.submit(one.now(), Command::deallocate(512, 64)).unwrap();
    settled(&one);
    assert_eq!(two.counters().trim_bytes, 0);
    let protected = small("block");
    protected.submit(Ns(0), Command::write(0, 8)).unwrap();
    settled(&protected);
    assert!(protected.fork().is_ok(), "capacitors keep the buffer");
}

#[test]
fn zones_take_appends_resets_and_finishes() {
    let device = Device::from_toml("preset = \"zns\"\ncapacity = \"256MiB\"").unwrap();
    let run = |command| {
        device.submit(device.now(), command).unwrap();
        settled(&device).remove(0)
    };
    let first = run(Command::append(0, 8));
    assert_eq!((first.result, first.address), (Ok(()), Some(0)));
    assert_eq!(run(Command::append(3, 8)).address, Some(8));
    assert_eq!(run(Command::finish(0)).result, Ok(()));
    let full = run(Command::append(0, 8));
    assert!(matches!(full.result, Err(IoError::Zone(_))), "{full:?}");
    assert_eq!(full.address, None);
    assert_eq!(run(Command::reset(0)).result, Ok(()));
    assert_eq!(run(Command::append(0, 8)).address, Some(0));
}

#[test]
fn bad_calls_are_refused_in_one_sentence_and_change_nothing() {
    let device = small("block");
    device.advance(Ns::us(10)).unwrap();
    let sectors = device.sectors();
    let calls = [
        (
            Ns(9),
            Command::read(0, 8),
            "time 9: expected at least that of the clock, 10000",
        ),
        (
            Ns::secs(40_000_000),
            Command::read(0, 8),
            "time 40000000000000000: expected at most a year of 31536000000000000 ns",
        ),
        (
            Ns::us(10),
            Command::read(sectors, 8),
            "read: sectors 131072 to 131079 reach past the end of the drive, which has 131072",
        ),
        (
            Ns::us(10),
            Command::deallocate(u64::MAX, u32::MAX),
            "trim: sectors 18446744073709551615 to 18446744073709551615 reach past the end of the \
             drive, which has 131072",
        ),
        (
            Ns::us(10),
            Command::write(0, 0),
            "write: 0 sectors given, expected 1 to 65536",
        ),
        (
            Ns::us(10),
            Command::append(0, 8),
            "append: expected a drive with zones, such as that of raw@zns",
        ),
        (
            Ns::us(10),
            Command::read(0, 8).with_origin(Origin(1)),
            "read: origin 1 given, expected one of the 1 that have a name",
        ),
    ];
    for (time, command, sentence) in calls {
        let error = device.submit(time, command).expect_err(sentence);
        assert_eq!(error.to_string(), sentence);
    }
    assert_eq!(device.in_flight(), 0);
    assert_eq!(device.submit(device.now(), Command::read(0, 8)).unwrap(), 0);
}

#[test]
fn calls_in_the_past_and_to_a_drive_that_is_off_are_refused() {
    let device = small("block");
    device.advance(Ns::us(10)).unwrap();
    assert!(matches!(
        device.advance(Ns(1)),
        Err(DeviceError::Past { .. })
    ));
    assert_eq!(device.submit(device.now(), Command::read(0, 8)).unwrap(), 0);
    assert!(device.finish("none").is_err(), "a command is in flight");
    settled(&device);
    assert_eq!(device.finish("one read").unwrap().ops, 1);
    assert!(matches!(
        device.submit(device.now(), Command::flush()),
        Err(DeviceError::Off)
    ));
    assert!(matches!(device.finish("again"), Err(DeviceError::Off)));
}

#[test]
fn documents_are_read_as_plans_or_refused_with_their_line() {
    let text = "preset = \"fdp\"\ncapacity = \"128MiB\"\nprecondition = \"full\"\nseed = 7\n\
                [placement]\nhandles = 4\n[host]\ncpu.cores = 2\n";
    let plan = setup(text).unwrap();
    assert_eq!(plan.stack.to_string(), "raw@fdp");
    assert_eq!(
        (plan.seed, plan.host.cpu.cores, plan.drive.placement.handles),
        (7, 2, 4)
    );
    assert_eq!(plan.precondition, Precondition::Full);
    assert!(plan.drive.capacity.0.abs_diff(128 * MIB) < MIB);
    for (text, start) in [
        ("capacity = \"1GiB\"", "TOML:1: preset: expected one of "),
        ("preset = \"block\"\ncapcity = 1", "TOML:2: "),
        (
            "preset = \"block\"\nhost = 1",
            "TOML:2: host: expected a table of settings",
        ),
        (
            "preset = \"block\"\n[host]\ncpu.cores = 0",
            "TOML:3: host.cpu.cores: 0 given",
        ),
        (
            "preset = \"block\"\nseed = -1",
            "TOML:2: seed: expected a whole number",
        ),
        (
            "preset = \"block\"\nprecondition = \"used\"",
            "TOML:2: precondition: ",
        ),
        ("preset = \"block", "TOML:1: "),
    ] {
        let error: StackError = setup(text).expect_err(text);
        let error = error.to_string();
        assert!(error.starts_with(start) && !error.contains('\n'), "{error}");
    }
    let files = plan_of_files();
    let error = Device::new(&files).err().expect("it has a file system");
    assert_eq!(
        error.to_string(),
        "ext4@block: expected a stack with the host raw, such as raw@block"
    );
}

fn plan_of_files() -> Plan {
    plan("ext4@block", 64, Precondition::Fresh, "")
}

#[test]
fn full_house_refuses_one_command_more() {
    let device = small("block");
    for _ in 0..65_536 {
        device
            .submit(Ns::us(1), Command::new(Op::Read, 0, 8))
            .unwrap();
    }
    let error = device.submit(Ns::us(1), Command::read(0, 8)).unwrap_err();
    assert!(matches!(error, DeviceError::TooMany { most: 65_536 }));
    assert_eq!(settled(&device).len(), 65_536);
}
