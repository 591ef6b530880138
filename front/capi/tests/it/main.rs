//! C programs at the library: they are compiled with `cc`, linked both ways, and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Folder of this crate.
const HOME: &str = env!("CARGO_MANIFEST_DIR");

/// Links the library in.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    Static,
    Dynamic,
}

/// Folder with the libraries that were built for this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let folder = test.parent().expect("it is in a folder");
    assert!(
        folder.join("libflashloom_c.so").is_file(),
        "expected the library beside {}",
        test.display()
    );
    folder.to_owned()
}

/// Compiles `sources` into `dir`; `None` without a compiler, which CI does not allow.
fn compiled(dir: &Path, sources: &[&str], link: Link) -> Option<PathBuf> {
    let cc = judges::installed("cc")?;
    let (folder, program) = (libraries(), dir.join("program"));
    let mut command = Command::new(cc);
    command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(Path::new(HOME).join("include"));
    command.args(sources.iter().map(|source| Path::new(HOME).join(source)));
    match link {
        Link::Static => command.arg(folder.join("libflashloom_c.a")),
        Link::Dynamic => {
            let rpath = format!("-Wl,-rpath,{}", folder.display());
            command.arg(folder.join("libflashloom_c.so")).arg(rpath)
        }
    };
    command
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    assert_success(&judges::run(&mut command));
    Some(program)
}

/// Runs `program` in `dir`, successfully.
fn ran(dir: &Path, program: &Path, words: &[&str]) -> Output {
    let output = judges::run(Command::new(program).args(words).current_dir(dir));
    assert_success(&output);
    output
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", judges::text(output));
}

#[test]
fn header_and_library_agree_and_bad_calls_are_refused() {
    for link in [Link::Dynamic, Link::Static] {
        let dir = tempfile::tempdir().unwrap();
        let Some(program) = compiled(dir.path(), &["tests/it/layout.c"], link) else {
            return;
        };
        ran(dir.path(), &program, &[]);
    }
}

#[test]
fn header_declares_exactly_the_functions_of_the_library() {
    let read = |path: &str| std::fs::read_to_string(Path::new(HOME).join(path)).unwrap();
    let (header, library) = (read("include/flashloom.h"), read("src/lib.rs"));
    let names_before = |text: &str| -> Option<String> {
        let name = text.rsplit([' ', '*']).next()?;
        name.starts_with("flashloom_").then(|| name.to_owned())
    };
    let is_code = |line: &&str| !line.starts_with([' ', '/', '#']);
    let declarations = header.lines().filter(is_code);
    let declared = declarations.filter_map(|line| names_before(line.split_once('(')?.0));
    let mut declared: Vec<String> = declared.collect();
    let definitions = library.split("#[unsafe(no_mangle)]").skip(1);
    let mut defined: Vec<String> = definitions
        .filter_map(|text| names_before(text.split_once('(')?.0))
        .collect();
    declared.sort();
    defined.sort();
    assert_eq!(declared, defined);
    assert!(defined.len() > 15);
}

/// The first block of the page on this library that is fenced with `language`.
fn shown(language: &str) -> String {
    let page = Path::new(HOME).join("../../docs/book/src/library.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split(&format!("```{language}\n")).nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    block.expect("the page has such a block").to_owned()
}

#[test]
fn programs_of_the_book_are_those_that_are_tested() {
    let example = shown("rust");
    let docs = Path::new(HOME).join("../../lab/stack/src/device/mod.rs");
    let docs = std::fs::read_to_string(docs).unwrap();
    let documented: String = docs
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    assert!(
        documented.contains(example.trim()),
        "the example of stack::device differs"
    );

    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("program.c");
    std::fs::write(&source, shown("c")).unwrap();
    let source = source.to_str().unwrap();
    let Some(program) = compiled(dir.path(), &[source], Link::Dynamic) else {
        return;
    };
    let told = judges::text(&ran(dir.path(), &program, &[]));
    let time: u64 = told.trim().strip_suffix(" ns").unwrap().parse().unwrap();
    assert!((1_000..1_000_000).contains(&time), "{told}");
}

/// The drive of the replay in C.
const AGED: &str = "preset = \"block\"\ncapacity = \"64MiB\"\nprecondition = \"aged\"\n";

/// A trace in MQSim's form: reads and writes of 4 to 32 KiB at random places of 64 MiB.
fn trace() -> String {
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut lines = String::new();
    let mut time = 0;
    for _ in 0..4_000 {
        let (sector, sectors) = (draw(16_000) * 8, 8 + draw(8) * 8);
        lines += &format!("{time} 0 {sector} {sectors} {}\n", draw(2));
        time += draw(60_000);
    }
    lines
}

#[test]
fn replay_in_c_prints_the_record_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path(), &["examples/replay.c"], Link::Dynamic) else {
        return;
    };
    let path = dir.path().join("t.trace");
    std::fs::write(&path, trace()).unwrap();
    let name = path.to_str().unwrap();
    for depth in [0, 6] {
        let words = match depth {
            0 => vec![name.to_owned()],
            depth => vec![name.to_owned(), depth.to_string()],
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = ran(dir.path(), &program, &words);
        let workload = match depth {
            0 => name.to_owned(),
            depth => format!("{name}:depth={depth}"),
        };
        let mut plan = stack::device::setup(AGED).unwrap();
        plan.workload = workload;
        let run = stack::run(&plan, &mut |_| ()).unwrap();
        let (ours, theirs) = (
            String::from_utf8(output.stdout).unwrap(),
            report::to_json(&run),
        );
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            assert_eq!(ours, theirs, "depth {depth}");
        }
        assert_eq!(ours, theirs);
        assert_eq!(run.ops, 4_000);
        let latencies = String::from_utf8(output.stderr).unwrap();
        assert_eq!(latencies.lines().count(), 4_000);
    }
}

#[test]
fn memory_port_serves_a_core_and_gives_the_same_times_again() {
    let dir = tempfile::tempdir().unwrap();
    let sources = ["examples/core.c", "examples/memory_port.c"];
    let Some(program) = compiled(dir.path(), &sources, Link::Static) else {
        return;
    };
    let run = || judges::text(&ran(dir.path(), &program, &[]));
    let told = run();
    assert_eq!(told, run());
    let ticks = told
        .trim()
        .strip_prefix("200 faults, ")
        .expect("all faults end");
    let ticks: u64 = ticks.strip_suffix(" ticks each").unwrap().parse().unwrap();
    // A read of TLC takes some 60 µs with the host; a tick is a third of a nanosecond.
    assert!((100_000..400_000).contains(&ticks), "{ticks}");
}
