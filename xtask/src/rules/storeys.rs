//! Dependencies point down.
//!
//! The storeys from the top: `flashloom`, `python`, `front/*`, `lab/*`, `systems/*`, `baselines/*`,
//! `core/*`, and `testing/*`, which only tests use. A crate may use any crate of a storey below its
//! own. Crates of one storey do not know each other, with four exceptions: `core` is a ladder of
//! its own; `lab/stack` combines other rooms of the lab, and `lab/machine` those that memory
//! systems need; every room of the lab may use `lab/input` and `lab/whole`, which read and write
//! files; and every room of `front` may use `front/engine`, which holds their shared parts that the
//! storeys below must not have: threads, a clock, files. `xtask` stands beside the house: it uses
//! no crate of the workspace, and no crate uses it. The rule includes dependencies of tests.

use crate::tree::Crate;
use crate::{Finding, Tree};

/// Storeys from the bottom up: the first part of a crate's folder.
const STOREYS: &[&str] = &[
    "testing",
    "core",
    "baselines",
    "systems",
    "lab",
    "front",
    "python",
    "flashloom",
];

/// The rooms of `core` from the bottom up.
const CORE: &[&str] = &["units", "sim", "nand", "ssd", "host", "vfs"];

const NEW_STOREY: &str = "put the crate on a storey that ARCHITECTURE.md names, and a new room of \
     `core` on its rung of the ladder in xtask/src/rules/storeys.rs";

/// Edges that point up or sideways, and crates outside the storeys.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.crates {
        let homeless = place(&member.folder).is_none() && member.folder != "xtask";
        if homeless {
            let what = format!("`{}` lives on no storey", member.folder);
            findings.push(Finding::new(&manifest(member), 1, what, NEW_STOREY));
        }
        let wrong = member
            .needs
            .iter()
            .filter_map(|need| refuse(&member.folder, need));
        for (need, remedy) in wrong {
            findings.push(edge(tree, member, need, remedy));
        }
    }
    findings
}

fn manifest(member: &Crate) -> String {
    format!("{}/Cargo.toml", member.folder)
}

fn edge(tree: &Tree, member: &Crate, need: &str, remedy: &str) -> Finding {
    let path = manifest(member);
    let room = need.rsplit('/').next().unwrap_or(need);
    let source = tree.source(&path);
    let line = source.map_or(1, |source| source.line_of(&format!("{room}.")));
    let what = format!("`{}` must not depend on `{need}`", member.folder);
    Finding::new(&path, line, what, remedy)
}

/// The storey of a folder, as an index into `STOREYS`, and the room in it.
fn place(folder: &str) -> Option<(usize, &str)> {
    let (storey, room) = folder.split_once('/').unwrap_or((folder, ""));
    let rank = STOREYS.iter().position(|&name| name == storey)?;
    let known = storey != "core" || CORE.contains(&room);
    known.then_some((rank, room))
}

/// The edge's target and the remedy, if the edge from `from` to `to` is wrong.
fn refuse<'a>(from: &str, to: &'a str) -> Option<(&'a str, &'static str)> {
    let beside = "xtask uses no crate of the workspace and no crate uses xtask";
    let (Some((above, user)), Some((below, used))) = (place(from), place(to)) else {
        return (from == "xtask" || to == "xtask").then_some((to, beside));
    };
    let allowed = above > below || (above == below && allowed_within(STOREYS[above], user, used));
    (!allowed).then(|| (to, remedy(STOREYS[above], above == below)))
}

fn allowed_within(storey: &str, user: &str, used: &str) -> bool {
    let rung = |room| CORE.iter().position(|&name| name == room);
    match storey {
        "core" => rung(user) > rung(used),
        "lab" if ["input", "whole"].contains(&used) => !["input", "whole"].contains(&user),
        "lab" => match user {
            "stack" => ["workload", "report", "crash", "placed"].contains(&used),
            "machine" => ["programs", "report"].contains(&used),
            _ => false,
        },
        "front" => user != "engine" && used == "engine",
        _ => false,
    }
}

