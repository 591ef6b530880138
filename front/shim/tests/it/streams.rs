//! Streams of the C library over placed files.

use super::Place;
use super::place::{bare, compare, rule, rules, script, text, zones};

#[test]
fn stream_reports_writes_that_full_zones_refused() {
    let place = Place::new();
    let program = place.build(include_str!("full.c"), "full");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let said = script(&place, program.to_str().unwrap(), &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(said.status.success(), "{out}{error}");
    let said: Vec<_> = out
        .lines()
        .filter_map(|line| line.split(" = ").last())
        .collect();
    let told = [
        "1", "1", "1", "0", "1", "0", "100", "1", "1", "100", "1", "0", "1",
    ];
    assert_eq!(said, told, "{out}{error}");
}

#[test]
fn freopen_detaches_the_stream_from_its_placed_file() {
    let place = Place::new();
    let program = place.build(include_str!("reopened.c"), "reopened");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    compare(&place, &program, &rules, Some(&zones));
}

#[test]
fn output_of_dprintf_is_in_zones() {
    let place = Place::new();
    let program = place.build(include_str!("printed.c"), "printed");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    compare(&place, &program, &rules, Some(&zones));
    assert!(bare(&place.path("with/a.log")) > 0);
}
