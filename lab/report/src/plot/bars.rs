//! Horizontal bars, each a stack of parts, with its label above it.

use crate::plot::axis::Axis;
use crate::plot::rows::{Rows, heading};
use crate::plot::{Figure, Size, block, join, rule, slot_class};
use maud::Markup;

/// One segment of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// Palette slot of the segment.
    pub slot: usize,
    /// Length of the segment, on the axis.
    pub value: f64,
    /// Tooltip of the segment.
    pub hint: String,
}

/// One bar, a stack of segments.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name above the bar.
    pub label: String,
    /// The total in words, at the end of the label's line.
    pub note: String,
    /// Segments, from left to right.
    pub parts: Vec<Part>,
}

/// Bars that share an axis.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The axis of the lengths.
    pub axis: Axis,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

const PITCH: f64 = 42.0;
const THICK: f64 = 17.0;

impl Figure for Bars {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let rows = Rows::new(&self.axis, size, self.bars.len(), PITCH, 90.0);
        let at = |value: f64| rows.at(value);
        let grid = rows.ticks.iter().enumerate().map(|(i, (value, _))| {
            let (x, class) = (at(*value), if i == 0 { "base" } else { "grid" });
            let line = |bar| {
                let y = rows.top(bar) + 17.0;
                rule((x, y), (x, y + THICK + 6.0), class)
            };
            join((0..self.bars.len()).map(line))
        });
        let bars = self.bars.iter().enumerate();
        let bars = bars.map(|(i, bar)| bar.draw(rows.top(i), size.width(), at));
        rows.figure(grid.chain(bars))
    }
}

impl Bar {
    fn draw(&self, y: f64, width: f64, at: impl Fn(f64) -> f64) -> Markup {
        let mut from = 0.0;
        let parts = self.parts.iter().map(|part| {
            let (x, to) = (at(from), at(from + part.value));
            from += part.value;
            let class = format!("{} fill", slot_class(part.slot));
            block(x, y + 20.0, to - x, THICK, &class, &part.hint)
        });
        let parts: Vec<Markup> = parts.collect();
        join([heading(y, width, &self.label, &self.note), join(parts)])
    }
}
