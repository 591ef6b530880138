//! What figures of rows share: a heading a row, and one axis at their foot.

use crate::plot::axis::Axis;
use crate::plot::scale::Scale;
use crate::plot::{Anchor, Size, fitted, join, text, text_width};
use maud::Markup;

/// Room above the first row.
const HEAD: f64 = 4.0;
/// Room below the last one, for the axis.
const FOOT: f64 = 40.0;
/// Room beside the end of the axis.
pub(super) const EDGE: f64 = 20.0;

/// Rows over one axis, of equal heights.
pub(super) struct Rows<'a> {
    size: Size,
    axis: &'a Axis,
    scale: Scale,
    /// Values of the axis that are told, with their words.
    pub(super) ticks: Vec<(f64, String)>,
    pitch: f64,
    floor: f64,
}

impl<'a> Rows<'a> {
    /// `count` rows of `pitch`, over an axis whose ticks have `apart` of room.
    pub(super) fn new(axis: &'a Axis, size: Size, count: usize, pitch: f64, apart: f64) -> Self {
        let (scale, ticks) = axis.layout(((size.width() - EDGE) / apart) as usize);
        Self {
            size,
            axis,
            scale,
            ticks,
            pitch,
            floor: HEAD + pitch * count as f64,
        }
    }

    /// Where `value` is on the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.scale.at(value) * (self.size.width() - EDGE)
    }

    /// Where row `i` begins.
    pub(super) fn top(&self, i: usize) -> f64 {
        HEAD + self.pitch * i as f64
    }

    /// The figure: `marks`, and below them the axis.
    pub(super) fn figure(&self, marks: impl Iterator<Item = Markup>) -> (f64, Markup) {
        let labels = self.ticks.iter().enumerate().map(|(i, (value, label))| {
            let anchor = if i == 0 {
                Anchor::Start
            } else {
                Anchor::Middle
            };
            let most = self.size.width() - text_width(label) / 2.0;
            let x = self.at(*value).min(most);
            text(x, self.floor + 14.0, anchor, "tick", label)
        });
        let name = &self.axis.label;
        let name = text(
            self.size.width(),
            self.floor + 32.0,
            Anchor::End,
            "axis",
            name,
        );
        let marks = marks.chain(labels).chain([name]);
        (self.floor + FOOT, join(marks))
    }
}

/// What stands above a row that begins at `y`: `label`, and at its end `note`.
pub(super) fn heading(y: f64, width: f64, label: &str, note: &str) -> Markup {
    let room = width - text_width(note) - 12.0;
    let label = fitted(label, room);
    join([
        text(0.0, y + 13.0, Anchor::Start, "name", &label),
        text(width, y + 13.0, Anchor::End, "note", note),
    ])
}
