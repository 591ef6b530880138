//! Stacks ranked for one workload, one line each; then the reasons, and the stacks left out.

use crate::human::{self, NOTHING, bytes, times};
use crate::ranking::{LeftOut, PRICED_BY, PRICES, Ranked, Ranking, Spread};
use crate::table::grid::{Tone, paint, wrapped};
use crate::table::{Side, Style, listing};

/// Longest reason, in columns.
const WIDEST: usize = 400;
const TITLES: [&str; 11] = [
    "",
    "stack",
    "score",
    "speed",
    "p99.9",
    "programs/byte",
    "drive DRAM",
    "host memory",
    "$/TB",
    "$/PB written",
    "years",
];

/// The ranking as a table with a legend, the best stack first.
#[must_use]
pub fn ranking(ranking: &Ranking, style: Style) -> String {
    let workload = human::name(&ranking.workload, style.width.max(40) - 24);
    let seeds: Vec<String> = ranking.seeds.iter().map(u64::to_string).collect();
    let seeds = format!("seeds {}", seeds.join(", "));
    let mut out = format!(
        "{}  {}\n\n",
        paint(&workload, Tone::Strong, style),
        paint(&seeds, Tone::Dim, style)
    );
    let side = |index| if index == 1 { Side::Left } else { Side::Right };
    let columns = TITLES.iter().enumerate();
    let columns: Vec<_> = columns
        .map(|(index, &title)| (title, side(index)))
        .collect();
    let rows: Vec<_> = (1..).zip(&ranking.ranked).map(row).collect();
    out += &listing(&columns, &rows, style);
    out.push('\n');
    out += &reasons(ranking, style);
    out += &left_out(&ranking.left_out, style);
    if !ranking.left_out.is_empty() {
        out.push('\n');
    }
    out += &wrapped(&legend(ranking), style.width);
    out.push('\n');
    out + &wrapped(&ranking.advice, style.width)
}

fn row((place, ranked): (usize, &Ranked)) -> Vec<String> {
    let factor = |spread: Option<Spread>| spread.map_or(NOTHING.to_owned(), |s| times(s.median));
    let number =
        |spread: Option<Spread>| spread.map_or(NOTHING.to_owned(), |s| human::three(s.median));
    let memory = |count: u64| match count {
        0 => NOTHING.to_owned(),
        count => bytes(count as f64),
    };
    let cells = [
        // A stack without a score has no place: it is neither better nor worse.
        ranked
            .score
            .map_or(NOTHING.to_owned(), |_| place.to_string()),
        ranked.stack.clone(),
        factor(ranked.score),
        factor(ranked.speed),
        factor(ranked.tail),
        number(ranked.programmed_per_byte),
        memory(ranked.drive_dram_bytes),
        memory(ranked.host_memory_bytes),
        human::three(ranked.dollars_per_tb),
        number(ranked.dollars_per_pb_written),
        number(ranked.life_years),
    ];
    cells.into()
}

/// For each stack its idea, and the reason of its score.
fn reasons(ranking: &Ranking, style: Style) -> String {
    let line = |ranked: &Ranked| {
        let Ranked {
            stack, idea, why, ..
        } = ranked;
        wrapped(&format!("{stack}: {idea}: {why}"), style.width)
    };
    let lines: String = ranking.ranked.iter().map(line).collect();
    lines + "\n"
}

/// A line for each stack that could not be run, with the reason.
#[must_use]
pub fn left_out(left_out: &[LeftOut], style: Style) -> String {
    let line = |left: &LeftOut| {
        let reason = human::name(&left.reason, WIDEST);
        wrapped(&format!("left out: {}: {reason}", left.stack), style.width)
    };
    left_out.iter().map(line).collect()
}

fn legend(ranking: &Ranking) -> String {
    let prices = PRICES.map(|(what, price)| format!("${price} per GB of {what}"));
    format!(
        "× is relative to {}, and more is better; programs/byte: bytes programmed per byte that \
         the application writes; $/PB written: price of the drive over the data that it can write \
         until it is worn out; years: time until then at the write rate of {0}; {} ({PRICED_BY}); \
         {}",
        ranking.base,
        prices.join(", "),
        pasts(ranking)
    )
}

/// The precondition of the drives: not every drive supports the same one.
fn pasts(ranking: &Ranking) -> String {
    let mut all = ranking.ranked.iter();
    let base = all.find(|ranked| ranked.stack == ranking.base);
    let usual = base.map_or("", |ranked| &ranked.precondition);
    let others = ranking
        .ranked
        .iter()
        .filter(|ranked| ranked.precondition != usual);
    let others: Vec<String> = others
        .map(|ranked| format!("{} {}", ranked.stack, ranked.precondition))
        .collect();
    match others.is_empty() {
        true => format!("drives were {usual}"),
        false => format!(
            "drives were {usual}, except that of {}",
            others.join(", of ")
        ),
    }
}
