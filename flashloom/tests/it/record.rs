//! Recordings of programs, and their summaries.

use super::Bench;
use workload::files::trace::FileTrace;

#[test]
fn a_recording_is_told_shown_and_converted() {
    let bench = Bench::new();
    let words = [
        "record",
        "-o",
        "t.flt",
        "--",
        "sh",
        "-c",
        "echo hello > a; cat a; mv a b",
    ];
    let said = bench.run_words(&words);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "hello\n"));
    assert!(said.err.starts_with("flashloom: t.flt: "), "{}", said.err);
    let info = bench.json("trace info t.flt", "flashloom.file-trace-info/1");
    assert_eq!(info["command"], "sh -c echo hello > a; cat a; mv a b");
    let kinds = info["kinds"].as_array().unwrap();
    let calls = |name: &str| {
        let kind = kinds.iter().find(|kind| kind["call"] == name);
        kind.map_or(0, |kind| kind["calls"].as_u64().unwrap())
    };
    assert_eq!((calls("pwrite"), calls("rename")), (1, 1));
    assert_eq!(info["write_bytes"], 6);
    let head = bench.run("trace head t.flt -n 100");
    assert!(head.out.contains("pwrite fd="), "{}", head.out);
    assert!(
        bench
            .run("trace convert t.flt --to flt-text t.txt")
            .out
            .contains("flt-text")
    );
    assert!(bench.text("t.txt").starts_with("flashloom file calls 1\n"));
    bench.run("trace convert t.txt --to flt again.flt");
    assert_eq!(bench.read("again.flt"), bench.read("t.flt"));
}

#[test]
fn the_status_of_the_program_is_passed_on() {
    let bench = Bench::new();
    let run = |script: &str| bench.run_words(&["record", "-o", "t.flt", "--", "sh", "-c", script]);
    assert_eq!(run("exit 7").code, Some(7));
    assert_eq!(run("kill -9 $$").code, Some(128 + 9));
}

#[test]
fn a_recording_can_be_narrowed_to_a_directory() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("in")).unwrap();
    bench.write("in/before", "12345");
    let script = "echo a > in/a; echo b > b; cat in/before > /dev/null";
    let words = [
        "record", "--under", "in", "-o", "t.flt", "--", "sh", "-c", script,
    ];
    assert_eq!(bench.run_words(&words).code, Some(0));
    let trace = FileTrace::open(bench.path("t.flt"))
        .unwrap()
        .load()
        .unwrap();
    let known = |name: &[u8]| trace.names.find(name).is_some();
    assert!(known(b"a") && known(b"before") && !known(b"b"));
    assert_eq!(trace.setup.entries.len(), 1);
}

/// For example, a clone of a repository on the same disk links its objects.
#[test]
fn file_linked_from_elsewhere_is_part_of_the_recording() {
    let (bench, elsewhere) = (Bench::new(), Bench::new());
    elsewhere.write("pack", vec![1; 10_000]);
    let script = format!("ln {} a; cat a", elsewhere.path("pack").display());
    bench.run_words(&["record", "-o", "t.flt", "--", "sh", "-c", &script]);
    let line = "run ext4@block --workload t.flt --size 64MiB --precondition fresh";
    let run = bench.json(line, "flashloom.run/1");
    assert_eq!(run["errors"], serde_json::json!({}));
    assert_eq!(run["app"]["mismatches"], serde_json::json!({}));
    assert_eq!(run["latency_ns"]["by_op"]["link"]["count"], 1);
}

#[test]
fn invalid_recording_is_rejected_in_a_sentence() {
    let bench = Bench::new();
    for (line, wants) in [
        ("record -o t.flt -- /nonexistent/program", "No such file"),
        ("record -o no/t.flt -- true", "expected a directory no"),
        ("record -o t.flt --under none -- true", "none: No such file"),
        ("record -o t.flt", "<CMD>"),
        ("record -- true", "--out"),
    ] {
        let said = bench.run(line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(said.err.contains(wants), "{line}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{line}: {}", said.err);
    }
}

#[test]
fn a_trace_of_calls_is_not_taken_for_one_of_blocks() {
    let bench = Bench::new();
    bench.write("t.txt", "flashloom file calls 1\nend events=0\n");
    bench.write("b.csv", "0,R,8,8,x\n");
    for (line, wants) in [
        (
            "trace convert t.txt --to csv o",
            "the trace holds file calls",
        ),
        (
            "trace convert b.csv --to flt o",
            "the trace holds no file calls",
        ),
        (
            "trace convert b.csv --to spc o",
            "expected an output format (csv, msr, mqsim, fio, blkparse, flb, flt or flt-text)",
        ),
    ] {
        let said = bench.run(line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(said.err.contains(wants), "{line}: {}", said.err);
    }
    bench.write("broken.flt", b"flfiles\x01none");
    let said = bench.run("trace info broken.flt");
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.starts_with("flashloom: broken.flt: "),
        "{}",
        said.err
    );
}

/// Starts `words` in the background, sends the process a signal once the file `started` exists, and
/// waits.
fn interrupted(bench: &Bench, words: &[&str], signal: &str) -> std::process::ExitStatus {
    let child = crate::heeding()
        .args(words)
        .current_dir(bench.path(""))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut child = crate::Guarded(child);
    for _ in 0..3_000 {
        if bench.path("started").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.signal(signal);
    child.ended()
}

#[test]
fn recording_that_is_asked_to_end_is_whole_and_its_program_gone() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let bench = Bench::new();
        let script = "echo $$ > pid; echo hello > a; echo > started; exec sleep 1000";
        let words = ["record", "-o", "t.flt", "--", "sh", "-c", script];
        let status = interrupted(&bench, &words, signal);
        assert_eq!(status.code(), Some(code));
        let info = bench.json("trace info t.flt", "flashloom.file-trace-info/1");
        assert!(info["write_bytes"].as_u64().unwrap() > 6, "{info}");
        let pid = bench.text("pid");
        let process = std::path::Path::new("/proc").join(pid.trim());
        assert!(!process.exists(), "the program goes on");
    }
}

#[test]
fn recording_ends_as_a_program_that_takes_the_signal_for_itself() {
    let bench = Bench::new();
    let script = "trap 'echo asked > asked; exit 7' TERM; echo > started; \
                  while :; do sleep 0.05; done";
    let words = ["record", "-o", "t.flt", "--", "sh", "-c", script];
    assert_eq!(interrupted(&bench, &words, "-TERM").code(), Some(7));
    assert_eq!(bench.text("asked"), "asked\n");
    assert!(bench.path("t.flt").exists());
}
