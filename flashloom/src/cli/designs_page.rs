//! The page of a comparison of memory designs.
//!
//! Invariant: it shows the contents of the document and nothing else; each cell of its table has
//! the JSON pointer to its value.

use super::designs::{percent, told};
use machine::{MEMORY_RUNS_SCHEMA, Outcome, Time};
use report::human;
use report::page::{Line, Sheet, SheetCell, Stacks, sheet};
use report::plot::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// A number of a run: its pointer in the document, and its format.
struct Number {
    label: &'static str,
    help: &'static str,
    path: &'static str,
    shown: fn(f64) -> String,
}

const NUMBERS: [Number; 13] = [
    Number {
        label: "threads",
        help: "threads of the program",
        path: "/threads",
        shown: human::count,
    },
    Number {
        label: "time",
        help: "from the start of the measurement to the end of the last thread",
        path: "/time_ns",
        shown: human::time,
    },
    Number {
        label: "speed-up",
        help: "speed relative to the reference design",
        path: "/speed_up",
        shown: human::times,
    },
    Number {
        label: "instructions a cycle",
        help: "of each core",
        path: "/ipc",
        shown: human::factor,
    },
    Number {
        label: "memory-bound",
        help: "the share of cycles that memory bounds",
        path: "/memory_bound",
        shown: human::share,
    },
    Number {
        label: "an access takes",
        help: "average over completed accesses",
        path: "/amat/mean_ns",
        shown: human::time,
    },
    Number {
        label: "without flash",
        help: "accesses to memory for which no flash was read",
        path: "/amat/share_without_flash",
        shown: human::share,
    },
    Number {
        label: "flash pages read",
        help: "for any cause",
        path: "/flash/read_pages",
        shown: human::count,
    },
    Number {
        label: "flash pages programmed",
        help: "for any cause",
        path: "/flash/program_pages",
        shown: human::count,
    },
    Number {
        label: "switches",
        help: "of threads, of all reasons",
        path: "/switches/all",
        shown: human::count,
    },
    Number {
        label: "pages promoted",
        help: "that moved to the host",
        path: "/moves/promotions",
        shown: human::count,
    },
    Number {
        label: "cheaper",
        help: "price of DRAM of the same size over the price of this memory",
        path: "/cost/cheaper",
        shown: human::times,
    },
    Number {
        label: "cost-effectiveness",
        help: "price advantage times the performance relative to DRAM alone",
        path: "/cost/cost_effectiveness",
        shown: human::factor,
    },
];

/// A part of the cores' time: its name and share.
type Share = (&'static str, fn(&Time) -> f64);

/// All parts; the palette has eight colours.
const PARTS: [Share; 8] = [
    ("instructions", |t| t.compute + t.memory_instructions),
    ("caches", |t| t.caches),
    ("host's DRAM", |t| t.host_dram),
    ("drive's DRAM", |t| t.ssd_dram),
    ("flash", |t| t.flash),
    ("stores and fences", |t| t.stores + t.room + t.order),
    ("switches and interrupts", |t| t.switches + t.kernel),
    ("no thread to run", |t| t.idle),
];

/// The page of `runs`, whose document is `json`. `command` is the command line, for the footer.
///
/// # Errors
/// If `json` is not a document.
pub(super) fn page(runs: &[Outcome], json: &str, command: &str) -> serde_json::Result<String> {
    let document: serde_json::Value = serde_json::from_str(json)?;
    let first = runs.first();
    let title = first.map_or_else(String::new, |run| run.workload.clone());
    let lead = first.map_or_else(String::new, told);
    let shown = Sheet {
        title: &title,
        lead: lead.trim(),
        findings: findings(runs),
        columns: runs.iter().map(|run| run.design.as_str()).collect(),
        rows: NUMBERS
            .iter()
            .map(|n| n.row(&document, runs.len()))
            .collect(),
        sections: vec![
            ("Speed", vec![time(runs), cores(runs)]),
            ("Memory", vec![accesses(runs), lines(runs)]),
            ("Flash", vec![read(runs), programmed(runs)]),
        ],
        schema: MEMORY_RUNS_SCHEMA,
        seed: first.map_or(1, |run| run.seed),
        json,
    };
    Ok(sheet(&shown, command))
}

impl Number {
    fn row(&self, document: &serde_json::Value, runs: usize) -> Line {
        let cell = |run: usize| {
            let path = format!("/runs/{run}{}", self.path);
            let value = document.pointer(&path);
            let number = value.and_then(serde_json::Value::as_f64);
            SheetCell {
                shown: number.map_or_else(|| human::NOTHING.to_owned(), self.shown),
                raw: value.map_or_else(String::new, ToString::to_string),
                path,
            }
        };
        Line {
            label: self.label,
            help: self.help,
            cells: (0..runs).map(cell).collect(),
        }
    }
}

/// Sentences on the fastest design, the one with the lowest cost for its speed, and the bottleneck
/// of the fastest.
fn findings(runs: &[Outcome]) -> Vec<String> {
    let mut out = Vec::new();
    let flash = || runs.iter().filter(|run| run.ssd_dram_bytes > 0);
    let Some(fastest) = flash().min_by_key(|run| run.time_ns) else {
        return out;
    };
    let speed_up = fastest.speed_up.zip(fastest.versus.as_ref());
    let over = speed_up.map_or_else(String::new, |(by, base)| {
        format!(", {} the speed of {base}", human::times(by))
    });
    out.push(format!(
        "{} is the fastest with flash: {}{over}.",
        fastest.design,
        human::time(fastest.time_ns as f64)
    ));
    let parts = PARTS.map(|(name, of)| (name, of(&fastest.core_time)));
    let most = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((name, share)) = most {
        out.push(format!(
            "The largest share of its core time is {name}: {}.",
            percent(*share)
        ));
    }
    let worth = |run: &&Outcome| run.cost.cost_effectiveness;
    let best = flash().filter(|run| worth(run).is_some());
    let best = best.max_by(|a, b| worth(a).unwrap_or(0.0).total_cmp(&worth(b).unwrap_or(0.0)));
    if let Some((best, by)) = best.and_then(|run| Some((run, worth(&run)?))) {
        out.push(format!(
            "{} has the best performance for its price: {} of that of DRAM alone.",
            best.design,
            human::times(by)
        ));
    }
    out
}

fn time(runs: &[Outcome]) -> Stacks<'_> {
    let note = |run: &Outcome| {
        let over = run.speed_up.map_or_else(String::new, human::times);
        format!("{}  {over}", human::time(run.time_ns as f64))
    };
    let bar = |run| (name(run), note(run), vec![run.time_ns as f64]);
    Stacks {
        id: "time",
        title: "Time of the program",
        reading: "Time from the start of the measurement to the end of the last thread. Shorter is \
            better; the factor is the speed relative to the reference design.",
        axis: "time",
        kind: Kind::Time,
        parts: vec!["time"],
        bars: runs.iter().map(bar).collect(),
    }
}

