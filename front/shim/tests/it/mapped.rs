//! Mappings of placed files, and what keeps their zones as they are.

use super::Place;
use super::place::{compare, rule, rules, text, zones};
use std::process::Command;

#[test]
fn zones_stay_as_they_are_while_a_mapping_of_them_is_there() {
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
