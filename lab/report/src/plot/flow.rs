//! Flows of bytes: columns from left to right, each a stack of nodes, and bands between nodes of
//! neighbouring columns (a Sankey diagram).
//!
//! Invariant: a band is as thick at both ends as its value says, and never thicker than the unused
//! part of the node at its end.

use crate::plot::{Anchor, Figure, Size, block, fitted, join, px, rule, slot_class, text};
use maud::{Markup, html};

/// One node of a column.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the node.
    pub label: String,
    /// Palette slot of the node.
    pub slot: usize,
    /// Bytes of the node.
    pub value: f64,
    /// Tooltip of the node.
    pub hint: String,
}

/// One column: all bytes at one stage of their way.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Name of the stage.
    pub label: String,
    /// Total of the stage in words.
    pub note: String,
    /// Nodes from bottom to top.
    pub nodes: Vec<Node>,
}

/// Bytes that flow from a node to a node of the next column.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    /// Index of the column on the left, from 0.
    pub column: usize,
    /// Index of the node in that column.
    pub from: usize,
    /// Index of the node in the next column.
    pub to: usize,
    /// Bytes of the band.
    pub value: f64,
}

/// All columns and bands of one run.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The columns, from the application to the NAND.
    pub stages: Vec<Stage>,
    /// The bands between neighbouring columns.
    pub bands: Vec<Band>,
    /// Bytes that fill the whole height, equal for flows to be compared.
    pub full: f64,
}

const TALL: f64 = 150.0;
const TOP: f64 = 8.0;
const FOOT: f64 = 40.0;
const GAP: f64 = 4.0;
const THICK: f64 = 14.0;
/// Smallest height of a node that has room for its name.
const LEGIBLE: f64 = 10.0;

/// Position of a node, and the height of it that bands already use on either side.
#[derive(Clone, Copy)]
struct Spot {
    x: f64,
    floor: f64,
    tall: f64,
    left: f64,
    right: f64,
}

impl Figure for Flow {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let most = self.stages.iter().map(|stage| stage.nodes.len()).max();
        let floor = TOP + TALL + GAP * most.unwrap_or(0) as f64;
        let pitch = self.pitch(size);
        let mut spots = self.spots(pitch, floor);
        let bands = self.bands.iter().filter_map(|band| {
            let slot = self.slot(band)?;
            self.band(band, slot, &mut spots)
        });
        let bands: Vec<Markup> = bands.collect();
        let stages = self.stages.iter().zip(&spots).enumerate();
        let last = self.stages.len().saturating_sub(1);
        let stages = stages.map(|(i, (stage, spots))| {
            let anchor = match i {
                0 => Anchor::Start,
                i if i == last => Anchor::End,
                _ => Anchor::Middle,
            };
            stage.draw(spots, (pitch * i as f64, floor), anchor, pitch - THICK)
        });
        let line = rule((0.0, floor), (size.width(), floor), "base");
        let marks = bands.into_iter().chain(stages).chain([line]);
        (floor + FOOT, join(marks))
    }
}

impl Flow {
    /// Distance between the left edges of neighbouring columns.
    fn pitch(&self, size: Size) -> f64 {
        let gaps = self.stages.len().saturating_sub(1).max(1) as f64;
        (size.width() - THICK) / gaps
    }

    fn tall(&self, bytes: f64) -> f64 {
        TALL * (bytes / self.full.max(1.0)).clamp(0.0, 1.0)
    }

    fn spots(&self, pitch: f64, floor: f64) -> Vec<Vec<Spot>> {
        let column = |(i, stage): (usize, &Stage)| {
            let mut floor = floor;
            let spot = |node: &Node| {
                let tall = self.tall(node.value);
                let x = pitch * i as f64;
                let (left, right) = (0.0, 0.0);
                let spot = Spot {
                    x,
                    floor,
                    tall,
                    left,
                    right,
                };
                floor -= tall + GAP;
                spot
            };
            stage.nodes.iter().map(spot).collect()
        };
        self.stages.iter().enumerate().map(column).collect()
    }

