//! The page of a document that has no runs on drives: a table, and stacked bars.
//!
//! Invariants are those of all pages: every text is escaped, and every cell carries its raw value
//! and the JSON pointer to it.

use super::{document, embedded_text, footer, list};
use crate::human;
use crate::page::parts::{Card, Slots};
use crate::plot::{Axis, Bar, Bars, Kind, Part};
use maud::{Markup, html};

/// The contents of the page.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// One sentence below the title.
    pub lead: &'a str,
    /// Findings, one sentence each.
    pub findings: Vec<String>,
    /// Titles of the table's columns.
    pub columns: Vec<&'a str>,
    /// Rows of the table.
    pub rows: Vec<Line>,
    /// The figures: each heading with the plots below it.
    pub sections: Vec<(&'a str, Vec<Stacks<'a>>)>,
    /// Schema of the document.
    pub schema: &'a str,
    /// The seed of the run.
    pub seed: u64,
    /// The document, to be embedded in the page.
    pub json: &'a str,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the row.
    pub label: &'static str,
    /// Explanation of the row's quantity.
    pub help: &'static str,
    /// One cell for each column.
    pub cells: Vec<SheetCell>,
}

/// A cell of the table.
#[derive(Clone, Debug)]
pub struct SheetCell {
    /// The text that readers see.
    pub shown: String,
    /// The value exactly as in the document.
    pub raw: String,
    /// JSON pointer to the value.
    pub path: String,
}

/// A plot of bars, each a stack of parts.
#[derive(Clone, Debug)]
pub struct Stacks<'a> {
    /// Id of the SVG, unique on the page.
    pub id: &'a str,
    /// Title of the plot.
    pub title: &'a str,
    /// Caption: how to read the plot.
    pub reading: &'a str,
    /// Label of the axis of lengths.
    pub axis: &'a str,
    /// Kind of the lengths: numbers, bytes, times or shares.
    pub kind: Kind,
    /// Names of the parts, in order.
    pub parts: Vec<&'a str>,
    /// The bars: name, note, and the length of each part.
    pub bars: Vec<(&'a str, String, Vec<f64>)>,
}

/// The page of `sheet`; `command` as in [`super::comparison()`].
#[must_use]
pub fn sheet(sheet: &Sheet<'_>, command: &str) -> String {
    let lead = html! {
        p.lead { (sheet.lead) }
        (list(&sheet.findings))
    };
    let body = html! {
        h2 { "Summary" }
        (table(sheet))
        @for (title, stacks) in &sheet.sections {
            h2 { (title) }
            div.cards { @for stacks in stacks { (stacks.card()) } }
        }
    };
    let foot = footer(sheet.schema, sheet.seed, command);
    let last = [foot, embedded_text(sheet.json)];
    document(sheet.title, &lead, &body, &last)
}

fn table(sheet: &Sheet<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Summary" {
            table {
                thead { tr { th scope="col" { "" } @for column in &sheet.columns { th scope="col" { (column) } } } }
                tbody {
                    @for line in &sheet.rows {
                        tr {
                            th scope="row" title=(line.help) { (line.label) }
                            @for cell in &line.cells {
                                td data-path=(cell.path) data-value=(cell.raw) { (cell.shown) }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Stacks<'_> {
    fn card(&self) -> Markup {
        let slots = Slots::ordered(self.parts.iter().map(|&name| name.to_owned()).collect());
        let totals = self.bars.iter().map(|bar| bar.2.iter().sum());
        let card = Card {
            id: self.id,
            title: self.title,
            legend: match self.parts.len() {
                1 => html! {},
                _ => slots.legend(),
            },
            reading: self.reading,
            numbers: Some(self.numbers()),
        };
        card.with(&Bars {
            axis: Axis::new(self.axis, self.kind, totals),
            bars: self.bars.iter().map(|bar| self.bar(bar, &slots)).collect(),
        })
    }

    fn bar(&self, (name, note, lengths): &(&str, String, Vec<f64>), slots: &Slots) -> Bar {
        let parts = slots
            .iter()
            .zip(lengths)
            .map(|((part, slot), &value)| Part {
                slot,
                value,
                hint: format!("{name}, {part}: {}", self.says(value)),
            });
        Bar {
            label: (*name).to_owned(),
            note: note.clone(),
            parts: parts.collect(),
        }
    }

    fn says(&self, value: f64) -> String {
        match self.kind {
            Kind::Bytes => human::bytes(value),
            Kind::Time | Kind::LogTime => human::time(value),
            Kind::Share => human::share(value),
            Kind::Number | Kind::Ratio | Kind::Tail => human::count(value),
        }
    }

    /// The lengths as a table.
    fn numbers(&self) -> Markup {
        html! {
            table {
                thead { tr { th scope="col" { "" } @for part in &self.parts { th scope="col" { (part) } } } }
                tbody {
                    @for (name, _, lengths) in &self.bars {
                        tr { th scope="row" { (name) } @for &value in lengths { td { (self.says(value)) } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheet_shows_all_its_text_escaped() {
        let hostile = "</script><b>&";
        let stacks = Stacks {
            id: "one",
            title: hostile,
            reading: hostile,
            axis: "time",
            kind: Kind::Time,
            parts: vec!["flash", hostile],
            bars: vec![(hostile, "3 µs".to_owned(), vec![2_000.0, 1_000.0])],
        };
        let cell = SheetCell {
            shown: "3 µs".to_owned(),
            raw: "3000".to_owned(),
            path: "/runs/0/time_ns".to_owned(),
        };
        let page = sheet(
            &Sheet {
                title: hostile,
                lead: hostile,
                findings: vec![hostile.to_owned()],
                columns: vec![hostile],
                rows: vec![Line {
                    label: "time",
                    help: "of all",
                    cells: vec![cell],
                }],
                sections: vec![("Times", vec![stacks])],
                schema: "of/1",
                seed: 7,
                json: "{\"a\":\"</script>\"}",
            },
            "",
        );
        assert!(!page.contains("<b>&"), "{page}");
        assert_eq!(page.matches("</script>").count(), 1, "its own alone");
        let cell = "<td data-path=\"/runs/0/time_ns\" data-value=\"3000\">3 µs</td>";
        assert!(page.contains(cell), "{page}");
        assert!(
            page.contains("2.00 µs") && page.contains("1.00 µs"),
            "{page}"
        );
    }
}
