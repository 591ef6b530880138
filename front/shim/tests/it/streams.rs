//! Streams of the C library over placed files.

use super::Place;
use super::place::{compare, rule, rules, script, text, zones};

#[test]
fn a_stream_tells_what_full_zones_did_not_take() {
    let place = Place::new();
    let program = place.build(include_str!("full.c"), "full");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let said = script(&place, program.to_str().unwrap(), &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(said.status.success(), "{out}{error}");
    let [yes, none] = [" = 1", " = 0"];
    let all: Vec<_> = out.lines().collect();
    let told = [yes, yes, yes, none, yes, " = 100", yes, yes, yes, none, yes];
    assert_eq!(all.len(), told.len(), "{out}{error}");
    for (line, told) in all.iter().zip(told) {
        assert!(line.ends_with(told), "{out}{error}");
    }
}

#[test]
fn a_stream_that_is_opened_anew_leaves_the_placed_file_that_it_was() {
    let place = Place::new();
    let program = place.build(include_str!("reopened.c"), "reopened");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    compare(&place, &program, &rules, Some(&zones));
}
