//! A map of equal places, row by row: the fill of each, and its age.
//!
//! Cells of one shade are one path, so that a map of hundreds stays small.

use crate::plot::{Figure, Size, join, px};
use maud::{Markup, html};

/// Number of shades of age, the youngest first.
pub const SHADES: usize = 5;

/// One place of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Filled share of the place, 0 to 1.
    pub full: f64,
    /// Shade of the place's age, below [`SHADES`].
    pub shade: usize,
    /// Whether the place accepts writes.
    pub open: bool,
    /// Whether the place is out of service.
    pub gone: bool,
}

/// A map of places.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The places, row by row from the top left.
    pub cells: Vec<Cell>,
}

/// Distance between the left edges of neighbouring cells.
const PITCH: f64 = 14.0;
const SIDE: f64 = 11.5;
const TOP: f64 = 4.0;

impl Figure for Cells {
    fn draw(&self, size: Size) -> (f64, Markup) {
        let columns = (size.width() / PITCH).floor() as usize;
        let at = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            (1.0 + PITCH * column as f64, TOP + PITCH * row as f64)
        };
        let of = |wanted: &dyn Fn(&Cell) -> bool, part: fn(f64) -> (f64, f64)| {
            let cells = self.cells.iter().enumerate();
            let wanted = cells.filter(|(_, cell)| wanted(cell));
            let path: String = wanted
                .map(|(i, cell)| area(at(i), part(cell.full)))
                .collect();
            path
        };
        let whole = |_| (0.0, 1.0);
        let filled = |full: f64| (1.0 - full.clamp(0.0, 1.0), 1.0);
        let places = html! { path class="place" d=(of(&|cell| !cell.gone, whole)) {} };
        let shades = (0..SHADES).map(|shade| {
            let path = of(
                &|cell| !cell.gone && cell.full > 0.0 && cell.shade == shade,
                filled,
            );
            html! { path class={ "shade a" (shade) } d=(path) {} }
        });
        let shades: Vec<Markup> = shades.collect();
        let open = html! { path class="taking" d=(of(&|cell| cell.open, whole)) {} };
        let gone = html! { path class="gone" d=(of(&|cell| cell.gone, whole)) {} };
        let rows = self.cells.len().div_ceil(columns) as f64;
        let marks = [places].into_iter().chain(shades).chain([open, gone]);
        (TOP + PITCH * rows, join(marks))
    }
}

/// Path of the part of a cell between `top` and `bottom`, shares of its height.
fn area((x, y): (f64, f64), (top, bottom): (f64, f64)) -> String {
    let tall = px(SIDE * (bottom - top));
    let (x, y, side) = (px(x), px(y + SIDE * top), px(SIDE));
    format!("M{x} {y}h{side}v{tall}h-{side}z")
}
