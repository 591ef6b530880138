//! Shared parts of the figures of a page: names, colours, cards, legends.

use crate::attribution::names;
use crate::plot::{Figure, PALETTE, slot_class, svg, swatch};
use crate::record::Run;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// A run with the name that tells it from the others, and its index among them.
#[derive(Clone, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) run: &'a Run,
    pub(crate) name: String,
    pub(crate) slot: usize,
}

/// Names each of `runs` so that they can be told apart.
pub(crate) fn named<'a>(runs: &[&'a Run]) -> Vec<Named<'a>> {
    let runs_and_names = runs.iter().zip(names(runs)).enumerate();
    runs_and_names
        .map(|(slot, (run, name))| Named { run, name, slot })
        .collect()
}

/// Causes with a fixed colour, so that a cause has the same colour on every page; other names take
/// the colours that are left.
const CAUSES: [&str; 7] = ["host", "gc", "mapping", "padding", "rmw", "wear", "retire"];

/// Palette slots of `names`, in the order of a legend.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    names: Vec<String>,
    slots: Vec<usize>,
}

impl Slots {
    /// Slots of causes: the known ones first, in the order of [`CAUSES`].
    pub(crate) fn causes(names: &BTreeSet<&str>) -> Self {
        let known = CAUSES
            .iter()
            .enumerate()
            .filter(|(_, c)| names.contains(*c));
        let other = names.iter().filter(|n| !CAUSES.contains(n));
        let mut out = Self {
            names: Vec::new(),
            slots: Vec::new(),
        };
        for (slot, cause) in known {
            out.push(cause, slot);
        }
        for (i, name) in other.enumerate() {
            out.push(name, (CAUSES.len() + i) % PALETTE);
        }
        out
    }

    /// Slots of any other names, in the given order.
    pub(crate) fn ordered(names: Vec<String>) -> Self {
        let slots = (0..names.len()).map(|i| i % PALETTE).collect();
        Self { names, slots }
    }

    /// Slots of the purposes of host writes. Data has the colour of the cause `host`; the others
    /// avoid the colours of the main causes.
    pub(crate) fn purposes(names: &BTreeSet<&str>) -> Self {
        let mut out = Self {
            names: Vec::new(),
            slots: Vec::new(),
        };
        out.push("data", 0);
        for (i, name) in names.iter().filter(|n| **n != "data").enumerate() {
            out.push(name, 3 + i % (PALETTE - 3));
        }
        out
    }

    fn push(&mut self, name: &str, slot: usize) {
        self.names.push(name.to_owned());
        self.slots.push(slot);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.names
            .iter()
            .map(String::as_str)
            .zip(self.slots.iter().copied())
    }

    /// A legend of filled squares.
    pub(crate) fn legend(&self) -> Markup {
        self.legend_of("")
    }

    /// A legend of filled squares, headed by `what` the colours stand for.
    pub(crate) fn legend_of(&self, what: &str) -> Markup {
        html! {
            ul.legend {
                @if !what.is_empty() { li { b { (what) } } }
                @for (name, slot) in self.iter() {
                    li {
                        svg viewBox="0 0 12 12" aria-hidden="true" class=(slot_class(slot)) style="width:12px" {
                            rect x="0" y="0" width="12" height="12" class="fill" {}
                        }
                        (name)
                    }
                }
            }
        }
    }
}

/// A legend of lines with their markers.
pub(crate) fn legend<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> Markup {
    let mut entries = entries.peekable();
    html! {
        @if entries.peek().is_some() {
            ul.legend {
                @for (name, slot) in entries { li { (swatch(slot)) (name) } }
            }
        }
    }
}

/// One plot with its title, legend, caption and numbers.
pub(crate) struct Card<'a> {
    /// Id of the SVG, unique on the page.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) legend: Markup,
    /// Caption: how to read the plot.
    pub(crate) reading: &'a str,
    /// The numbers as a table, if the plot hides them.
    pub(crate) numbers: Option<Markup>,
}

impl Card<'_> {
    pub(crate) fn with(&self, figure: &impl Figure) -> Markup {
        html! {
            figure {
                h3 { (self.title) }
                (self.legend)
                (svg(figure, self.id, self.title, self.reading))
                figcaption { (self.reading) }
                @if let Some(numbers) = &self.numbers {
                    details {
                        summary { "Numbers" }
                        div.scroll tabindex="0" role="region" aria-label={ "Numbers: " (self.title) } {
                            (numbers)
                        }
                    }
                }
            }
        }
    }
}
