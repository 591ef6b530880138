//! A program that relies on its flushes: the power is cut while it runs, and its log and records
//! must hold all that a restart needs.

use crate::small::{Reader, TimeKept, computer, drive};
use memsys::stored_value;
use memsys::{
    Far, FarEvent, Line, LineData, Machine, Op, PageData, Program, ReadReply, Tag, TakeAll,
};
use programs::Workload;
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, DeviceConfig, DeviceMedia, Profile};
use ssd::Precondition;
use units::Ns;

/// Stored line: its address, and the index of the store in its thread.
type Stored = (u64, u64);

/// Transaction, as its thread executed it.
#[derive(Debug, Default)]
struct Transaction {
    /// New lines in the log, mark, lines of the record in place.
    logged: Vec<Stored>,
    mark: Stored,
    record: Vec<Stored>,
}

/// Transactions of each thread of a program. Between fences lie flushed stores: a record in place,
/// then the next record in the log, then a mark alone.
fn transactions(mut program: Box<dyn Program>) -> Vec<Vec<Transaction>> {
    let of = |ops: &[Op]| {
        let mut groups: Vec<Vec<Stored>> = vec![Vec::new()];
        let mut last = (0, 0);
        for (place, op) in (0..).zip(ops) {
            match *op {
                Op::Store { at, .. } => last = (at, place),
                Op::Flush { at } => {
                    assert_eq!(at, last.0, "what is flushed was stored just before");
                    groups.last_mut().unwrap().push(last);
                }
                Op::Fence => groups.push(Vec::new()),
                _ => {}
            }
        }
        groups.pop();
        let mut all = Vec::new();
        let mut now = Transaction::default();
        for group in groups {
            if let [mark] = group[..] {
                now.mark = mark;
                continue;
            }
            // A record in place, then the log of the next transaction.
            let in_place = if now.logged.is_empty() { 0 } else { LINES };
            let (record, logged) = group.split_at(in_place);
            now.record = record.to_vec();
            all.extend((in_place > 0).then(|| std::mem::take(&mut now)));
            now.logged = logged.to_vec();
        }
        all
    };
    let threads = program.threads();
    let mut ops = vec![Vec::new(); threads as usize];
    let mut live = vec![true; threads as usize];
    while live.contains(&true) {
        for (thread, ops) in (0..threads).zip(&mut ops) {
            let live = &mut live[thread as usize];
            while *live {
                *live = program.next(thread, ops);
                if ops.last() == Some(&Op::Meet) {
                    break;
                }
            }
        }
    }
    ops.iter().map(|ops| of(ops)).collect()
}

const LINES: usize = 2;

/// Drive whose power is cut at every [`EVERY`]th call.
struct Cut {
    device: CxlSsd,
    config: DeviceConfig,
    threads: Vec<Vec<Transaction>>,
    calls: u64,
    /// Largest number of transactions found after a cut, by thread.
    found: Vec<usize>,
}

impl Cut {
    fn called(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(EVERY) {
            self.judge();
        }
    }

    /// Cuts the power. Of the transactions whose mark is durable, the last can be redone from the
    /// log, and the records of earlier ones are in place or overwritten by newer ones.
    fn judge(&mut self) {
        let kernel = Kernel::new();
        let media = self.device.at_power_cut();
        let device = CxlSsd::ready(&kernel.sim(), &self.config, media, Seed(2)).unwrap();
        let mut reader = Reader { kernel, device };
        for (thread, all) in (0..).zip(&self.threads) {
            let mut is = |(at, place): Stored| {
                let wanted = stored_value(thread, place);
                reader.line(at / 64) == wanted
            };
            let Some(last) = all.iter().rposition(|one| is(one.mark)) else {
                continue;
            };
            let found = &mut self.found[thread as usize];
            *found = (*found).max(last + 1);
            let told = || format!("thread {thread}, transaction {last}, call {}", self.calls);
            assert!(
                all[last].logged.iter().all(|&line| is(line)),
                "log: {}",
                told()
            );
            // Transactions whose records later ones may have overwritten.
            for before in last.saturating_sub(3)..last {
                for &line in &all[before].record {
                    let newer = all[before + 1..].iter().flat_map(|one| &one.record);
                    let mut same = newer.filter(|other| other.0 == line.0);
                    assert!(
                        is(line) || same.any(|&other| is(other)),
                        "record: {}",
                        told()
                    );
                }
            }
        }
    }
}

const EVERY: u64 = 61;

impl Far for Cut {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        let reply = self.device.read(now, line, tag);
        self.called();
        reply
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        let taken = self.device.write(now, line, data);
        self.called();
        taken
    }

    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        let taken = self.device.write_page(now, page, data);
        self.called();
        taken
    }

    fn event(&mut self) -> Option<FarEvent> {
        let event = self.device.event();
        self.called();
        event
    }

    fn dropped(&mut self, now: Ns, page: u64) -> u64 {
        let lines = self.device.dropped(now, page);
        self.called();
        lines
    }
}

/// Runs the workload on a tiny machine under power cuts, with its pages pinned if `pins`. Returns
/// the transactions found by thread, and the number of pages moved to the host.
fn run(design: &str, pins: bool) -> (Vec<usize>, u64) {
    let text = "durable:footprint=1MiB,threads=2,section=whole,transactions=300,looks=10";
    let workload = Workload::parse(text).unwrap();
    let program = || workload.program(Seed(1)).unwrap();
    let mut config = computer(2, design);
    config.pinned.extend(workload.pinned().filter(|_| pins));
    let (kernel, drive) = (Kernel::new(), drive(design, Profile::Default));
    let media = DeviceMedia::new(&drive, Precondition::Fresh, Seed(1)).unwrap();
    let threads = transactions(program());
    let cut = Cut {
        device: CxlSsd::ready(&kernel.sim(), &drive, media, Seed(1)).unwrap(),
        config: drive,
        found: vec![0; threads.len()],
        threads,
        calls: 0,
    };
    let program = Whole(program());
    let machine = Machine::new(&config, &kernel, cut, program, TimeKept, TakeAll);
    let mut machine = machine.unwrap();
    let counts = machine.run().unwrap().counts;
    let moved = counts.promotions + counts.page_misses;
    (machine.far().found.clone(), moved)
}

struct Whole(Box<dyn Program>);

impl Program for Whole {
    fn threads(&self) -> u32 {
        self.0.threads()
    }
    fn footprint(&self) -> units::Bytes {
        self.0.footprint()
    }
    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        self.0.next(thread, ops)
    }
}

//= skybyte 4
#[test]
fn transactions_of_flushed_lines_are_whole_after_a_power_cut() {
    for design in ["base-cssd", "skybyte-full", "astriflash-cxl"] {
        let (found, moved) = run(design, true);
        // 150 transactions of each thread, after a quarter as many that warm up.
        assert!(
            found.iter().all(|&found| found > 180),
            "{design}: {found:?}"
        );
        assert_eq!(moved > 0, design != "base-cssd", "{design}");
    }
}

#[test]
#[should_panic(expected = "transaction")]
fn flushed_lines_on_pages_that_move_are_lost() {
    run("skybyte-full", false);
}
