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
    let runs: Vec<_> = comparison.runs.iter().collect();
    let shown = report::metric::of(&runs)
        .filter(|m| m.is_compared())
        .count();
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
    assert_eq!(cells.len(), report::metric::of(&[&run]).count());
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
    keep("hostile.html", &pages[0]);
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

/// The colours named `prefix0`, `prefix1` … in each theme of the style sheet.
fn themes(page: &str) -> Vec<Vec<(String, [f64; 3])>> {
    let roots = page
        .split(":root{")
        .skip(1)
        .filter_map(|t| t.split('}').next());
    let colour = |text: &str| -> Option<(String, [f64; 3])> {
        let (name, hex) = text.trim().strip_prefix("--")?.split_once(":#")?;
        let wide: String = if hex.len() == 3 {
            hex.chars().flat_map(|c| [c, c]).collect()
        } else {
            hex.to_owned()
        };
        let part =
            |i: usize| Some(f64::from(u8::from_str_radix(wide.get(i..i + 2)?, 16).ok()?) / 255.0);
        Some((name.to_owned(), [part(0)?, part(2)?, part(4)?]))
    };
    roots
        .map(|root| root.split(';').filter_map(colour).collect())
        .collect()
}

/// Relative luminance, WCAG 2.2.
fn luminance(rgb: [f64; 3]) -> f64 {
    let linear = rgb.map(|c| {
        if c <= 0.040_45 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[test]
fn colours_stand_out_from_their_card_in_light_and_dark() {
    let page = page::comparison(&fixture::comparison(), "");
    let themes = themes(&page);
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let of = |name: &str| {
            theme
                .iter()
                .find(|c| c.0 == name)
                .map(|c| luminance(c.1))
                .expect(name)
        };
        let contrast = |name: &str| {
            let (a, b) = (of(name), of("card"));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        for text in ["ink", "soft", "link"] {
            assert!(contrast(text) >= 4.5, "{text}: {}", contrast(text));
        }
        for slot in 0..report::plot::PALETTE {
            let name = format!("c{slot}");
            assert!(contrast(&name) >= 3.0, "{name}: {}", contrast(&name));
        }
    }
}

#[test]
fn runs_without_data_give_a_page_without_figures() {
    let mut comparison = fixture::comparison();
    comparison.runs.clear();
    assert!(!page::comparison(&comparison, "").contains("<figure>"));
}
