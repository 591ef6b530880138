//! Tests of the ends of operations: reports to firmware, and futures that are dropped.

use super::bench::{Bench, block, on_bus, tlc};
use nand::{Firmware, Load, NandError, Priority, Report, Row};
use sim::{Elapsed, Sim, TaskId, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use units::Ns;

/// An ended operation: its number, time, number of events so far, and result.
type Note = (u32, Ns, u64, Result<(), NandError>);

struct Notes {
    sim: Sim,
    notes: RefCell<Vec<Note>>,
}

impl Firmware for Notes {
    fn ended(&self, number: u32, result: Result<(), NandError>) -> Option<TaskId> {
        let note = (number, self.sim.now(), self.sim.events(), result);
        self.notes.borrow_mut().push(note);
        None
    }
}

fn page(number: u32) -> Row {
    Row::single(block(0, 0, 0), number)
}

#[test]
fn firmware_hears_the_end_within_its_event() {
    let bench = Bench::new();
    let notes = Rc::new(Notes {
        sim: bench.kernel.sim(),
        notes: RefCell::default(),
    });
    let firmware: Rc<dyn Firmware> = notes.clone();
    bench.nand.serve(Rc::downgrade(&firmware));
    let ticket = bench.submit(page(0), 1).unwrap();
    bench.nand.start_program(ticket, Report::Firmware(7));
    bench.kernel.run();
    let start = bench.kernel.sim().now();
    let read = |row, number| {
        let report = Report::Firmware(number);
        bench.nand.start_read(row, 4096, Priority::Read, report)
    };
    read(page(0), 8).unwrap();
    assert!(matches!(
        read(Row::single(block(9, 0, 0), 0), 9),
        Err(NandError::NoSuchRow { .. })
    ));
    bench.kernel.run();
    let t = tlc();
    let ends = [
        (7, on_bus(&t, 16_384) + t.program, 2, Ok(())),
        (8, start + t.read + on_bus(&t, 4096), 4, Ok(())),
    ];
    assert_eq!(*notes.notes.borrow(), ends);
}

#[test]
fn operation_of_a_dropped_future_runs_to_its_end() {
    let bench = Bench::new();
    bench.programmed(page(0), 1).unwrap();
    let (nand, sim) = (Rc::clone(&bench.nand), bench.kernel.sim());
    let given_up = bench.kernel.block_on(async move {
        let read = nand.read(page(0), 4096, Priority::Read);
        timeout(&sim, Ns(10), read).await
    });
    assert_eq!(given_up, Err(Elapsed));
    assert_eq!(bench.nand.die_load(0).reads, 1);
    bench.kernel.run();
    assert!(bench.nand.is_idle());
    assert_eq!(bench.nand.die_load(0), Load::default());
    bench.read_now(page(0)).unwrap();
}
