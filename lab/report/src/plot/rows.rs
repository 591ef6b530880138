//! Shared layout of figures with rows: a heading for each row, and one axis at their foot.

use crate::plot::axis::Axis;
use crate::plot::scale::Scale;
use crate::plot::{Anchor, Size, fitted, join, text, text_width};
use maud::Markup;

/// Room above the first row.
const HEAD: f64 = 4.0;
/// Room below the last row, for the axis.
const FOOT: f64 = 40.0;
/// Room right of the axis, for its last label.
pub(super) const EDGE: f64 = 20.0;

/// Rows over one axis, of equal heights.
pub(super) struct Rows<'a> {
    size: Size,
    axis: &'a Axis,
    scale: Scale,
    /// Ticks of the axis: values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
    pitch: f64,
    floor: f64,
}

impl<'a> Rows<'a> {
    /// Lays out `count` rows of height `pitch`, over an axis with a tick about every `apart`.
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

    /// Horizontal position of `value`.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.scale.at(value) * (self.size.width() - EDGE)
    }

    /// Upper edge of row `i`.
    pub(super) fn top(&self, i: usize) -> f64 {
        HEAD + self.pitch * i as f64
    }

    /// The height of the figure, and `marks` with the axis below them.
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

/// The heading of a row that begins at `y`: `label`, and `note` at its end.
pub(super) fn heading(y: f64, width: f64, label: &str, note: &str) -> Markup {
    let room = width - text_width(note) - 12.0;
    let label = fitted(label, room);
    join([
        text(0.0, y + 13.0, Anchor::Start, "name", &label),
        text(width, y + 13.0, Anchor::End, "note", note),
    ])
}
