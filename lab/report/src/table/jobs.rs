//! Jobs of a fio file: rates and latencies of each, by direction.

use crate::human;
use crate::record::{JobResult, Run};
use crate::table::Style;
use crate::table::grid::{Column, Grid, cell, strong};

/// Results of the groups of `run`, and of the jobs that are in none; empty if it has no jobs.
pub(crate) fn jobs(run: &Run, style: Style) -> String {
    if run.jobs.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new([vec![Column::Left; 2], vec![Column::Right; 7]].concat());
    grid.heading("");
    grid.heading("Jobs");
    let names = [
        "", "", "requests", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9",
    ];
    grid.row(names.map(strong).to_vec());
    for job in run.jobs.iter().filter(|job| !job.in_group) {
        let clones = match job.clones {
            1 => String::new(),
            clones => format!(" ×{clones}"),
        };
        rows(
            &mut grid,
            &format!("  {}{clones}", human::name(&job.name, 24)),
            job,
        );
    }
    for group in &run.job_groups {
        let name = format!("  group {}: {}", group.group, human::name(&group.name, 24));
        rows(&mut grid, &name, group);
    }
    grid.render(style)
}

fn rows(grid: &mut Grid, name: &str, job: &JobResult) {
    if job.directions().next().is_none() {
        grid.row(vec![cell(name), cell("none"), cell("0")]);
    }
    for (at, (kind, direction)) in job.directions().enumerate() {
        let latency = &direction.latency_ns;
        grid.row(vec![
            cell(if at == 0 { name } else { "" }),
            cell(kind),
            cell(human::count(direction.ios as f64)),
            cell(human::count(direction.iops.round())),
            cell(human::factor(direction.bytes_per_s / 1e6)),
            cell(human::time(latency.mean)),
            cell(human::time(latency.p50 as f64)),
            cell(human::time(latency.p99 as f64)),
            cell(human::time(latency.p99_9 as f64)),
        ]);
    }
}
