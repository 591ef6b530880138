//! Horizontal bars, each a stack of parts, with its label above it.

use crate::plot::axis::Axis;
use crate::plot::{Anchor, Figure, Size, block, fitted, join, rule, slot_class, text, text_width};
use maud::Markup;

/// A part of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its place in the palette.
    pub slot: usize,
    /// Its length.
    pub value: f64,
    /// What it says when pointed at.
    pub hint: String,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// Its total in words.
    pub note: String,
    /// Its parts from the left.
    pub parts: Vec<Part>,
}

/// Bars on one axis.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The axis of lengths.
    pub axis: Axis,
    /// The bars from the top.
    pub bars: Vec<Bar>,
}

const PITCH: f64 = 42.0;
const THICK: f64 = 17.0;
const HEAD: f64 = 4.0;
const FOOT: f64 = 40.0;
const EDGE: f64 = 20.0;

impl Figure for Bars {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let right = size.width() - EDGE;
        let floor = HEAD + PITCH * self.bars.len() as f64;
        let (scale, ticks) = self.axis.layout((right / 90.0) as usize);
        let at = |value: f64| scale.at(value) * right;
        let grid = ticks.iter().enumerate().map(|(i, (value, label))| {
            let x = at(*value);
            let anchor = if i == 0 {
                Anchor::Start
            } else {
                Anchor::Middle
            };
            let lines = (0..self.bars.len()).map(|bar| {
                let y = HEAD + PITCH * bar as f64 + 17.0;
                rule(
                    (x, y),
                    (x, y + THICK + 6.0),
                    if i == 0 { "base" } else { "grid" },
                )
            });
            let x = x.min(size.width() - text_width(label) / 2.0);
            join(lines.chain([text(x, floor + 14.0, anchor, "tick", label)]))
        });
        let bars = self.bars.iter().enumerate().map(|(i, bar)| {
            let y = HEAD + PITCH * i as f64;
            bar.draw(y, size.width(), at)
        });
        let label = text(
            right + EDGE,
            floor + 32.0,
            Anchor::End,
            "axis",
            &self.axis.label,
        );
        (floor + FOOT, join(grid.chain(bars).chain([label])))
    }
}

impl Bar {
    fn draw(&self, y: f64, width: f64, at: impl Fn(f64) -> f64) -> Markup {
        let room = width - text_width(&self.note) - 12.0;
        let mut from = 0.0;
        let parts = self.parts.iter().map(|part| {
            let (x, to) = (at(from), at(from + part.value));
            from += part.value;
            let class = format!("{} fill", slot_class(part.slot));
            block(x, y + 20.0, to - x, THICK, &class, &part.hint)
        });
        let parts: Vec<Markup> = parts.collect();
        join([
            text(
                0.0,
                y + 13.0,
                Anchor::Start,
                "name",
                &fitted(&self.label, room),
            ),
            text(width, y + 13.0, Anchor::End, "note", &self.note),
            join(parts),
        ])
    }
}
