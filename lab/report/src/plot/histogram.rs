//! Histograms in strips above each other, on one axis: shapes compare without
//! covering each other.

use crate::plot::axis::Axis;
use crate::plot::rows::{EDGE, Rows, heading};
use crate::plot::{Figure, Size, block, join, rule, slot_class};
use maud::Markup;

/// A bin and the share of its strip that fell into it.
#[derive(Clone, Debug)]
pub struct Bin {
    /// Lower edge.
    pub from: f64,
    /// Upper edge.
    pub to: f64,
    /// 0 to 1.
    pub share: f64,
    /// What it says when pointed at.
    pub hint: String,
}

/// One histogram.
#[derive(Clone, Debug)]
pub struct Strip {
    /// What it is of.
    pub label: String,
    /// Its summary in words.
    pub note: String,
    /// Its place in the palette.
    pub slot: usize,
    /// Its bins, ascending.
    pub bins: Vec<Bin>,
}

/// Histograms on one axis.
#[derive(Clone, Debug)]
pub struct Histograms {
    /// The axis of the bins.
    pub axis: Axis,
    /// The strips from the top.
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
            // What is there stays visible, however rare.
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