    /// The colour of a band: that of its left node, unless this is alone in its column; then of the
    /// right one.
    fn slot(&self, band: &Band) -> Option<usize> {
        let (from, to) = (
            self.stages.get(band.column)?,
            self.stages.get(band.column + 1)?,
        );
        let node = match from.nodes.len() > 1 {
            true => from.nodes.get(band.from)?,
            false => to.nodes.get(band.to)?,
        };
        Some(node.slot)
    }

    fn band(&self, band: &Band, slot: usize, spots: &mut [Vec<Spot>]) -> Option<Markup> {
        let from = *spots.get(band.column)?.get(band.from)?;
        let to = *spots.get(band.column + 1)?.get(band.to)?;
        let tall = self.tall(band.value);
        let tall = tall.min(from.tall - from.right).min(to.tall - to.left);
        if tall <= 0.0 {
            return None;
        }
        spots[band.column][band.from].right += tall;
        spots[band.column + 1][band.to].left += tall;
        let start = (from.x + THICK, from.floor - from.right);
        Some(ribbon(start, (to.x, to.floor - to.left), tall, slot))
    }
}

impl Stage {
    fn draw(&self, spots: &[Spot], (x, floor): (f64, f64), anchor: Anchor, room: f64) -> Markup {
        let nodes = self.nodes.iter().zip(spots).map(|(node, spot)| {
            let class = format!("{} fill", slot_class(node.slot));
            // Even the smallest node stays visible.
            let tall = spot.tall.max(1.0);
            let mark = block(spot.x, spot.floor - tall, THICK, tall, &class, &node.hint);
            if spot.tall < LEGIBLE {
                return mark;
            }
            let words = fitted(&node.label, room - 8.0);
            let y = spot.floor - spot.tall / 2.0 + 4.0;
            let name = match anchor {
                Anchor::End => text(spot.x - 4.0, y, Anchor::End, "node", &words),
                _ => text(spot.x + THICK + 4.0, y, Anchor::Start, "node", &words),
            };
            join([mark, name])
        });
        let nodes: Vec<Markup> = nodes.collect();
        let at = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x + THICK / 2.0,
            Anchor::End => x + THICK,
        };
        join([
            join(nodes),
            text(at, floor + 17.0, anchor, "name", &self.label),
            text(at, floor + 33.0, anchor, "note", &self.note),
        ])
    }
}

/// A band from one floor point to another, `tall` thick.
fn ribbon((x0, y0): (f64, f64), (x1, y1): (f64, f64), tall: f64, slot: usize) -> Markup {
    let d = format!(
        "M{x0} {y0}C{m} {y0} {m} {y1} {x1} {y1}V{t1}C{m} {t1} {m} {t0} {x0} {t0}Z",
        x0 = px(x0),
        x1 = px(x1),
        m = px(f64::midpoint(x0, x1)),
        y0 = px(y0),
        y1 = px(y1),
        t0 = px(y0 - tall),
        t1 = px(y1 - tall)
    );
    html! { path class={ (slot_class(slot)) " ribbon" } d=(d) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: f64) -> Node {
        Node {
            label: String::new(),
            slot: 0,
            value,
            hint: String::new(),
        }
    }

    fn flow(bands: Vec<Band>) -> Flow {
        let stage = |values: &[f64]| Stage {
            label: String::new(),
            note: String::new(),
            nodes: values.iter().copied().map(node).collect(),
        };
        Flow {
            stages: vec![stage(&[10.0]), stage(&[6.0, 4.0])],
            bands,
            full: 10.0,
        }
    }

    fn bands(flow: &Flow) -> usize {
        let marks = flow.draw(Size::Wide).1;
        marks.0.matches("ribbon").count()
    }

    #[test]
    fn a_band_takes_no_more_than_its_nodes_have() {
        let band = |to, value| Band {
            column: 0,
            from: 0,
            to,
            value,
        };
        assert_eq!(bands(&flow(vec![band(0, 6.0), band(1, 4.0)])), 2);
        // The second band finds no room at its end, and the third leads nowhere.
        assert_eq!(
            bands(&flow(vec![band(0, 9.0), band(0, 1.0), band(7, 1.0)])),
            1
        );
    }
}
