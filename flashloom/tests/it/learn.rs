//! Rules learned from a recording.

use super::Bench;

/// A shell script that makes short-lived logs, and tables that stay.
const SCRIPT: &str = "for i in 1 2 3 4 5 6 7 8; do \
    head -c 65536 /dev/zero > $i.log; head -c 65536 /dev/zero > $i.sst; rm $i.log; done";

#[test]
fn learned_rules_are_compared_with_others() {
    let bench = Bench::new();
    let words = ["record", "-o", "t.flt", "--", "sh", "-c", SCRIPT];
    assert_eq!(bench.run_words(&words).code, Some(0));
    let line = "learn t.flt -o r.toml --against rocksdb";
    let found = bench.json(line, "flashloom.learn/1");
    assert_eq!(found["files"], 16);
    let tried = found["write_amplification"].as_array().unwrap();
    let by: Vec<&str> = tried.iter().map(|t| t["by"].as_str().unwrap()).collect();
    let all = [
        "nothing",
        "rocksdb",
        "what was learned",
        "clusters",
        "learning meanwhile",
    ];
    assert_eq!(by, all);
    // A shell opens both kinds of files alike.
    assert_eq!(found["clusters"], serde_json::json!([[".log", ".sst"]]));
    // Two streams: only the expected lifetimes are lost, which no hint expresses.
    let told = found["lost"].as_array().unwrap();
    assert_eq!(told.len(), 4);
    // The rules work in a real run too.
    let run = bench.json(
        "run shimmer@zns --rules r.toml --workload t.flt --size 192MiB",
        "flashloom.run/1",
    );
    assert_eq!(run["errors"].as_object().unwrap().len(), 0);
    let rules = bench.text("r.toml");
    assert!(rules.contains("path = \"#.log\""), "{rules}");
    assert!(rules.contains("path = \"#.sst\""), "{rules}");
    // Written rules are compared with themselves: the result is the same.
    let again = bench.json(
        "learn t.flt -o s.toml --against r.toml",
        "flashloom.learn/1",
    );
    let tried = again["write_amplification"].as_array().unwrap();
    assert_eq!(tried[1]["ratio"], tried[2]["ratio"]);
}

#[test]
fn learned_rules_help_an_unseen_run() {
    let bench = Bench::new();
    let script = |rounds: u32, log: u32| {
        format!(
            "for i in $(seq {rounds}); do head -c {log} /dev/zero > $i.log; \
            head -c 70000 /dev/zero > $i.sst; [ $i -lt 4 ] || rm $((i - 3)).log; \
            [ $i -lt 41 ] || rm $((i - 40)).sst; done"
        )
    };
    for (trace, script) in [
        ("t.flt", script(120, 50_000)),
        ("u.flt", script(160, 30_000)),
    ] {
        let words = ["record", "-o", trace, "--", "sh", "-c", &script];
        assert_eq!(bench.run_words(&words).code, Some(0));
    }
    let found = bench.json("learn t.flt -o r.toml --on u.flt", "flashloom.learn/1");
    let tried = found["write_amplification"].as_array().unwrap();
    let ratio = |by: &str| tried.iter().find(|one| one["by"] == by).unwrap()["ratio"].as_f64();
    let (learned, nothing) = (
        ratio("what was learned").unwrap(),
        ratio("nothing").unwrap(),
    );
    assert!(learned < nothing, "{learned} of {nothing}");
}

#[test]
fn fault_in_rules_is_reported_with_its_position() {
    let bench = Bench::new();
    bench.write("r.toml", "[[stream]]\nname = \"a\"\nlief = \"short\"\n");
    let said = bench.run("learn rocksdb -o s.toml --against r.toml");
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("r.toml:3:1: expected one of"),
        "{}",
        said.err
    );
    assert!(said.err.contains("did you mean life"), "{}", said.err);
}
