//! Stacks with a remapping layer.

use super::{done, plan, refused};
use crash::Points;
use report::record::{Remapped, Run};
use ssd::Precondition;
use stack::crash::{Cuts, explore};
use stack::{Ending, Plan};
use units::{Bytes, MIB};

fn on(stack: &str, past: Precondition, workload: &str) -> Plan {
    plan(stack, 64, past, workload)
}

fn layer(run: &Run) -> &Remapped {
    run.remap.as_ref().expect("it has a layer")
}

#[test]
fn random_block_writes_are_remapped_without_counting_the_preconditioning() {
    for past in [Precondition::Fresh, Precondition::Full, Precondition::Aged] {
        let ops = 4_000;
        let text = format!("randwrite:ops={ops},bs=4k,depth=16");
        let run = done(&on("raw+remap@block", past, &text));
        assert_eq!((run.ops, run.errors.len()), (ops, 0), "{past:?}");
        let layer = layer(&run);
        assert_eq!(layer.written_bytes, ops * 4096);
        assert_eq!(layer.remapped_sectors, ops * 8);
        let own = layer.log_bytes + layer.paged_bytes + layer.checkpoint_bytes;
        let all = layer.written_bytes + layer.moved_bytes + own;
        assert_eq!(run.host.write_bytes, all, "all that it writes is told");
        let mapped = layer.mapped_bytes == layer.offered_bytes;
        assert_eq!(mapped, past != Precondition::Fresh, "{past:?}");
        // Data moved by cleaning is logged too.
        let is_clean = layer.moved_bytes == 0;
        let log = layer.log_blocks_per_2mib;
        assert_eq!((0.9..1.3).contains(&log), is_clean, "{layer:?}");
        assert!(layer.compact_bytes < layer.tree_bytes, "{layer:?}");
        assert_eq!(layer.table_bytes, layer.compact_bytes);
        assert_eq!(
            (layer.background_errors, layer.variant.as_str()),
            (0, "compact")
        );
        // The preconditioning hit that limit too, but is not counted.
        let met = run
            .refusals
            .iter()
            .find(|met| met.limit == "units in a run");
        assert_eq!(met.is_some(), layer.foreground_passes > 0, "{past:?}");
        assert!(met.is_none_or(|met| met.first_ns > 0), "{past:?}");
    }
}

#[test]
fn aged_drive_is_not_read_only_when_copies_are_overwritten() {
    let short = [9, 35, 41, 48, 56].map(|seed| (seed, "randwrite:ops=20"));
    for (seed, text) in short
        .into_iter()
        .chain([(1_044_633, "randwrite:ops=8000,flush=20")])
    {
        let mut plan = plan("raw+remap@block", 32, Precondition::Aged, text);
        plan.seed = seed;
        assert!(done(&plan).errors.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_lean_layer_pages_its_tables_and_a_tree_takes_more_memory() {
    let text = "randwrite:ops=4000,bs=4k,depth=16";
    let lean = done(&on("raw+remap-lean@block", Precondition::Full, text));
    let lean = layer(&lean);
    assert!(
        lean.tables_dropped > 16 && lean.tables_read > 16,
        "{lean:?}"
    );
    let tree = done(&on("raw+remap-tree@block", Precondition::Full, text));
    let tree = layer(&tree);
    assert_eq!((tree.tables_dropped, tree.variant.as_str()), (0, "tree"));
    assert!(tree.table_bytes > tree.compact_bytes && tree.table_bytes > 3 * lean.table_bytes);
}

#[test]
fn discards_reach_the_drive_if_requested() {
    let text = "delete:files=200,size=64k,threads=2";
    for (stack, trims) in [
        ("ext4+discard+remap@block", false),
        ("ext4+discard+remap-trim@block", true),
    ] {
        let run = done(&on(stack, Precondition::Fresh, text));
        let layer = layer(&run);
        assert!(layer.discarded_bytes > 64 * 1024, "{layer:?}");
        assert_eq!(layer.trimmed_bytes > 0, trims, "{layer:?}");
        assert_eq!(run.host.trim_bytes > 0, trims);
    }
}

#[test]
fn file_systems_over_the_layer_run_unmount_and_recover() {
    for stack in [
        "ext4+remap@block",
        "btrfs+remap-tree@block",
        "f2fs+remap-lean@block",
    ] {
        let mut plan = plan(
            stack,
            128,
            Precondition::Fresh,
            "varmail:files=100,threads=4,ops=2000",
        );
        for ending in [Ending::Unmount, Ending::Remount, Ending::PowerCut] {
            plan.ending = ending;
            let run = done(&plan);
            assert_eq!((run.ops, run.errors.len()), (2_000, 0), "{stack}");
            let app = run.app.as_ref().expect("of files");
            assert!(app.mismatches.is_empty(), "{stack}");
            let layer = layer(&run);
            assert!(layer.written_bytes > 0 && layer.recovery_ns > 0, "{stack}");
            let recovered = layer.recovered_transactions > 0;
            assert_eq!(recovered, ending == Ending::PowerCut, "{stack} {ending:?}");
        }
    }
}

#[test]
fn requests_stay_within_the_capacity_that_the_layer_offers() {
    let whole = on(
        "raw+remap@block",
        Precondition::Fresh,
        "seqwrite:span=64m,ops=10",
    );
    let sentence = refused(&whole).to_string();
    assert!(sentence.contains("of the drive"), "{sentence}");
    let mut tiny = on("raw+remap@block", Precondition::Fresh, "randwrite:ops=1");
    tiny.drive = tiny.drive.resized(Bytes(512 << 10));
    let sentence = refused(&tiny).to_string();
    assert!(sentence.contains("too small"), "{sentence}");
}

fn cuts(stack: &str, workload: &str, points: u64, lies: bool) -> crash::Exploration {
    let mut plan = plan(stack, 32, Precondition::Fresh, workload);
    plan.drive.controller.power_loss_protection = false;
    let cuts = Cuts {
        plan,
        points: Points::Some(points),
        outside: 0,
        memory: Bytes(64 * MIB),
        lies,
        reorders: false,
        skips_fences: false,
        snapshot: false,
        rest: None,
    };
    explore(&cuts, &mut |_| ()).expect("it can be run")
}

const BLOCKS: &str = "randwrite:ops=400,bs=4k/70:16k/30,flush=20,depth=4";

#[test]
fn power_cuts_keep_flushed_blocks() {
    for stack in [
        "raw+remap@block",
        "raw+remap-lean+remap-trim@block",
        "raw@block",
    ] {
        let found = cuts(stack, BLOCKS, 60, false);
        assert!(found.holds(), "{stack}: {:#?}", found.failures.first());
        assert_eq!(found.points, 60);
    }
}

#[test]
fn a_drive_that_does_not_flush_is_found_out() {
    assert!(!cuts("raw+remap@block", BLOCKS, 100, true).holds());
}

#[test]
fn power_cuts_keep_synced_files() {
    for stack in ["ext4+remap@block", "f2fs+remap-lean@block"] {
        let mut plan = plan(stack, 64, Precondition::Fresh, "anything:ops=300");
        plan.drive.controller.power_loss_protection = false;
        let cuts = Cuts {
            plan,
            points: Points::Some(12),
            outside: 0,
            memory: Bytes(64 * MIB),
            lies: false,
            reorders: false,
            skips_fences: false,
            snapshot: false,
            rest: None,
        };
        let found = explore(&cuts, &mut |_| ()).expect("it can be run");
        assert!(found.holds(), "{stack}: {:#?}", found.failures.first());
    }
}
