//! Workloads selected by name.

use input::named::Unit;
use programs::{PRESETS, PUBLISHED, Published, TRACE, Workload, characterise, published};
use sim::Seed;
use std::fs;
use std::process::Command;

#[test]
fn defaults_are_accepted_by_their_units() {
    for preset in PRESETS.iter().chain([&TRACE]) {
        for param in preset.params() {
            assert!(
                param.unit.accepts(param.default),
                "{} {}",
                preset.name,
                param.name
            );
            assert!(!param.unit.accepts("nonsense"));
            assert!(!param.unit.expectation().is_empty());
        }
    }
}

#[test]
fn presets_fill_a_small_footprint() {
    for preset in &PRESETS {
        let text = format!("{}:footprint=16MiB,threads=3,section=whole", preset.name);
        let workload = Workload::parse(&text).unwrap();
        let found = characterise(&mut *workload.program(Seed(1)).unwrap());
        // The footprint also contains tables of the threads, and each structure begins at a page
        // boundary.
        let filled = found.footprint_bytes as f64 - f64::from(1 << 20);
        let share = filled / f64::from(16 << 20);
        assert!((0.9..1.15).contains(&share), "{text}: {share}");
        assert!(found.touched_bytes > 1 << 22, "{text}: {found:?}");
        assert!(
            found.loads > 1000 && found.instructions > found.loads,
            "{text}"
        );
    }
}

#[test]
fn scales_divide_the_published_footprints() {
    let footprint = |text: &str| Workload::parse(text).unwrap().footprint().unwrap().0;
    for Published {
        name,
        footprint: whole,
        ..
    } in PUBLISHED
    {
        assert_eq!(footprint(&format!("{name}:scale=paper")), whole.0);
        assert_eq!(footprint(&format!("{name}:scale=medium")), whole.0 / 16);
        assert_eq!(footprint(name), whole.0 / 256);
    }
    // The paper's simulator touched 573 MB in bc.
    assert_eq!(footprint("bc:footprint=replayed"), 573_000_000 / 256);
    assert_eq!(
        footprint("bc:scale=medium,footprint=replayed"),
        573_000_000 / 16
    );
    // The smallest size of a program.
    assert_eq!(footprint("tpcc:footprint=replayed"), 1 << 20);
    assert_eq!(published("ycsb").unwrap().misses_per_10k, 922);
}

#[test]
fn sections_are_the_papers_divided_by_the_scale() {
    let measured = |text: &str| {
        let mut program = Workload::parse(text).unwrap().program(Seed(1)).unwrap();
        characterise(&mut *program).instructions
    };
    for name in ["bfs", "bc", "srad", "ycsb"] {
        for (scale, wanted) in [
            ("small", 800_000_000 / 256),
            ("small,threads=24", 800_000_000 / 256),
        ] {
            let found = measured(&format!("{name}:scale={scale}")) as f64;
            let share = found / f64::from(wanted);
            assert!((0.99..1.02).contains(&share), "{name} {scale}: {share}");
        }
    }
    let short = measured("radix:section=8000");
    assert!((7_900..8_100).contains(&short), "{short}");
    let whole = measured("ycsb:footprint=4MiB,section=whole");
    assert!(whole > 1_500_000, "{whole}");
}

#[test]
fn invalid_workloads_have_readable_errors() {
    let refused = |text: &str| Workload::parse(text).unwrap_err().to_string();
    for (text, sentence) in [
        ("bsf", "expected one of bfs, bc, radix"),
        ("radixs", "found \"radixs\"; did you mean radix"),
        (
            "bfs:threads=0",
            "bfs: threads: expected a whole number from 1 to 4096, found \"0\"",
        ),
        (
            "bfs:letter=a",
            "bfs: expected one of the parameters graph, degree, searches",
        ),
        (
            "ycsb:letter=e",
            "ycsb: letter: expected one of a, b, c, f, found \"e\"",
        ),
        (
            "radix:footprint=1TiB",
            "radix: footprint: expected a size from 1MiB to 16GiB, or replayed, found \"1TiB\"",
        ),
        (
            "dlrm:footprint=replayed",
            "dlrm: footprint: expected a size, as what the paper's simulator touched of it is not published, found",
        ),
        (
            "radix:section=none",
            "radix: section: expected instructions from 1 to 1000000000000, or whole",
        ),
        (
            "synthetic:mpki=0.0001",
            "synthetic: mpki: expected a decimal from 0.001 to 500",
        ),
    ] {
        assert!(refused(text).contains(sentence), "{}", refused(text));
    }
}

