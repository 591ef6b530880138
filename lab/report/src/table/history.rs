//! Past runs, one line each.

use crate::human;
use crate::store::Entry;
use crate::table::Style;
use crate::table::grid::{Cell, Column, Grid, cell, dim, strong};

/// A line for each run of memory designs, in the given order.
#[must_use]
pub fn memory_history(entries: &[Entry], style: Style) -> String {
    use Column::{Left, Right};
    let mut grid = Grid::new(vec![
        Right, Left, Left, Left, Right, Right, Right, Left, Left,
    ]);
    let names = [
        "run",
        "started (UTC)",
        "design",
        "workload",
        "seed",
        "instructions/s",
        "p99",
        "commit",
        "label",
    ];
    grid.row(names.map(strong).to_vec());
    let free = style.width.saturating_sub(100).clamp(12, 60);
    for entry in entries {
        let [
            id,
            started,
            design,
            _,
            workload,
            seed,
            rate,
            p99,
            _,
            commit,
            label,
        ] = cells(entry, free);
        grid.row(vec![
            id, started, design, workload, seed, rate, p99, commit, label,
        ]);
    }
    grid.render(style)
}

/// A line for each run of stacks, in the given order.
#[must_use]
pub fn history(entries: &[Entry], style: Style) -> String {
    use Column::{Left, Right};
    let mut grid = Grid::new(vec![
        Right, Left, Left, Left, Left, Right, Right, Right, Right, Left, Left,
    ]);
    let names = [
        "run",
        "started (UTC)",
        "stack",
        "drive",
        "workload",
        "seed",
        "ops/s",
        "p99",
        "WAF",
        "commit",
        "label",
    ];
    grid.row(names.map(strong).to_vec());
    let free = style.width.saturating_sub(100).clamp(12, 60);
    for entry in entries {
        grid.row(cells(entry, free).to_vec());
    }
    grid.render(style)
}

fn cells(entry: &Entry, free: usize) -> [Cell; 11] {
    let meta = &entry.meta;
    let short: String = meta.commit.chars().take(8).collect();
    [
        cell(entry.id.to_string()),
        dim(meta
            .started_unix_s
            .map_or(human::NOTHING.to_owned(), human::date)),
        cell(human::name(&entry.stack, 18)),
        cell(human::name(&entry.precondition, 8)),
        cell(human::name(&entry.workload, free)),
        cell(meta.seed.to_string()),
        cell(human::factor(entry.ops_per_s)),
        cell(match entry.ops_per_s > 0.0 {
            true => human::time(entry.p99_ns),
            // Without completed requests there is no latency.
            false => human::NOTHING.to_owned(),
        }),
        cell(human::factor(entry.waf_device)),
        dim(human::name(&short, 8)),
        dim(human::name(&meta.label, 16)),
    ]
}
