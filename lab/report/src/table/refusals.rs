//! Refused allocations: limits that were hit, and their holders.

use crate::human;
use crate::metric::{Unit, Value};
use crate::record::{Holder, Refusal, Run};
use crate::table::Style;
use crate::table::grid::{Column, Grid, cell, strong, wrapped};

/// Number of holders shown before the rest is added up.
const HOLDERS: usize = 8;

/// A sentence for each limit that was hit.
pub(crate) fn sentences(run: &Run, style: Style) -> String {
    let sentence = |met: &Refusal| {
        let held: Vec<String> = holders(met)
            .into_iter()
            .map(|(who, amount)| format!("{who} ({amount})"))
            .collect();
        let held = match held.is_empty() {
            true => String::new(),
            false => format!("; held by {}", held.join(", ")),
        };
        let kept = match met.reserve {
            0 => String::new(),
            kept => format!(", {} of them kept in reserve", count(kept)),
        };
        let text = format!(
            "no space: {} reached {}, first after {}: {} requested, {} of {} free{kept}{held}",
            human::name(&met.limit, 40),
            times(met.times),
            time(met.first_ns),
            count(met.asked),
            count(met.free),
            count(met.total),
        );
        wrapped(&text, style.width)
    };
    run.refusals.iter().map(sentence).collect()
}

/// A table row for each limit that was hit, and one for each of its holders.
pub(crate) fn refusals(run: &Run, style: Style) -> String {
    if run.refusals.is_empty() {
        return String::new();
    }
    let right = [Column::Right; 6];
    let columns = [&[Column::Left][..], &right, &[Column::Left, Column::Right]];
    let mut grid = Grid::new(columns.concat());
    grid.heading("");
    grid.heading("No space: limits that were reached, each with its first occurrence");
    let names = [
        "", "times", "first at", "asked", "free", "reserve", "of", "held by", "",
    ];
    grid.row(names.map(strong).to_vec());
    for met in &run.refusals {
        let limit = [
            format!("  {}", human::name(&met.limit, 40)),
            count(met.times),
            time(met.first_ns),
            count(met.asked),
            count(met.free),
            count(met.reserve),
            count(met.total),
        ];
        let mut limit = limit.map(cell).to_vec();
        for (who, amount) in holders(met) {
            limit.resize(7, cell(""));
            limit.extend([cell(who), cell(amount)]);
            grid.row(std::mem::take(&mut limit));
        }
        if !limit.is_empty() {
            grid.row(limit);
        }
    }
    grid.render(style)
}

/// The first holders of a limit, and the sum of all further ones.
fn holders(met: &Refusal) -> Vec<(String, String)> {
    let named = |holder: &Holder| {
        let who = human::name(&holder.who, 40);
        let who = match &holder.origin {
            Some(origin) => format!("{who}, for {}", human::name(origin, 32)),
            None => who,
        };
        (who, count(holder.amount))
    };
    let shown = met.held_by.iter().take(HOLDERS).map(named);
    let others = met.held_by.get(HOLDERS..).unwrap_or_default();
    let rest = others
        .iter()
        .fold(0, |sum: u64, h| sum.saturating_add(h.amount));
    let last = (!others.is_empty()).then(|| (format!("{} others", others.len()), count(rest)));
    shown.chain(last).collect()
}

fn count(number: u64) -> String {
    human::count(number as f64)
}

fn time(ns: u64) -> String {
    Unit::Ns.write(Value::Count(ns))
}

fn times(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        times => format!("{} times", count(times)),
    }
}
