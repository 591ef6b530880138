//! Generic lists: rows under titles, and facts by name.

use crate::human;
use crate::table::Style;
use crate::table::grid::{Column, Grid, cell, dim, strong};

/// Widest cell of a list, in columns.
const WIDEST: usize = 120;

/// The alignment of a column in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Flush left, for words.
    Left,
    /// Flush right, for numbers.
    Right,
}

/// A line for each of `rows` under the titles of `columns`.
#[must_use]
pub fn listing(columns: &[(&str, Side)], rows: &[Vec<String>], style: Style) -> String {
    let side = |(_, side): &(&str, Side)| match side {
        Side::Left => Column::Left,
        Side::Right => Column::Right,
    };
    let mut grid = Grid::new(columns.iter().map(side).collect());
    grid.row(columns.iter().map(|(title, _)| strong(*title)).collect());
    for row in rows {
        let cells = row.iter().map(|text| cell(human::name(text, WIDEST)));
        grid.row(cells.collect());
    }
    grid.render(style)
}

/// A line for each fact: its name, then its value.
#[must_use]
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>, style: Style) -> String {
    let mut grid = Grid::new(vec![Column::Left; 2]);
    for (name, text) in facts {
        grid.row(vec![dim(name), cell(human::name(&text, WIDEST))]);
    }
    grid.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let columns = [("name", Side::Left), ("size", Side::Right)];
        let rows = [["a", "1"], ["long\u{1b}", "200"]].map(|r| r.map(str::to_owned).to_vec());
        let text = listing(&columns, &rows, Style::default());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].ends_with("  size") && lines[1].ends_with("     1"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "a control character came through");
        let told = facts(
            [("format", "csv".to_owned()), ("n", "1".to_owned())],
            Style::default(),
        );
        assert_eq!(told, "format  csv\nn       1\n");
    }
}