fn remedy(storey: &str, sideways: bool) -> &'static str {
    match (storey, sideways) {
        ("core", true) => {
            "core is a ladder (units, sim, nand, ssd, host, vfs): move what both need to the \
             lower rung, or take it as a parameter"
        }
        ("front", true) => "of the fronts, all may know front/engine and no other",
        ("lab", true) => {
            "only lab/stack and, of memory systems, lab/machine know other rooms of the lab than \
             lab/input and lab/whole: connect them there"
        }
        (_, true) => {
            "rooms of one storey do not know each other: move what both need down a storey"
        }
        (_, false) => "dependencies point down: move what is needed below both, or pass it in",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> bool {
        let member = Crate {
            name: from.to_owned(),
            folder: from.to_owned(),
            needs: vec![to.to_owned()],
        };
        let crates = vec![member];
        let tree = Tree {
            crates,
            ..Tree::default()
        };
        !find(&tree).is_empty()
    }

    #[test]
    fn downward_edges_are_allowed() {
        for (from, to) in [
            ("flashloom", "core/units"),
            ("front/nbd", "lab/stack"),
            ("lab/stack", "systems/bytefs"),
            ("systems/bytefs", "baselines/extfs"),
            ("baselines/extfs", "core/vfs"),
            ("core/host", "core/ssd"),
            ("lab/stack", "lab/report"),
            ("lab/stack", "lab/workload"),
            ("lab/machine", "lab/programs"),
            ("lab/machine", "lab/report"),
            ("lab/workload", "lab/input"),
            ("lab/crash", "lab/whole"),
            ("front/fuse", "front/engine"),
            ("python", "lab/stack"),
            ("lab/report", "testing/browser"),
        ] {
            assert!(!refused(from, to), "{from} -> {to}");
        }
    }

    #[test]
    fn upward_edges_are_rejected() {
        for (from, to) in [
            ("core/nand", "core/ssd"),
            ("core/vfs", "baselines/extfs"),
            ("baselines/extfs", "systems/bytefs"),
            ("systems/bytefs", "lab/stack"),
            ("lab/stack", "front/nvme"),
            ("front/fuse", "python"),
            ("python", "flashloom"),
            ("testing/browser", "core/units"),
        ] {
            assert!(refused(from, to), "{from} -> {to}");
        }
    }

    #[test]
    fn sideways_edges_are_rejected() {
        for (from, to) in [
            ("core/sim", "core/sim"),
            ("systems/bytefs", "systems/hyfim"),
            ("lab/report", "lab/workload"),
            ("lab/workload", "lab/report"),
            ("lab/report", "lab/stack"),
            ("lab/machine", "lab/stack"),
            ("lab/input", "lab/report"),
            ("lab/whole", "lab/input"),
            ("lab/stack", "lab/machine"),
            ("lab/programs", "lab/machine"),
            ("lab/crash", "lab/stack"),
            ("front/fuse", "front/nbd"),
            ("front/engine", "front/fuse"),
        ] {
            assert!(refused(from, to), "{from} -> {to}");
        }
    }

    #[test]
    fn edges_to_and_from_xtask_are_rejected() {
        assert!(refused("xtask", "core/units"));
        assert!(refused("flashloom", "xtask"));
    }

    #[test]
    fn crate_outside_the_storeys_is_found() {
        assert!(refused("attic", "core/units"));
        assert!(refused("core/unheard", "core/units"));
    }

    #[test]
    fn finding_names_the_line_of_the_manifest() {
        let member = Crate {
            name: "nand".to_owned(),
            folder: "core/nand".to_owned(),
            needs: vec!["core/ssd".to_owned()],
        };
        let text = "[dependencies]\nunits.workspace = true\nssd.workspace = true\n";
        let tree = Tree {
            sources: vec![crate::tree::Source::new("core/nand/Cargo.toml", text)],
            crates: vec![member],
            ..Tree::default()
        };
        assert_eq!(find(&tree)[0].line, 3);
    }
}
