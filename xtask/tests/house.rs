//! The house rules, applied to the workspace as it is.

use std::sync::LazyLock;
use xtask::{Tree, rules, workspace_root};

static TREE: LazyLock<Tree> =
    LazyLock::new(|| Tree::read(&workspace_root()).expect("the workspace can be read"));

fn holds(name: &str) {
    let rule = rules::ALL.iter().find(|rule| rule.name == name);
    let findings = (rule.expect("a rule of that name").find)(&TREE);
    let list: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

macro_rules! house_rules {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { holds($name); })*

        #[test]
        fn every_rule_has_a_test() {
            let tested = [$($name),*];
            let rules: Vec<_> = rules::ALL.iter().map(|rule| rule.name).collect();
            assert_eq!(rules, tested);
        }
    };
}

house_rules! {
    every_file_parses: "files parse",
    dependencies_point_down: "dependencies point down",
    nothing_banned_is_mentioned: "banned paths",
    every_crate_takes_the_lints: "lints of the workspace",
    files_and_functions_are_short: "lengths",
    prose_gets_plainer: "prose",
    the_map_is_the_territory: "map of the crates",
    no_word_is_out_of_place: "unfinished work and detours",
    what_others_wrote_is_free: "licences",
    every_citation_is_well_formed: "citations",
}

#[test]
fn workspace_was_read() {
    assert!(TREE.crates.iter().any(|c| c.folder == "core/units"));
    assert!(TREE.source("xtask/tests/house.rs").is_some());
}
