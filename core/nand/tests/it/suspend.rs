//! Tests of reads that suspend programs and erases.

use super::bench::{Bench, READS_FIRST, SHAPE, block, on_bus, tlc};
use nand::{Faults, Payload, Row};
use sim::Discipline;
use units::Ns;

const SECTOR: u64 = 4096;
const PAGE: u64 = SHAPE.page_bytes as u64;

/// A bench with one programmed page in block 0 of die 0, and the time of its completion.
fn ready(discipline: Discipline) -> (Bench, Ns) {
    let bench = Bench::with(SHAPE, Faults::default(), discipline);
    bench.programmed(held(), 1).unwrap();
    let now = bench.kernel.sim().now();
    (bench, now)
}

fn held() -> Row {
    Row::single(block(0, 0, 0), 0)
}

fn next() -> Row {
    Row::single(block(0, 0, 1), 0)
}

#[test]
fn suspended_program_takes_the_cost_and_keeps_its_contents() {
    let (bench, start) = ready(READS_FIRST);
    let t = tlc();
    let program = bench.program(next(), 2);
    let asked = start + on_bus(&t, PAGE) + Ns::us(100);
    let read = bench.read_at(asked, held(), 4096);
    bench.kernel.run();
    assert_eq!(read.at(), asked + t.read + on_bus(&t, SECTOR));
    let alone = start + on_bus(&t, PAGE) + t.program;
    assert_eq!(program.at(), alone + t.read + t.suspend);
    let die = t.program + t.program + t.read + t.suspend;
    assert_eq!(bench.nand.busy().0, die, "the meters count the suspension");
    let media = bench.nand.media();
    let page = media.page(block(0, 0, 1), 0).unwrap();
    assert_eq!(page.stamp, 2);
    assert!(page.words().eq(200..204));
    assert_eq!(media.payload(block(0, 0, 1), 0, 3), Payload::Fill(203));
}

#[test]
fn without_suspension_a_read_waits_for_the_program() {
    let patient = Discipline {
        suspend_limit: 0,
        ..READS_FIRST
    };
    let (bench, start) = ready(patient);
    let t = tlc();
    let program = bench.program(next(), 2);
    let read = bench.read_at(start + Ns::us(100), held(), 4096);
    bench.kernel.run();
    let done = start + on_bus(&t, PAGE) + t.program;
    assert_eq!(program.at(), done);
    assert_eq!(read.at(), done + t.read + on_bus(&t, SECTOR));
}

#[test]
fn a_program_is_suspended_no_more_often_than_allowed() {
    let (bench, start) = ready(READS_FIRST);
    let t = tlc();
    let program = bench.program(next(), 2);
    let begun = start + on_bus(&t, PAGE);
    // Far enough apart that each read meets the program in service.
    let asked = [100, 200, 300].map(|us| begun + Ns::us(us));
    let reads = asked.map(|at| bench.read_at(at, held(), 4096));
    bench.kernel.run();
    let quick = t.read + on_bus(&t, SECTOR);
    assert_eq!(reads[0].at(), asked[0] + quick);
    assert_eq!(reads[1].at(), asked[1] + quick);
    let lost = t.read + t.suspend;
    assert_eq!(program.at(), begun + t.program + lost + lost);
    assert_eq!(reads[2].at(), program.at() + quick);
}

#[test]
fn reads_that_come_together_cost_one_suspension() {
    let (bench, start) = ready(READS_FIRST);
    let t = tlc();
    let program = bench.program(next(), 2);
    let begun = start + on_bus(&t, PAGE);
    for _ in 0..3 {
        bench.read_at(begun + Ns::us(100), held(), 4096);
    }
    bench.kernel.run();
    let reads = Ns(3 * t.read.0);
    assert_eq!(program.at(), begun + t.program + reads + t.suspend);
}

#[test]
fn an_erase_is_suspended_too_and_then_erases() {
    let (bench, start) = ready(READS_FIRST);
    let t = tlc();
    bench.programmed(next(), 2).unwrap();
    let start = start + on_bus(&t, PAGE) + t.program;
    let erase = bench.erase(next());
    let asked = start + on_bus(&t, 0) + Ns::ms(1);
    let read = bench.read_at(asked, held(), 4096);
    bench.kernel.run();
    assert_eq!(read.at(), asked + t.read + on_bus(&t, SECTOR));
    let alone = start + on_bus(&t, 0) + t.erase;
    assert_eq!(erase.at(), alone + t.read + t.suspend);
    assert_eq!(bench.nand.media().erases(block(0, 0, 1)), 1);
    assert_eq!(bench.nand.media().written(block(0, 0, 1)), 0);
}

#[test]
fn a_suspended_program_is_torn_at_a_cut() {
    let (bench, start) = ready(READS_FIRST);
    let t = tlc();
    bench.program(next(), 2);
    let asked = start + on_bus(&t, PAGE) + Ns::us(100);
    let read = bench.read_at(asked, held(), 4096);
    bench.kernel.run_until(asked + Ns::us(10));
    assert!(!read.is_over(), "the read has the die");
    let media = bench.cut();
    assert_eq!(media.written(block(0, 0, 1)), 1);
    assert!(!media.is_readable(block(0, 0, 1), 0));
    assert!(media.is_readable(block(0, 0, 0), 0));
}
