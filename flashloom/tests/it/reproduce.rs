//! Papers beside the measured values: valid and invalid requests.

use crate::Bench;
use serde_json::Value;
use std::path::Path;

#[test]
fn papers_and_figures_are_listed() {
    let bench = Bench::new();
    let text = bench.done("reproduce --list");
    for name in [
        "bytefs ",
        "bytefs/fig6",
        "Figure 6, 5.2",
        "persimmon/table4.3",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let list = bench.json("reproduce --list", "flashloom.papers/1");
    assert_eq!(list["papers"][0]["figures"][2]["name"], "bytefs/fig6");
}

/// A claim without runs is printed at once, with the command that measures it.
#[test]
fn numbers_of_parts_lead_to_their_benchmarks() {
    let bench = Bench::new();
    let line = "reproduce bytefs/components";
    let document = bench.json(line, "flashloom.reproduce/1");
    let claim = &document["claims"][0];
    assert_eq!(
        (claim["id"].as_str(), claim["paper"].as_f64()),
        (Some("A.5"), Some(89.0))
    );
    assert!(claim["holds"].is_null() && claim["measured"].is_null());
    let reason = claim["reason"].as_str().expect("it is not measured");
    assert!(reason.contains("cargo bench -p ssd"), "{reason}");
}

#[test]
fn unknown_paper_figure_or_scale_is_rejected() {
    let bench = Bench::new();
    bench.refuses("reproduce nothing", &["bytefs", "\"nothing\""]);
    bench.refuses("reproduce bytefs/fig99", &["fig6", "\"fig99\""]);
    bench.refuses(
        "reproduce bytefs --scale huge",
        &["--scale", "small", "\"huge\""],
    );
}

/// A report has the contents of the table, and links to the runs.
#[test]
fn a_report_goes_into_a_folder() {
    let bench = Bench::new();
    bench.done("reproduce bytefs/components --out r");
    let text = bench.text("r/report.md");
    assert!(
        text.contains("### bytefs/components") && text.contains("| A.5 |"),
        "{text}"
    );
    let version = env!("CARGO_PKG_VERSION");
    let made = format!("flashloom {version} (program ");
    assert!(text.contains(&format!("\nBy {made}")), "{text}");
    let page = bench.text("r/report.html");
    assert!(page.contains(&made), "{page}");
    assert!(page.contains("id=\"bytefs\"") && page.contains("<b>A.5</b>"));
    let document: Value = serde_json::from_str(&bench.text("r/report.json")).expect("it is one");
    assert_eq!(document["schema"], "flashloom.reproduction/1");
    assert_eq!(document["papers"][0]["claims"][0]["paper"], 89.0);
    assert!(bench.path("r/runs").is_dir());
}

/// Values of an earlier report are judged by the present plans, without any run.
#[test]
fn values_of_an_earlier_report_are_judged_again_without_a_run() {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shipped = root.join("docs/reproduction/report.json");
    let line = format!("reproduce bytefs/fig6 --judge {}", shipped.display());
    let said = bench.run(&format!("{line} --json"));
    assert_eq!(said.code, Some(1), "claims were missed: {}", said.err);
    let document: Value = serde_json::from_str(&said.out).expect("it is one");
    let claims = document["claims"].as_array().expect("a list");
    for claim in claims {
        let held = claim["verdict"] == "held";
        let measured = claim["measured"].is_number();
        assert_eq!(
            claim["holds"].as_bool(),
            measured.then_some(held),
            "{claim}"
        );
        assert_eq!(claim["verdict"] == "not-measured", !measured, "{claim}");
        let fields = [
            "primary",
            "set_up",
            "about",
            "regime",
            "trial",
            "tolerance",
            "ratio",
        ];
        assert!(
            fields.iter().all(|field| claim.get(field).is_some()),
            "{claim}"
        );
    }
    let counts = &document["counts"]["primary"];
    let kinds = ["held", "missed", "other_regime", "not_measured"];
    let all: u64 = kinds
        .iter()
        .map(|kind| counts[kind].as_u64().expect("a count"))
        .sum();
    assert_eq!(all, claims.len() as u64);
    bench.refuses(
        &format!("{line} --seed 2"),
        &["report.json", "seed 2", "seed 1"],
    );
}