#[test]
fn folders_and_joined_paths_give_threads() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.txt", "a.txt"] {
        fs::write(
            folder.path().join(name),
            " L 1000,8\n S 2000,8\n L 3000,8\n L 1000,8\n",
        )
        .unwrap();
    }
    let path = folder.path().display();
    // Of the four accesses in each trace, one or two are warm-up.
    for (text, loads, stores) in [
        (format!("{path}"), 4, 2),
        (format!("{path}/a.txt+{path}/b.txt:warm=50"), 4, 0),
    ] {
        let workload = Workload::parse(&text).unwrap();
        let mut program = workload.program(Seed(1)).unwrap();
        assert_eq!(program.threads(), 2, "{text}");
        let found = characterise(&mut *program);
        assert_eq!((found.loads, found.stores), (loads, stores), "{text}");
    }
}

#[test]
fn characters_count_the_measured_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::write(
        &path,
        "I  01,1\n L 1000,8\nI  02,1\nI  03,1\n S 103c,8\n L 2000,8\n",
    )
    .unwrap();
    let text = format!("{}:warm=0", path.display());
    let found = characterise(&mut *Workload::parse(&text).unwrap().program(Seed(1)).unwrap());
    assert_eq!((found.loads, found.stores, found.instructions), (2, 2, 5));
    assert_eq!(found.touched_bytes, 2 * 4096);
    // Two lines are touched in one page and one line in the other; in the first, both lines are
    // stored to.
    assert_eq!(found.pages_by_lines_touched[0], 2);
    assert_eq!(found.pages_by_lines_stored[0], 1);
    assert!((found.share_up_to(1) - 1.0).abs() < 1e-9);
    assert!((found.write_share() - 0.5).abs() < 1e-9);
}

#[test]
fn unusable_traces_have_readable_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("bare")).unwrap();
    fs::write(path("nothing"), "").unwrap();
    fs::write(path("idle"), "I  01,1\nI  02,1\n").unwrap();
    fs::write(path("one"), " L 1000,8\n").unwrap();
    let pipe = path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let regular = "expected a regular file, as a trace is read more than once, found a pipe";
    let here = folder.path().display();
    for (text, sentence) in [
        (format!("{here}/pipe"), regular),
        (format!("{here}/one+{here}/pipe"), regular),
        ("/dev/null:format=champsim".to_owned(), regular),
        (
            format!("{here}/nothing:format=champsim"),
            "nothing: expected accesses to memory, found nothing",
        ),
        (
            format!("{here}/one+{here}/nothing:format=lackey"),
            "nothing: expected accesses to memory, found nothing",
        ),
        (
            format!("{here}/idle"),
            "idle: expected accesses to memory, found none in any thread",
        ),
        (
            format!("{here}/bare"),
            "bare: expected the traces of some threads, found none",
        ),
    ] {
        let refused = Workload::parse(&text).unwrap().program(Seed(1)).err();
        let refused = refused.map_or_else(String::new, |error| error.to_string());
        assert!(refused.contains(sentence), "{text}: {refused:?}");
    }
}

#[test]
fn macsim_folders_use_the_files_of_their_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut record = vec![0; 80];
    (record[23], record[33], record[72]) = (1, 0x10, 8);
    for thread in [0, 2] {
        fs::write(path(&format!("trace_{thread}.raw")), &record).unwrap();
    }
    // Other files beside the listed ones are not threads.
    fs::write(path("trace_1.raw"), [1; 10]).unwrap();
    fs::write(path("info"), [0xff; 100]).unwrap();
    fs::write(path("trace.txt"), "x86 1.3\n2\n0 0\n2 0\n").unwrap();
    let folder = folder.path().display().to_string();
    let program = || Workload::parse(&folder).unwrap().program(Seed(1));
    assert_eq!(program().unwrap().threads(), 2);
    fs::write(path("other.txt"), "x86 1.3\n1\n0 0\n").unwrap();
    let refused = program().err().unwrap().to_string();
    let sentence = "expected one list of threads, found 2: name the one that is meant";
    assert!(refused.ends_with(sentence), "{refused}");
}
