//! Mappings of placed files, and the pins that keep their zones from being reset.

use super::Place;
use super::place::{compare, rule, rules, text, zones};
use std::process::Command;

#[test]
fn mapped_zones_are_not_reset() {
    let place = Place::new();
    let behind = place.path("behind.c");
    std::fs::write(&behind, include_str!("behind.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]);
    cc.arg(place.path("libbehind.so")).arg(behind);
    assert!(cc.status().unwrap().success());
    let program = place.build_with(include_str!("unmaps.c"), "unmaps", &["behind"]);
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
}
