//! Rules that are learned from a recording.

use super::Bench;

/// Short-lived logs and tables that stay, made by a shell.
const SCRIPT: &str = "for i in 1 2 3 4 5 6 7 8; do \
    head -c 65536 /dev/zero > $i.log; head -c 65536 /dev/zero > $i.sst; rm $i.log; done";

#[test]
fn rules_are_learned_and_set_beside_others() {
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
        "learning meanwhile",
    ];
    assert_eq!(by, all);
    // Two streams: nothing is lost but how long each lives, which no hint says.
    let told = found["lost"].as_array().unwrap();
    assert_eq!(told.len(), 4);
    // They place files in a run as they do on paper.
    let run = bench.json(
        "run shimmer@zns --rules r.toml --workload t.flt --size 192MiB",
        "flashloom.run/1",
    );
    assert_eq!(run["errors"].as_object().unwrap().len(), 0);
    let rules = bench.text("r.toml");
    assert!(rules.contains("path = \"#.log\""), "{rules}");
    assert!(rules.contains("path = \"#.sst\""), "{rules}");
    // What was written can be set beside itself, and says the same.
    let again = bench.json(
        "learn t.flt -o s.toml --against r.toml",
        "flashloom.learn/1",
    );
    let tried = again["write_amplification"].as_array().unwrap();
    assert_eq!(tried[1]["ratio"], tried[2]["ratio"]);
}

#[test]
fn a_mistake_in_rules_is_said_with_its_place() {
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
