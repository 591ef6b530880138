//! Tests of the table of flash parts.

use nand::{PARTS, Part};
use units::Ns;

fn named(name: &str) -> &'static Part {
    Part::named(name).expect("it is in the table")
}

#[test]
fn every_part_can_be_named_and_has_a_source() {
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let expected = ["z-nand", "xl-flash", "slc", "mlc", "tlc", "qlc"];
    assert_eq!(names, expected);
    for part in PARTS {
        assert_eq!(Part::named(part.name), Some(part));
        assert!(part.source.len() > 20, "{}: {:?}", part.name, part.source);
    }
    assert_eq!(Part::named("plc"), None);
    assert_eq!(Part::named("TLC"), None);
}

#[test]
fn every_part_reads_faster_than_it_programs_and_programs_faster_than_it_erases() {
    for part in PARTS {
        let t = part.timing;
        // A program of several pages is compared by the page.
        let program = Ns(t.program.0 / u64::from(part.pages_per_program));
        assert!(t.read < program && program < t.erase, "{}", part.name);
        assert!(t.command > Ns::ZERO && t.command < t.read, "{}", part.name);
        assert!(t.suspend > Ns::ZERO && t.suspend < program, "{}", part.name);
        let mb = t.bus_bytes_per_s / 1_000_000;
        assert!((400..=4_800).contains(&mb), "{}: {mb} MB/s", part.name);
        assert!(
            [1, part.bits_per_cell].contains(&part.pages_per_program),
            "{}",
            part.name
        );
    }
}

#[test]
fn more_bits_in_a_cell_cost_time_and_life() {
    let parts = ["slc", "mlc", "tlc", "qlc"].map(named);
    for (bits, part) in (1..).zip(parts) {
        assert_eq!(part.bits_per_cell, bits);
    }
    for pair in parts.windows(2) {
        let [fewer, more] = [pair[0], pair[1]];
        assert!(fewer.timing.read <= more.timing.read, "{}", more.name);
        assert!(fewer.timing.erase <= more.timing.erase, "{}", more.name);
        assert!(fewer.endurance > more.endurance, "{}", more.name);
    }
    let [slc, _, tlc, qlc] = parts.map(|part| part.timing);
    assert!(slc.read < tlc.read && tlc.read < qlc.read);
    assert!(slc.program < tlc.program && tlc.program < qlc.program);
    assert!(slc.erase < tlc.erase && tlc.erase < qlc.erase);
}

#[test]
fn low_latency_parts_are_faster_than_slc() {
    let slc = named("slc").timing;
    for name in ["z-nand", "xl-flash"] {
        let part = named(name);
        assert_eq!(part.bits_per_cell, 1);
        let t = part.timing;
        assert!(t.read < slc.read && t.program < slc.program && t.erase < slc.erase);
    }
}
