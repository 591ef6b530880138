//! Histograms as strips above each other on one axis, so that shapes can be compared without
//! overlap.

use crate::plot::axis::Axis;
use crate::plot::rows::{EDGE, Rows, heading};
use crate::plot::{Figure, Size, block, join, rule, slot_class};
use maud::Markup;

/// One bin of a strip.
#[derive(Clone, Debug)]
pub struct Bin {
    /// Lower edge of the bin.
    pub from: f64,
    /// Upper edge of the bin.
    pub to: f64,
    /// Share of the strip's total, 0 to 1.
    pub share: f64,
    /// Tooltip of the bin.
    pub hint: String,
}

/// One histogram, drawn as a strip.
#[derive(Clone, Debug)]
pub struct Strip {
    /// Name of the strip.
    pub label: String,
    /// Summary in words, at the end of the label's line.
    pub note: String,
    /// Palette slot of the strip.
    pub slot: usize,
    /// Bins, in ascending order.
    pub bins: Vec<Bin>,
}

/// Histograms that share an axis.
#[derive(Clone, Debug)]
pub struct Histograms {
    /// The axis of the bins.
    pub axis: Axis,
    /// The strips from top to bottom.
    pub strips: Vec<Strip>,
}

const PITCH: f64 = 64.0;
const TALL: f64 = 36.0;

impl Figure for Histograms {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let rows = Rows::new(&self.axis, size, self.strips.len(), PITCH, 70.0);
        let at = |value: f64| rows.at(value);
        let most = self
            .strips
            .iter()
            .flat_map(|s| &s.bins)
            .map(|b| b.share)
            .fold(0.0, f64::max);
        let strips = self.strips.iter().enumerate();
        let strips = strips.map(|(i, strip)| strip.draw(rows.top(i), size.width(), most, at));
        rows.figure(strips)
    }
}

impl Strip {
    fn draw(&self, y: f64, width: f64, most: f64, at: impl Fn(f64) -> f64) -> Markup {
        let base = y + PITCH - 6.0;
        let class = format!("{} fill", slot_class(self.slot));
        let bins = self.bins.iter().filter(|bin| bin.share > 0.0).map(|bin| {
            // Even the rarest bin stays visible.
            let height = (TALL * bin.share / most).max(1.5);
            let (from, to) = (at(bin.from), at(bin.to).max(at(bin.from) + 1.5));
            block(from, base - height, to - from, height, &class, &bin.hint)
        });
        let bins: Vec<Markup> = bins.collect();
        join([
            heading(y, width, &self.label, &self.note),
            join(bins),
            rule((0.0, base), (width - EDGE, base), "base"),
        ])
    }
}
