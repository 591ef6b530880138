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

/// Two axes at a size.
pub(crate) struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
    axes: Markup,
}

impl Frame {
    pub(crate) fn new(x: &Axis, y: &Axis, size: Size) -> Self {
        let (y_scale, y_ticks) = y.layout(5);
        let widest = y_ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
        let left = widest + 10.0;
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

    /// A label is left out where it would touch the one before it.
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
