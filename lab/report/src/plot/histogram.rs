//! Histograms in strips above each other, on one axis: shapes compare without
//! covering each other.

use crate::plot::axis::Axis;
use crate::plot::{Anchor, Figure, Size, block, fitted, join, rule, slot_class, text, text_width};
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
const HEAD: f64 = 4.0;
const FOOT: f64 = 40.0;
const EDGE: f64 = 20.0;

impl Figure for Histograms {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let right = size.width() - EDGE;
        let floor = HEAD + PITCH * self.strips.len() as f64;
        let (scale, ticks) = self.axis.layout((right / 70.0) as usize);
        let at = |value: f64| scale.at(value) * right;
        let most = self
            .strips
            .iter()
            .flat_map(|s| &s.bins)
            .map(|b| b.share)
            .fold(0.0, f64::max);
        let strips = self.strips.iter().enumerate().map(|(i, strip)| {
            let y = HEAD + PITCH * i as f64;
            strip.draw(y, size.width(), most, at)
        });
        let labels = ticks.iter().enumerate().map(|(i, (value, label))| {
            let anchor = if i == 0 {
                Anchor::Start
            } else {
                Anchor::Middle
            };
            let x = at(*value).min(size.width() - text_width(label) / 2.0);
            text(x, floor + 14.0, anchor, "tick", label)
        });
        let label = text(
            right + EDGE,
            floor + 32.0,
            Anchor::End,
            "axis",
            &self.axis.label,
        );
        (floor + FOOT, join(strips.chain(labels).chain([label])))
    }
}

impl Strip {
    fn draw(&self, y: f64, width: f64, most: f64, at: impl Fn(f64) -> f64) -> Markup {
        let room = width - text_width(&self.note) - 12.0;
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
            text(
                0.0,
                y + 13.0,
                Anchor::Start,
                "name",
                &fitted(&self.label, room),
            ),
            text(width, y + 13.0, Anchor::End, "note", &self.note),
            join(bins),
            rule((0.0, base), (width - EDGE, base), "base"),
        ])
    }
}
