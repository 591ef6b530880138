//! The trace of the flash against times that are known to the nanosecond.

use super::bench::{Bench, READS_FIRST, SHAPE, block, on_bus, tlc};
use nand::{Faults, Parts, Place, Priority, Row, Served, Work};
use units::Ns;

const SECTOR: u64 = 4096;
const PAGE: u64 = SHAPE.page_bytes as u64;

fn held() -> Row {
    Row::single(block(0, 0, 0), 0)
}

/// A traced bench with a programmed page in block 0 of die 0, and its present time.
fn ready() -> (Bench, Ns) {
    let bench = Bench::with(SHAPE, Faults::default(), READS_FIRST);
    bench.programmed(held(), 1).unwrap();
    bench.nand.start_trace();
    let now = bench.kernel.sim().now();
    (bench, now)
}

#[test]
fn suspended_program_is_served_before_and_after_the_read() {
    let (bench, start) = ready();
    let t = tlc();
    let _ = bench.program(Row::single(block(0, 0, 1), 0), 2);
    let loaded = start + on_bus(&t, PAGE);
    let asked = loaded + Ns::us(100);
    let _ = bench.read_at(asked, held(), 4096);
    bench.kernel.run();
    let served = bench.nand.tracer().take();
    let told = |s: &Served| (s.place, s.work, s.label, s.begin, s.end);
    let sensed = asked + t.read;
    let (die, channel) = (Place::Die(0), Place::Channel(0));
    let (program, label) = (Work::Program, Some(1_002));
    let end = loaded + t.program + t.read + t.suspend;
    let expected = [
        (channel, program, label, start, loaded),
        (die, program, label, loaded, asked),
        (die, Work::Read, None, asked, sensed),
        (
            channel,
            Work::Read,
            None,
            sensed,
            sensed + on_bus(&t, SECTOR),
        ),
        (die, program, label, sensed, end),
    ];
    assert_eq!(served.iter().map(told).collect::<Vec<_>>(), expected);
    assert!(bench.nand.tracer().take().is_empty());
}

#[test]
fn read_behind_another_has_the_parts_of_its_time() {
    let (bench, _) = ready();
    let parts = bench.kernel.block_on({
        let nand = std::rc::Rc::clone(&bench.nand);
        let sim = bench.kernel.sim();
        async move {
            let first = nand.read_at_once(held(), 16_384, Priority::Normal).unwrap();
            let second = nand.read_at_once(held(), 4096, Priority::Normal).unwrap();
            sim.sleep(Ns::ms(10)).await;
            let parts = [
                nand.tracer().parts(&first).unwrap(),
                nand.tracer().parts(&second).unwrap(),
            ];
            assert_eq!(
                [nand.take_end(&first), nand.take_end(&second)],
                [Some(Ok(())); 2]
            );
            parts
        }
    });
    let t = tlc();
    let first = Parts {
        die: t.read,
        channel: on_bus(&t, PAGE),
        ..Parts::default()
    };
    let second = Parts {
        die_wait: t.read,
        die: t.read,
        channel_wait: Ns::ZERO,
        channel: on_bus(&t, SECTOR),
        behind: Some(Work::BackgroundRead),
    };
    assert_eq!(parts, [first, second]);
}
