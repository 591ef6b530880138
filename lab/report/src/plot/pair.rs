//! Two figures over the same time axis, one above the other.

use crate::plot::frame::{Frame, margin};
use crate::plot::{Area, Figure, Lines, Size, join, px};
use maud::{Markup, html};

/// Lines above an area, on the same horizontal axis.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The lines on top.
    pub above: Lines,
    /// The area at the bottom.
    pub below: Area,
}

impl Figure for Pair {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let left = margin(&self.above.y).max(margin(&self.below.y));
        let above = Frame::from(left, &self.above.x, &self.above.y, size);
        let below = Frame::from(left, &self.below.x, &self.below.y, size);
        let marks = join([
            self.above.marks(&above),
            below_by(size.height(), &self.below.marks(&below)),
        ]);
        (2.0 * size.height(), marks)
    }
}

fn below_by(y: f64, marks: &Markup) -> Markup {
    html! { g transform={ "translate(0 " (px(y)) ")" } { (marks) } }
}
