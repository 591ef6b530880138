//! Placed files, pipes and sockets.

use super::Place;
use super::place::{compare, rule, rules, script, text, zones};

#[test]
fn transfers_by_pipes_move_what_fits_as_without_the_library() {
    let place = Place::new();
    let program = place.build(include_str!("pipes.c"), "pipes");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
}

#[test]
fn data_that_full_zones_refuse_stay_in_the_pipe() {
    let place = Place::new();
    let program = place.build(include_str!("pipes.c"), "pipes");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let words = format!("{} full", program.display());
    let said = script(&place, &words, &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(said.status.success(), "{out}{error}");
    let said: Vec<_> = out
        .lines()
        .filter_map(|line| line.split(" = ").last())
        .collect();
    let told = ["0", "1", "0", "1", "1", "1", "1", "200000", "0", "1", "0"];
    assert_eq!(said, told, "{out}{error}");
}
