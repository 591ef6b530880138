//! Pages agree with the document and are inert.

use crate::fixture;
use report::{page, to_json};
use serde_json::Value;

/// The values of attribute `name` in `tag`.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|v| v.0)
}

/// The cells of the metrics table: (run, path, raw value).
fn cells(page: &str) -> Vec<(usize, &str, &str)> {
    let tags = page
        .split("<td")
        .skip(1)
        .filter_map(|t| t.split_once('>').map(|t| t.0));
    let cell = |tag| {
        let run = attribute(tag, "data-run")?.parse().ok()?;
        Some((
            run,
            attribute(tag, "data-path")?,
            attribute(tag, "data-value")?,
        ))
    };
    tags.filter_map(cell).collect()
}

fn embedded(page: &str) -> &str {
    let (_, rest) = page
        .split_once("<script id=\"record\" type=\"application/json\">")
        .expect("record");
    rest.split_once("</script>").expect("end of record").0
}

/// Every page is also left behind for people to look at.
fn keep(name: &str, page: &str) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    report::file::write(&path, page).expect("page written");
}

#[test]
fn a_comparison_agrees_with_its_document() {
    let comparison = fixture::comparison();
    let page = page::comparison(&comparison, "flashloom compare --synthetic-test-data");
    keep("comparison.html", &page);
    let document: Value = serde_json::from_str(&to_json(&comparison)).expect("JSON");
    let shown = report::metric::all().filter(|m| m.is_compared()).count();
    let cells = cells(&page);
    assert_eq!(cells.len(), shown * comparison.runs.len());
    for (run, path, raw) in cells {
        let value = document.pointer(&format!("/runs/{run}{path}")).expect(path);
        assert_eq!(value.to_string(), raw, "{path} of run {run}");
    }
    let embedded: Value = serde_json::from_str(embedded(&page)).expect("embedded JSON");
    assert_eq!(embedded, document);
}

#[test]
fn a_run_agrees_with_its_document() {
    let run = fixture::one();
    let page = page::run(&run, "flashloom run --synthetic-test-data");
    keep("run.html", &page);
    let document: Value = serde_json::from_str(&to_json(&run)).expect("JSON");
    let cells = cells(&page);
    assert_eq!(cells.len(), report::metric::all().count());
    for (_, path, raw) in cells {
        assert_eq!(
            document.pointer(path).expect(path).to_string(),
            raw,
            "{path}"
        );
    }
}

#[test]
fn hostile_names_are_inert() {
    let hostile = "</script><script>alert(1)</script><!--\"'&";
    let mut comparison = fixture::comparison();
    comparison.workload = hostile.to_owned();
    for run in &mut comparison.runs {
        run.stack = hostile.to_owned();
        run.precondition = hostile.to_owned();
        run.drive.geometry = hostile.to_owned();
        run.errors.insert(hostile.to_owned(), 1);
        run.nand.by_cause.insert(hostile.to_owned(), 1 << 40);
        let origins = run
            .nand
            .by_cause_and_origin
            .entry("gc".to_owned())
            .or_default();
        origins.insert(hostile.to_owned(), 1 << 40);
        run.host
            .by_purpose
            .insert(hostile.to_owned(), run.host.by_purpose["data"]);
        run.latency_ns
            .by_op
            .insert(hostile.to_owned(), run.latency_ns.all.clone());
        run.timeline[0]
            .programmed_bytes
            .insert(hostile.to_owned(), 1);
    }
    let pages = [
        page::comparison(&comparison, hostile),
        page::run(&comparison.runs[0], hostile),
    ];
    for page in pages {
        // The only script is the embedded record, and nothing inside ends it early.
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</script").count(), 1);
        assert!(!page.contains("<!--"));
        assert!(serde_json::from_str::<Value>(embedded(&page)).is_ok());
    }
}

#[test]
fn a_page_asks_for_nothing_from_the_network() {
    let page = page::comparison(&fixture::comparison(), "");
    for fetch in [" src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    let addresses = page.matches("http://").count();
    assert_eq!(
        addresses,
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
}

#[test]
fn every_figure_has_a_name_and_a_reading_and_ids_are_unique() {
    let page = page::comparison(&fixture::comparison(), "");
    assert_eq!(
        page.matches("<figure>").count(),
        page.matches("<figcaption>").count()
    );
    let mut ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|t| t.split('"').next())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn runs_without_data_give_a_page_without_figures() {
    let mut comparison = fixture::comparison();
    comparison.runs.clear();
    assert!(!page::comparison(&comparison, "").contains("<figure>"));
}
