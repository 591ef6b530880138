//! Ratios as dots on one logarithmic axis, one row for each compared quantity.

use crate::plot::axis::{Axis, Kind};
use crate::plot::line::marker;
use crate::plot::rows::heading;
use crate::plot::{Anchor, Figure, Size, block, join, px, rule, slot_class, text};
use maud::{Markup, html};

/// One ratio in a row.
#[derive(Clone, Debug)]
pub struct Dot {
    /// The ratio; 1 means equal.
    pub ratio: f64,
    /// Palette slot, which also determines the shape.
    pub slot: usize,
    /// Tooltip of the dot.
    pub hint: String,
}

/// The ratios of one quantity.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the quantity.
    pub label: String,
    /// Its value in words at the end of the row; may be empty.
    pub note: String,
    /// CSS class of the row, by which a page shows some rows and fades others.
    pub class: &'static str,
    /// The ratios of the row.
    pub dots: Vec<Dot>,
}

/// Rows of dots that share an axis.
#[derive(Clone, Debug)]
pub struct Dots {
    /// Label of the axis.
    pub axis: String,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
    /// The range of ratios that count as equal, drawn as a band; `None` for no band.
    pub band: Option<(f64, f64)>,
}

const PITCH: f64 = 34.0;
const HEAD: f64 = 4.0;
const FOOT: f64 = 40.0;
const EDGE: f64 = 22.0;
/// Largest ratio on the axis, and inverse of the smallest; dots beyond stand at its ends.
const FARTHEST: f64 = 1000.0;

impl Dots {
    /// An axis with 1 in the middle.
    fn axis(&self) -> Axis {
        let ratios = self.rows.iter().flat_map(|row| &row.dots);
        let far = ratios.map(|dot| dot.ratio.max(f64::MIN_POSITIVE).ln().abs().exp());
        let far = far.fold(1.0, f64::max).clamp(2.0, FARTHEST);
        Axis {
            label: self.axis.clone(),
            kind: Kind::Ratio,
            low: 1.0 / far,
            high: far,
        }
    }
}

impl Figure for Dots {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let (left, right) = (EDGE, size.width() - EDGE);
        let floor = HEAD + PITCH * self.rows.len() as f64;
        let axis = self.axis();
        let (scale, ticks) = axis.layout(((right - left) / 66.0) as usize);
        let at = |ratio: f64| left + scale.at(ratio) * (right - left);
        let band = self.band.map(|(low, high)| {
            let (from, to) = (at(low), at(high));
            block(
                from,
                HEAD,
                to - from,
                floor - HEAD,
                "band",
                "as far as a number may be off",
            )
        });
        let grid = ticks.iter().map(|(value, label)| {
            let (x, class) = (
                at(*value),
                if (value - 1.0).abs() < 1e-9 {
                    "base"
                } else {
                    "grid"
                },
            );
            join([
                rule((x, HEAD), (x, floor), class),
                text(x, floor + 15.0, Anchor::Middle, "tick", label),
            ])
        });
        let rows = self.rows.iter().enumerate();
        let rows = rows.map(|(i, row)| row.draw(HEAD + PITCH * i as f64, size.width(), at));
        let label = text(right, floor + 33.0, Anchor::End, "axis", &self.axis);
        let marks = band.into_iter().chain(grid).chain(rows).chain([label]);
        (floor + FOOT, join(marks))
    }
}

impl Row {
    fn draw(&self, y: f64, width: f64, at: impl Fn(f64) -> f64) -> Markup {
        let middle = y + PITCH - 9.0;
        html! {
            g class=(self.class) {
                (heading(y - 1.0, width, &self.label, &self.note))
                path class="grid" d={ "M0 " (px(middle)) "H" (px(width)) } {}
                @for dot in &self.dots {
                    g class=(slot_class(dot.slot)) {
                        title { (dot.hint) }
                        (marker(dot.slot, at(dot.ratio), middle))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(ratios: &[f64]) -> Dots {
        let dot = |ratio: &f64| Dot {
            ratio: *ratio,
            slot: 0,
            hint: String::new(),
        };
        let row = Row {
            label: "a".to_owned(),
            note: String::new(),
            class: "",
            dots: ratios.iter().map(dot).collect(),
        };
        Dots {
            axis: "ratio".to_owned(),
            rows: vec![row],
            band: None,
        }
    }

    #[test]
    fn ratio_one_stands_in_the_middle_and_far_ratios_at_the_ends() {
        let axis = dots(&[0.25, 1.5]).axis();
        assert_eq!((axis.low, axis.high), (0.25, 4.0));
        let axis = dots(&[0.0, f64::NAN, 1e9]).axis();
        assert_eq!((axis.low, axis.high), (1.0 / FARTHEST, FARTHEST));
        let marks = dots(&[0.0, 1.0, 1e9]).draw(Size::Narrow).1;
        assert!(
            !marks.0.contains("NaN") && !marks.0.contains("inf"),
            "{}",
            marks.0
        );
    }
}
