//! Aligned text: cells in columns, headings between rows.
//!
//! Invariant: alignment is computed on the plain text; colour is laid over it
//! and never changes the columns.

use crate::human::width;
use crate::table::Style;

/// The emphasis of a cell, if colour is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Strong,
    Good,
    Bad,
}

/// One cell: its text and emphasis.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

pub(crate) fn cell(text: impl Into<String>) -> Cell {
    toned(text, Tone::Plain)
}

pub(crate) fn dim(text: impl Into<String>) -> Cell {
    toned(text, Tone::Dim)
}

pub(crate) fn strong(text: impl Into<String>) -> Cell {
    toned(text, Tone::Strong)
}

pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
    let text = text.into();
    Cell { text, tone }
}

/// The alignment of a column, and the gap before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Flush left, for words.
    Left,
    /// Flush right, for numbers.
    Right,
    /// A number that belongs to the one before it: flush right, close by.
    Near,
}

impl Column {
    fn gap(self) -> usize {
        match self {
            Self::Near => 1,
            Self::Left | Self::Right => 2,
        }
    }
}

enum Line {
    Heading(String),
    Row(Vec<Cell>),
}

/// A table under construction.
pub(crate) struct Grid {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

impl Grid {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        let lines = Vec::new();
        Self { columns, lines }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.lines.push(Line::Heading(text.to_owned()));
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.lines.push(Line::Row(cells));
    }

    /// Width of the whole table in terminal columns.
    pub(crate) fn width(&self) -> usize {
        let gaps: usize = self.columns.iter().skip(1).map(|c| c.gap()).sum();
        self.widths().iter().sum::<usize>() + gaps
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for line in &self.lines {
            let Line::Row(cells) = line else { continue };
            for (w, cell) in widths.iter_mut().zip(cells) {
                *w = (*w).max(width(&cell.text));
            }
        }
        widths
    }

    pub(crate) fn render(&self, style: Style) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for line in &self.lines {
            match line {
                Line::Heading(text) => out += &paint(text, Tone::Dim, style),
                Line::Row(cells) => out += &self.render_row(cells, &widths, style),
            }
            out.push('\n');
        }
        out
    }

    fn render_row(&self, cells: &[Cell], widths: &[usize], style: Style) -> String {
        // Blanks are held back until a text follows them, so that no line ends in blanks.
        let (mut out, mut blanks) = (String::new(), 0);
        for (i, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
            let pad = widths[i] - width(&cell.text);
            let (left, right) = match column {
                Column::Left => (0, pad),
                Column::Right | Column::Near => (pad, 0),
            };
            blanks += left + if i > 0 { column.gap() } else { 0 };
            if !cell.text.is_empty() {
                out += &" ".repeat(blanks);
                out += &paint(&cell.text, cell.tone, style);
                blanks = 0;
            }
            blanks += right;
        }
        out
    }
}

/// `text` in the colour of `tone`, if colour is on.
pub(crate) fn paint(text: &str, tone: Tone, style: Style) -> String {
    let code = match tone {
        Tone::Dim => "2",
        Tone::Strong => "1",
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Plain => return text.to_owned(),
    };
    match style.color {
        true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

/// `text` broken between words, no line wider than `columns` where words allow.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let w = width(word);
        if used > 0 && used + 1 + w > columns {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += w;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_does_not_move_columns() {
        let mut grid = Grid::new(vec![Column::Left, Column::Right]);
        grid.row(vec![strong("name"), dim("µs")]);
        grid.row(vec![cell("x"), cell("1,234")]);
        let plain = grid.render(Style::default());
        assert_eq!(plain, "name     µs\nx     1,234\n");
        let coloured = grid.render(Style {
            color: true,
            ..Style::default()
        });
        let stripped = coloured.replace("\u{1b}[1m", "").replace("\u{1b}[2m", "");
        assert_eq!(stripped.replace("\u{1b}[0m", ""), plain);
    }

    #[test]
    fn long_text_wraps_between_words() {
        assert_eq!(wrapped("one two three", 8), "one two\nthree\n");
    }
}
