//! Series as lines or steps.

use crate::plot::axis::Axis;
use crate::plot::frame::Frame;
use crate::plot::{Figure, PALETTE, Size, join, px, slot_class};
use maud::{Markup, html};

/// The connection between neighbouring points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A straight line from point to point.
    Line,
    /// Level up to the next point, then vertical: for distributions.
    Step,
}

/// One series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Palette slot, which also determines dash and marker.
    pub slot: usize,
    /// Points, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// Several series over the same two axes.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The horizontal axis of all series.
    pub x: Axis,
    /// The vertical axis of all series.
    pub y: Axis,
    /// The connection between neighbouring points.
    pub mark: Mark,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// Markers on each line: enough to tell lines apart, too few to hide them.
const MARKERS: usize = 5;

impl Figure for Lines {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let frame = Frame::new(&self.x, &self.y, size);
        (size.height(), self.marks(&frame))
    }
}

impl Lines {
    /// The axes and lines in `frame`.
    pub(crate) fn marks(&self, frame: &Frame) -> Markup {
        let series = self.series.iter().rev();
        let marks = series.map(|series| self.one(series, frame));
        join([frame.axes()].into_iter().chain(marks))
    }

    fn one(&self, series: &Series, frame: &Frame) -> Markup {
        let class = slot_class(series.slot);
        html! {
            g class=(class) {
                title { (series.name) }
                path class="line" d=(self.path(&series.points, frame)) {}
                @for point in spread(series) {
                    (marker(series.slot, frame.x(point.0), frame.y(point.1)))
                }
            }
        }
    }

    fn path(&self, points: &[(f64, f64)], frame: &Frame) -> String {
        let mut path = String::new();
        for (i, point) in points.iter().enumerate() {
            match (i, self.mark) {
                (0, _) => path += &format!("M{}", frame.point(*point)),
                (_, Mark::Line) => path += &format!("L{}", frame.point(*point)),
                (_, Mark::Step) => {
                    path += &format!("H{}V{}", px(frame.x(point.0)), px(frame.y(point.1)));
                }
            }
        }
        path
    }
}

/// A few points of the series, evenly spaced and shifted by its slot, so that the markers of close
/// lines do not cover each other.
fn spread(series: &Series) -> Vec<(f64, f64)> {
    let n = series.points.len();
    let shift = |i: usize| (2 * i * PALETTE + 2 * (series.slot % PALETTE) + 1) * n;
    let mut chosen: Vec<usize> = (0..MARKERS)
        .map(|i| shift(i) / (2 * PALETTE * MARKERS))
        .collect();
    chosen.dedup();
    chosen
        .into_iter()
        .filter_map(|i| series.points.get(i).copied())
        .collect()
}

/// The marker of palette slot `slot` around a point.
#[must_use]
pub(crate) fn marker(slot: usize, x: f64, y: f64) -> Markup {
    let d = match slot % PALETTE {
        0 => format!(
            "M{} {}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
            px(x - 3.5),
            px(y)
        ),
        1 => format!("M{} {}h6.4v6.4h-6.4z", px(x - 3.2), px(y - 3.2)),
        2 => format!("M{} {}l4.2 7.2h-8.4z", px(x), px(y - 4.6)),
        3 => format!("M{} {}l4.4 4.4l-4.4 4.4l-4.4 -4.4z", px(x), px(y - 4.4)),
        4 => format!("M{} {}l4.2 -7.2h-8.4z", px(x), px(y + 4.6)),
        5 => format!("M{} {}h8v3h-8z", px(x - 4.0), px(y - 1.5)),
        6 => format!("M{} {}v8h3v-8z", px(x - 1.5), px(y - 4.0)),
        _ => format!(
            "M{} {}l3.6 2.6l-1.4 4.2h-4.4l-1.4 -4.2z",
            px(x),
            px(y - 3.6)
        ),
    };
    html! { path class="marker" d=(d) {} }
}
