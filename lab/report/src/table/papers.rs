//! Papers beside the measured values, one line for each paper.

use crate::papers::Papers;
use crate::table::{Side, Style, listing};

/// The table of results, one row for each paper.
#[must_use]
pub fn papers(papers: &Papers, style: Style) -> String {
    let (titles, rows) = papers.results();
    let side = |index| if index == 0 { Side::Left } else { Side::Right };
    let columns = titles.iter().enumerate();
    let columns: Vec<_> = columns
        .map(|(index, &title)| (title, side(index)))
        .collect();
    let rows: Vec<_> = rows.into_iter().map(|row| row.to_vec()).collect();
    listing(&columns, &rows, style)
}