fn cores(runs: &[Outcome]) -> Stacks<'_> {
    let bar = |run: &'_ Outcome| PARTS.map(|(_, of)| of(&run.core_time)).to_vec();
    Stacks {
        id: "cores",
        title: "Core time by activity",
        reading: "Shares of the time of all cores. All bars have the same length: a design that \
            waits less for flash has larger shares of other activities and a shorter run time.",
        axis: "share of the time of all cores",
        kind: Kind::Share,
        parts: PARTS.map(|part| part.0).to_vec(),
        bars: runs
            .iter()
            .map(|run| {
                (
                    name(run),
                    percent(run.memory_bound) + " memory-bound",
                    bar(run),
                )
            })
            .collect(),
    }
}

fn accesses(runs: &[Outcome]) -> Stacks<'_> {
    let bar = |run: &Outcome| {
        let amat = &run.amat;
        let adds = [&amat.host_dram, &amat.ssd_dram, &amat.flash];
        adds.map(|part| part.adds_ns).to_vec()
    };
    Stacks {
        id: "accesses",
        title: "Latency of memory accesses",
        reading: "Average latency of all completed accesses, and the contribution of accesses that \
            each kind of memory served.",
        axis: "average time",
        kind: Kind::Time,
        parts: vec!["host's DRAM", "drive's DRAM", "flash"],
        bars: runs
            .iter()
            .map(|run| (name(run), human::time(run.amat.mean_ns), bar(run)))
            .collect(),
    }
}

fn lines(runs: &[Outcome]) -> Stacks<'_> {
    let bar = |run: &Outcome| {
        let amat = &run.amat;
        let counts = [&amat.host_dram, &amat.ssd_dram, &amat.flash, &amat.in_vain];
        counts.map(|part| part.count as f64).to_vec()
    };
    let note = |run: &Outcome| percent(run.amat.share_without_flash) + " without flash";
    Stacks {
        id: "answered",
        title: "Memory accesses by responder",
        reading: "Misses of the last-level cache. In vain: accesses that returned only a delay \
            hint, or were abandoned before their data arrived.",
        axis: "accesses",
        kind: Kind::Number,
        parts: vec!["host's DRAM", "drive's DRAM", "flash", "in vain"],
        bars: runs
            .iter()
            .map(|run| (name(run), note(run), bar(run)))
            .collect(),
    }
}

fn read(runs: &[Outcome]) -> Stacks<'_> {
    by_cause(
        ("read", "Flash pages read, by cause"),
        "Pages that the program waits for, and pages that the drive reads internally.",
        runs,
        |run| &run.flash.reads,
    )
}

fn programmed(runs: &[Outcome]) -> Stacks<'_> {
    by_cause(
        ("programmed", "Flash pages programmed, by cause"),
        "Page programs wear the drive.",
        runs,
        |run| &run.flash.programs,
    )
}

fn by_cause<'a>(
    (id, title): (&'a str, &'a str),
    reading: &'a str,
    runs: &'a [Outcome],
    of: fn(&Outcome) -> &BTreeMap<String, u64>,
) -> Stacks<'a> {
    let causes = runs.iter().flat_map(|run| of(run).iter());
    let used = causes.filter(|cause| *cause.1 > 0);
    let names: BTreeSet<&str> = used.map(|cause| cause.0.as_str()).collect();
    let bar = |run: &Outcome| {
        let pages = |name: &&str| of(run).get(*name).copied().unwrap_or(0) as f64;
        names.iter().map(pages).collect::<Vec<f64>>()
    };
    let note = |run: &Outcome| human::count(of(run).values().sum::<u64>() as f64);
    Stacks {
        id,
        title,
        reading,
        axis: "pages",
        kind: Kind::Number,
        bars: runs
            .iter()
            .map(|run| (name(run), note(run), bar(run)))
            .collect(),
        parts: names.into_iter().collect(),
    }
}

fn name(run: &Outcome) -> &str {
    &run.design
}
