//! Bytes on their way: stages from left to right, each a stack of parts, the
//! first of which carries on what came from the stage before.

use crate::plot::{Anchor, Figure, Part, Size, block, join, px, rule, slot_class, text};
use maud::{Markup, html};

/// One stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Who holds the bytes.
    pub label: String,
    /// The total in words.
    pub note: String,
    /// The parts from the bottom. The first continues the stage before; the
    /// others were added here.
    pub parts: Vec<Part>,
}

/// The stages of one stack.
#[derive(Clone, Debug)]
pub struct Flow {
    /// From the application to the NAND.
    pub stages: Vec<Stage>,
    /// The bytes that fill the height: the same for flows that are compared.
    pub full: f64,
}

const TALL: f64 = 130.0;
const TOP: f64 = 8.0;
const FOOT: f64 = 40.0;

impl Stage {
    fn total(&self) -> f64 {
        self.parts.iter().map(|p| p.value).sum()
    }
}

impl Figure for Flow {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let thick = size.width() / 7.0;
        let gaps = self.stages.len().saturating_sub(1).max(1) as f64;
        let pitch = (size.width() - thick) / gaps;
        let tall = |bytes: f64| TALL * (bytes / self.full.max(1.0)).clamp(0.0, 1.0);
        let ribbons = self.stages.windows(2).enumerate().map(|(i, pair)| {
            let from = (pitch * i as f64 + thick, tall(pair[0].total()));
            let carried = pair[1].parts.first().map_or(0.0, |p| p.value);
            ribbon(from, (pitch * (i + 1) as f64, tall(carried)))
        });
        let stages = self.stages.iter().enumerate().map(|(i, stage)| {
            let anchor = match i {
                0 => Anchor::Start,
                _ if i + 1 == self.stages.len() => Anchor::End,
                _ => Anchor::Middle,
            };
            stage.draw(pitch * i as f64, thick, anchor, &tall)
        });
        let floor = rule((0.0, TOP + TALL), (size.width(), TOP + TALL), "base");
        (
            TOP + TALL + FOOT,
            join(ribbons.chain(stages).chain([floor])),
        )
    }
}

impl Stage {
    fn draw(&self, x: f64, thick: f64, anchor: Anchor, tall: &impl Fn(f64) -> f64) -> Markup {
        let mut below = 0.0;
        let parts = self.parts.iter().map(|part| {
            let (from, to) = (tall(below), tall(below + part.value));
            below += part.value;
            let class = format!("{} fill", slot_class(part.slot));
            block(x, TOP + TALL - to, thick, to - from, &class, &part.hint)
        });
        let parts: Vec<Markup> = parts.collect();
        let words = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x + thick / 2.0,
            Anchor::End => x + thick,
        };
        join([
            join(parts),
            text(words, TOP + TALL + 17.0, anchor, "name", &self.label),
            text(words, TOP + TALL + 33.0, anchor, "note", &self.note),
        ])
    }
}

/// From a height at one stage to a height at the next, along the floor.
fn ribbon((x0, h0): (f64, f64), (x1, h1): (f64, f64)) -> Markup {
    let (floor, middle) = (TOP + TALL, f64::midpoint(x0, x1));
    let d = format!(
        "M{x0} {y0}C{m} {y0} {m} {y1} {x1} {y1}V{f}H{x0}Z",
        x0 = px(x0),
        x1 = px(x1),
        m = px(middle),
        y0 = px(floor - h0),
        y1 = px(floor - h1),
        f = px(floor)
    );
    html! { path class="ribbon" d=(d) {} }
}
