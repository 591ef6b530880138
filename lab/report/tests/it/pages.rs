//! Pages agree with the document, and hostile names in it stay inert.

use crate::fixture;
use report::claim::{Claim, Counts, Expectation, REPRODUCE_SCHEMA, Reproduction};
use report::papers::Papers;
use report::regime::Line;
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

/// Keeps each page on disk for people to look at.
fn keep(name: &str, page: &str) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    report::file::write(&path, page).expect("page written");
}

#[test]
fn a_comparison_agrees_with_its_document() {
    let comparison = fixture::comparison();
    let page = page::comparison(&comparison, &[], "flashloom compare --synthetic-test-data");
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
        page::comparison(&comparison, &[], hostile),
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

/// Claims of every verdict, with hostile names.
pub(crate) fn papers() -> Papers {
    let hostile = "</b><script>alert(1)</script>\"'&";
    let claim = |id: &str, expected| {
        Claim::unmeasured(
            id,
            "fig1",
            "Figure 1, 2.3",
            format!("{id} of {hostile}"),
            expected,
        )
    };
    let misses = Line::of(
        &claim("misses", Expectation::Value(1.0)),
        Some(3.0),
        Vec::new(),
    );
    let claims = vec![
        claim("A1", Expectation::Value(2.0)).with(2.1, None),
        claim("A2", Expectation::Value(2.0)).with(40.0, Some(hostile)),
        claim("A3", Expectation::Above(1.0)).with(1.5, None),
        claim("A4", Expectation::Range(1.0, 2.0)).with(0.0, None),
        claim("A5", Expectation::Other),
        claim("A6", Expectation::Value(2.0)).judged(2.0, true, &[&misses], None),
    ];
    let paper = Reproduction {
        schema: REPRODUCE_SCHEMA.to_owned(),
        paper: "synthetic".to_owned(),
        title: format!("A synthetic paper {hostile}"),
        figures: vec!["fig1".to_owned()],
        scale: "small".to_owned(),
        factor: 64,
        seed: 1,
        notes: vec!["Nothing here was measured.".to_owned()],
        counts: Counts::of(&claims),
        regimes: vec![misses],
        claims,
        runs: Vec::new(),
    };
    Papers::new("small", 1, vec![paper])
}

#[test]
fn the_page_of_papers_has_every_claim_and_a_dot_for_each_ratio() {
    let page = page::papers(&papers(), "flashloom reproduce");
    keep("papers.html", &page);
    for (id, state) in [
        ("A1", "hold"),
        ("A2", "miss"),
        ("A3", "hold"),
        ("A4", "miss"),
        ("A5", "open"),
        ("A6", "else"),
    ] {
        let row = format!("<tr class=\"{state}\"><th class=\"claim\" scope=\"row\"><b>{id}</b>");
        assert_eq!(page.matches(&row).count(), 1, "{id}");
    }
    // Two claims held, two were missed and one is of another regime, each drawn in both sizes of
    // the figure; one has no number.
    assert_eq!(page.matches("<g class=\"hold\">").count(), 4);
    assert_eq!(page.matches("<g class=\"miss\">").count(), 4);
    assert_eq!(page.matches("<g class=\"else\">").count(), 2);
    assert!(!page.contains("<script") && !page.contains("NaN"));
}

#[test]
fn a_page_asks_for_nothing_from_the_network() {
    let page = page::comparison(&fixture::comparison(), &[], "");
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
    let page = page::comparison(&fixture::comparison(), &[], "");
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

/// The colours of the style sheet by name: those of the light theme, then those of the dark one.
fn themes(page: &str) -> [Vec<(String, [f64; 3])>; 2] {
    let root = page.split(":root{").nth(1).expect("a root");
    let root = root.split('}').next().expect("its end");
    let colour = |hex: &str| -> Option<[f64; 3]> {
        let hex = hex.trim().strip_prefix('#')?;
        let wide: String = if hex.len() == 3 {
            hex.chars().flat_map(|c| [c, c]).collect()
        } else {
            hex.to_owned()
        };
        let part =
            |i: usize| Some(f64::from(u8::from_str_radix(wide.get(i..i + 2)?, 16).ok()?) / 255.0);
        Some([part(0)?, part(2)?, part(4)?])
    };
    let of = |theme: usize| {
        let named = |text: &str| {
            let (name, pair) = text.trim().strip_prefix("--")?.split_once(":light-dark(")?;
            let hex = pair.trim_end_matches(')').split(',').nth(theme)?;
            Some((name.to_owned(), colour(hex)?))
        };
        root.split(';').filter_map(named).collect()
    };
    [of(0), of(1)]
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
    let page = page::comparison(&fixture::comparison(), &[], "");
    for theme in themes(&page) {
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
    assert!(!page::comparison(&comparison, &[], "").contains("<figure>"));
}
