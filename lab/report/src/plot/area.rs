//! Series stacked on each other over time.

use crate::plot::axis::Axis;
use crate::plot::frame::Frame;
use crate::plot::{Figure, Series, Size, join, slot_class};
use maud::{Markup, html};

/// Series over the same points in x, each stacked on the previous one.
#[derive(Clone, Debug)]
pub struct Area {
    /// The horizontal axis, time.
    pub x: Axis,
    /// The vertical axis; it measures the sum.
    pub y: Axis,
    /// The layers from the bottom up.
    pub layers: Vec<Series>,
}

impl Figure for Area {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let frame = Frame::new(&self.x, &self.y, size);
        (size.height(), self.marks(&frame))
    }
}

impl Area {
    /// The axes and layers in `frame`.
    pub(crate) fn marks(&self, frame: &Frame) -> Markup {
        let mut floor: Vec<f64> = Vec::new();
        let layers = self.layers.iter().map(|layer| {
            floor.resize(layer.points.len(), 0.0);
            let top: Vec<f64> = layer
                .points
                .iter()
                .zip(&floor)
                .map(|(p, f)| p.1 + f)
                .collect();
            let outline = outline(layer, &floor, &top, frame);
            floor = top;
            outline
        });
        let layers: Vec<Markup> = layers.collect();
        join([frame.axes()].into_iter().chain(layers))
    }
}

fn outline(layer: &Series, floor: &[f64], top: &[f64], frame: &Frame) -> Markup {
    let at = |i: usize, y: f64| frame.point((layer.points[i].0, y));
    let over = (0..top.len()).map(|i| at(i, top[i]));
    let back = (0..top.len()).rev().map(|i| at(i, floor[i]));
    let path: Vec<String> = over.chain(back).collect();
    html! {
        path class={ (slot_class(layer.slot)) " fill" } d={ "M" (path.join("L")) "Z" } {
            title { (layer.name) }
        }
    }
}
