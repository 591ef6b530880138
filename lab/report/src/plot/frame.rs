//! The rectangle between two axes.
//!
//! Invariant: no label of an axis overlaps another one or leaves the view box.

use crate::plot::axis::Axis;
use crate::plot::scale::Scale;
use crate::plot::{Anchor, Size, join, px, rule, text, text_width};
use maud::Markup;

const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 16.0;

/// A pair of axes, laid out for a size.
pub(crate) struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
    axes: Markup,
}

/// Number of steps on the vertical axis.
const STEPS: usize = 5;

/// Room for the labels of a vertical axis.
pub(crate) fn margin(y: &Axis) -> f64 {
    let (_, ticks) = y.layout(STEPS);
    let widest = ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
    widest + 10.0
}

impl Frame {
    pub(crate) fn new(x: &Axis, y: &Axis, size: Size) -> Self {
        Self::from(margin(y), x, y, size)
    }

    /// A frame whose left edge is `left`, so that frames above each other align.
    pub(crate) fn from(left: f64, x: &Axis, y: &Axis, size: Size) -> Self {
        let (y_scale, y_ticks) = y.layout(STEPS);
        let right = size.width() - RIGHT;
        let (x_scale, x_ticks) = x.layout(((right - left) / 66.0) as usize);
        let mut frame = Self {
            left,
            right,
            top: TOP,
            bottom: size.height() - BOTTOM,
            x: x_scale,
            y: y_scale,
            axes: join([]),
        };
        frame.axes = join([
            frame.horizontals(&y_ticks),
            frame.verticals(&x_ticks),
            text(0.0, 12.0, Anchor::Start, "axis", &y.label),
            text(right, frame.bottom + 34.0, Anchor::End, "axis", &x.label),
        ]);
        frame
    }

    fn horizontals(&self, ticks: &[(f64, String)]) -> Markup {
        join(ticks.iter().enumerate().map(|(i, (value, label))| {
            let y = self.y(*value);
            let class = if i == 0 { "base" } else { "grid" };
            join([
                rule((self.left, y), (self.right, y), class),
                text(self.left - 7.0, y + 4.0, Anchor::End, "tick", label),
            ])
        }))
    }

    /// Vertical grid lines with labels; a label is left out if it would touch the previous one.
    fn verticals(&self, ticks: &[(f64, String)]) -> Markup {
        let mut free = f64::NEG_INFINITY;
        join(ticks.iter().map(|(value, label)| {
            let (x, half) = (self.x(*value), text_width(label) / 2.0);
            let line = rule((x, self.top), (x, self.bottom), "grid");
            let x = x.min(self.right + RIGHT - half);
            if x - half < free {
                return line;
            }
            free = x + half + 6.0;
            join([
                line,
                text(x, self.bottom + 17.0, Anchor::Middle, "tick", label),
            ])
        }))
    }

    pub(crate) fn x(&self, value: f64) -> f64 {
        self.left + self.x.at(value) * (self.right - self.left)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.at(value) * (self.bottom - self.top)
    }

    pub(crate) fn point(&self, (x, y): (f64, f64)) -> String {
        format!("{} {}", px(self.x(x)), px(self.y(y)))
    }

    /// Grid, ticks and labels, to be drawn below the marks.
    pub(crate) fn axes(&self) -> Markup {
        self.axes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Kind;

    /// The middles and widths of the labels below the axis.
    fn labels(frame: &Markup) -> Vec<(f64, f64)> {
        let middles = frame
            .0
            .split("<text x=\"")
            .skip(1)
            .filter(|t| t.contains("\"middle\""));
        let label = |tag: &str| {
            let x = tag.split('"').next()?.parse().ok()?;
            let words = tag.split_once('>')?.1.split('<').next()?;
            Some((x, text_width(words)))
        };
        middles.filter_map(label).collect()
    }

    #[test]
    fn labels_neither_touch_nor_leave_the_figure() {
        for high in [1.0, 37.0, 9.9e5, 1.2e9, 3.3e13, 1.8e19] {
            for kind in [Kind::Number, Kind::Bytes, Kind::Time, Kind::LogTime] {
                for size in [Size::Wide, Size::Narrow] {
                    let x = Axis::new("", kind, [1.0, high].into_iter());
                    let y = Axis::new("", Kind::Tail, [1.0].into_iter());
                    let labels = labels(&Frame::new(&x, &y, size).axes());
                    assert!(labels.len() >= 2, "{kind:?} to {high}");
                    for pair in labels.windows(2) {
                        let gap = pair[1].0 - pair[0].0 - (pair[0].1 + pair[1].1) / 2.0;
                        assert!(gap > 0.0, "{kind:?} to {high}: {labels:?}");
                    }
                    let last = labels[labels.len() - 1];
                    assert!(
                        last.0 + last.1 / 2.0 <= size.width() + 0.1,
                        "{kind:?} to {high}"
                    );
                }
            }
        }
    }
}
