//! The tables of a page: metrics, details, origins by cause, handles.

use crate::attribution::{Matrix, peers, relative_to};
use crate::human;
use crate::metric::{Better, GROUPS, Metric};
use crate::norm::Norm;
use crate::page::parts::{Named, named};
use crate::record::Run;
use maud::{Markup, html};

/// Origins in a matrix before the rest is added up.
const ORIGINS: usize = 24;

/// The metrics of all runs, one column for each run.
pub(crate) fn metrics(runs: &[&Run]) -> Markup {
    let names = named(runs);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Summary of all stacks" {
            table {
                thead { tr { th scope="col" { "" } @for named in &names { (header(named)) } } }
                tbody {
                    @for group in GROUPS.iter().filter(|g| g.compared(runs).next().is_some()) {
                        tr.group { th scope="rowgroup" { (group.title) } @for _ in runs { td {} } }
                        @for metric in group.compared(runs) {
                            (metric_row(metric, runs))
                        }
                    }
                }
            }
        }
        @if runs.len() > 1 {
            p.lead style="margin-top:10px;font-size:13.5px" {
                (relative_to(runs)) ". A dot marks the best value of a row among those compared."
            }
        }
    }
}

fn header(named: &Named<'_>) -> Markup {
    html! { th scope="col" { (named.run.stack) small { (named.run.precondition) } @if !named.run.label.is_empty() { small { (named.run.label) } } } }
}

fn metric_row(metric: &Metric, runs: &[&Run]) -> Markup {
    html! {
        tr {
            th scope="row" title=(metric.help) { (metric.label) }
            @for (i, run) in runs.iter().enumerate() {
                td.best[is_best(metric, run, &peers(run, runs))] data-run=(i) data-path=(metric.path)
                    data-value=((metric.get)(run).raw()) {
                    (metric.show(run))
                    @if runs.len() > 1 { " " span.ratio { (ratio(metric, run, peers(run, runs)[0])) } }
                }
            }
        }
    }
}

fn ratio(metric: &Metric, run: &Run, first: &Run) -> String {
    let ratio = metric.value(run).over(metric.value(first));
    ratio
        .filter(|_| metric.is_steady())
        .map_or(String::new(), human::times)
}

/// Whether `run` has the best value of the runs that did all requests, and not all are equal.
fn is_best(metric: &Metric, run: &Run, runs: &[&Run]) -> bool {
    let norm = Norm::of(runs.iter().copied());
    let value = |run: &Run| metric.value(run).number().filter(|_| norm.is_met_by(run));
    let Some(own) = value(run) else { return false };
    let others = || runs.iter().filter_map(|r| value(r));
    match metric.better {
        Better::Neither => false,
        Better::More => others().all(|x| x <= own) && others().any(|x| x < own),
        Better::Less => others().all(|x| x >= own) && others().any(|x| x > own),
    }
}

/// All metrics of one run with their explanations.
pub(crate) fn details(run: &Run) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="All metrics" {
            table {
                tbody {
                    @for group in GROUPS.iter().filter(|group| group.applies(&[run])) {
                        tr.group { th scope="rowgroup" { (group.title) } td {} td {} }
                        @for metric in group.metrics {
                            tr {
                                th scope="row" { (metric.label) }
                                td data-run="0" data-path=(metric.path)
                                    data-value=((metric.get)(run).raw()) { (metric.show(run)) }
                                td.help { (metric.help) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Bytes programmed by origin and cause, shaded by share.
pub(crate) fn matrix(run: &Run) -> Markup {
    let matrix = Matrix::of(run, ORIGINS);
    if run.nand.by_cause_and_origin.is_empty() {
        return html! {};
    }
    let share = |bytes: u64| bytes as f64 / matrix.total.max(1) as f64;
    html! {
        h2 { "Programmed data by origin and cause" }
        div.scroll tabindex="0" role="region" aria-label="Bytes programmed by origin and cause" {
            table {
                thead {
                    tr {
                        th scope="col" { "origin of the data" }
                        th scope="col" { "all" } th scope="col" { "share" }
                        @for cause in &matrix.causes { th scope="col" { (cause.0) } }
                    }
                }
                tbody {
                    @for row in &matrix.origins {
                        tr {
                            th scope="row" { (human::name(&row.origin, 48)) }
                            td data-value=(row.total) { (human::bytes(row.total as f64)) }
                            td { (human::share(share(row.total))) }
                            @for bytes in &row.cells {
                                td.heat data-value=(bytes) style={ "--share:" (heat(share(*bytes))) } {
                                    @if *bytes > 0 { (human::bytes(*bytes as f64)) } @else { "·" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Opacity of the shade for a share: faint enough that text stays legible on it.
fn heat(share: f64) -> String {
    format!("{:.2}", share.sqrt() * 0.4)
}

/// The placement handles of one run.
pub(crate) fn handles(named: &Named<'_>) -> Markup {
    let title = format!("Handles of {}", named.name);
    html! {
        div.card {
            h3 { (title) }
            @if let Some(placement) = &named.run.placement {
                p { "Placement: " (human::name(&placement.words(), 80)) }
            }
            div.scroll tabindex="0" role="region" aria-label=(title) style="border:0" {
                table {
                    thead {
                        tr {
                            @for head in ["handle", "host wrote", "programmed", "moved by GC", "WAF"] {
                                th scope="col" { (head) }
                            }
                        }
                    }
                    tbody {
                        @for handle in named.run.handles.iter().filter(|handle| handle.is_used()) {
                            tr {
                                th scope="row" { (handle.id) }
                                @for bytes in [Some(handle.host_bytes), handle.media_bytes, Some(handle.moved_bytes)] {
                                    td { (bytes.map_or("–".to_owned(), |b| human::bytes(b as f64))) }
                                }
                                td { (handle.waf().map_or("–".to_owned(), human::factor)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
