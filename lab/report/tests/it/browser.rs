//! Pages in a real browser: without errors, with keys alone, on a phone, in light and dark.

use crate::fixture;
use crate::pages::papers;
use ::browser::{Browser, Key};
use report::page;
use report::plot::Kind;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Widths in CSS pixels: a small phone, and a desktop.
const WIDTHS: [u32; 2] = [360, 1280];

/// Opens all details, and numbers each element that keys must reach; buttons of one group share a
/// number.
const REACHABLE: &str = "(() => {
    for (const e of document.querySelectorAll('details')) e.open = true;
    const groups = new Map();
    let things = 0;
    for (const e of document.querySelectorAll('a[href], summary, input, [tabindex=\"0\"]')) {
        if (!e.checkVisibility()) continue;
        const group = e.type === 'radio' ? e.name : null;
        if (group === null || !groups.has(group)) { things += 1; groups.set(group, things); }
        e.dataset.thing = group === null ? things : groups.get(group);
    }
    return things;
})()";

/// The number of the element that has the keyboard focus.
const REACHED: &str = "Number(document.activeElement.dataset.thing ?? 0)";

const BACKGROUND: &str = "getComputedStyle(document.body).backgroundColor";
const TOO_WIDE: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// A sheet of bars, a comparison, a run over time, and papers with claims of every kind.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let pages = [
        ("sheet.html", sheet()),
        (
            "comparison.html",
            page::comparison(&fixture::comparison(), &[], ""),
        ),
        ("run.html", page::run(&fixture::one(), "")),
        (
            "papers.html",
            page::papers(&papers(), "flashloom reproduce"),
        ),
    ];
    let written = pages.map(|(name, page)| {
        let path = folder.join(name);
        report::file::write(&path, &page).expect("it can be written");
        path
    });
    written.into()
}

/// A sheet with a part of length 0, and with long names.
fn sheet() -> String {
    let names = [
        "base",
        "a-design-of-a-name-that-no-phone-has-room-for-in-one-line",
    ];
    let bar = |name| (name, "3 µs".to_owned(), vec![2e3, 0.0, 1e3]);
    let stacks = |id| page::Stacks {
        id,
        title: "What it takes",
        reading: "Shorter is better.",
        axis: "time",
        kind: Kind::Time,
        parts: vec!["host", "drive", "flash"],
        bars: names.into_iter().map(bar).collect(),
    };
    let cell = || page::SheetCell {
        shown: "3 µs".to_owned(),
        raw: "3000".to_owned(),
        path: "/runs/0/time_ns".to_owned(),
    };
    let line = page::Line {
        label: "time",
        help: "of all",
        cells: vec![cell(), cell()],
    };
    let ids = ["one", "two", "three", "four", "five"];
    let shown = page::Sheet {
        title: "bfs",
        lead: "In 32 MiB.",
        findings: vec!["base is the fastest.".to_owned()],
        columns: names.to_vec(),
        rows: vec![line],
        sections: vec![("Memory", ids.map(stacks).into())],
        schema: "of/1",
        seed: 1,
        json: "{}",
    };
    page::sheet(&shown, "flashloom compare bfs")
}

#[test]
fn pages_work_by_keys_on_phone_and_desk_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = TempDir::new().expect("a temporary directory");
    for page in pages(folder.path()) {
        for width in WIDTHS {
            browser.open(&page, width);
            assert_eq!(browser.value(TOO_WIDE), 0, "{} at {width}", page.display());
        }
        keys_reach_everything(&mut browser, &page);
        colours_follow_the_system_and_the_switch(&mut browser, &page);
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

fn keys_reach_everything(browser: &mut Browser, page: &Path) {
    browser.open(page, 360);
    let things = browser.value(REACHABLE).as_u64().expect("a number");
    assert!(things > 5, "{} has {things}", page.display());
    let mut reached = BTreeSet::new();
    // Browsers focus further elements, such as scrollable ones.
    for _ in 0..3 * things {
        browser.press(Key::Tab);
        reached.insert(browser.value(REACHED).as_u64().expect("a number"));
    }
    let all: BTreeSet<u64> = (1..=things).collect();
    let missed: Vec<_> = all.difference(&reached).collect();
    assert!(missed.is_empty(), "{}: {missed:?}", page.display());
}

fn colours_follow_the_system_and_the_switch(browser: &mut Browser, page: &Path) {
    let backgrounds = |browser: &mut Browser| {
        ["light", "dark"].map(|scheme| {
            browser.prefers(scheme);
            browser.value(BACKGROUND)
        })
    };
    browser.open(page, 360);
    let [light, dark] = backgrounds(browser);
    assert_ne!(light, dark, "{}", page.display());
    browser.value("document.getElementById('theme-auto').focus()");
    for chosen in [&light, &dark] {
        browser.press(Key::Right);
        let found = backgrounds(browser);
        assert!(found.iter().all(|colour| colour == chosen), "{found:?}");
    }
}

#[test]
fn claims_can_be_selected_by_verdict() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = TempDir::new().expect("a temporary directory");
    let page = pages(folder.path()).pop().expect("the last is of papers");
    browser.open(&page, 360);
    let shown = "[...document.querySelectorAll('section tbody tr')]
        .filter(row => row.getClientRects().length > 0)
        .map(row => row.querySelector('b').textContent).join(' ')";
    browser.value("document.getElementById('claims-all').focus()");
    let mut seen = vec![browser.value(shown)];
    for _ in 0..4 {
        browser.press(Key::Right);
        seen.push(browser.value(shown));
    }
    let expected = ["A1 A2 A3 A4 A5 A6", "A1 A3", "A2 A4", "A6", "A5"];
    assert_eq!(seen, expected.map(Value::from));
}
