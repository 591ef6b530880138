//! Figures as SVG, in a wide and a narrow size for a page.
//!
//! Invariants: a figure is a function of its data and a [`Size`]; every mark
//! lies inside the view box; all text is escaped; a series is told apart by
//! more than its colour (dash and marker for lines, order for stacks).
//! Colours are classes (`s0` … `s7`) that the page's style sheet fills in, so
//! that light and dark need no second figure.

mod area;
mod axis;
mod bars;
mod cells;
mod dots;
mod flow;
mod frame;
mod histogram;
mod line;
mod pair;
mod rows;
mod scale;
mod ticks;

pub use area::Area;
pub use axis::{Axis, Kind, TAIL_FLOOR};
pub use bars::{Bar, Bars, Part};
pub use cells::{Cell, Cells, SHADES};
pub use dots::{Dot, Dots, Row};
pub use flow::{Band, Flow, Node, Stage};
pub use histogram::{Bin, Histograms, Strip};
pub use line::{Lines, Mark, Series};
pub use pair::Pair;
pub use scale::Scale;
pub use ticks::{decades, nice};

use maud::{Markup, PreEscaped, html};

/// Number of series that the palette distinguishes; slots wrap around after it.
pub const PALETTE: usize = 8;

/// The size of a figure, in units of the view box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A column of a desktop page.
    Wide,
    /// The screen of a phone.
    Narrow,
}

impl Size {
    /// Width of the view box.
    #[must_use]
    pub fn width(self) -> f64 {
        match self {
            Self::Wide => 560.0,
            Self::Narrow => 330.0,
        }
    }

    /// Height of the view box of a figure with two axes.
    fn height(self) -> f64 {
        match self {
            Self::Wide => 300.0,
            Self::Narrow => 250.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// A figure that can be drawn at any [`Size`].
pub trait Figure {
    /// Draws the figure; returns its height and its marks.
    fn draw(&self, size: Size) -> (f64, Markup);
}

/// `figure` in both sizes, with a name and a description for screen readers.
pub fn svg(figure: &impl Figure, id: &str, title: &str, description: &str) -> Markup {
    html! {
        @for size in [Size::Wide, Size::Narrow] {
            @let (height, marks) = figure.draw(size);
            @let own = format!("{id}-{}", size.class());
            svg class=(size.class()) role="img" xmlns="http://www.w3.org/2000/svg"
                viewBox={ "0 0 " (size.width()) " " (px(height)) }
                aria-labelledby={ (own) "-t " (own) "-d" } {
                title id={ (own) "-t" } { (title) }
                desc id={ (own) "-d" } { (description) }
                (marks)
            }
        }
    }
}

/// A coordinate: a tenth of a unit is finer than any screen. Sums of forged records may overflow; a
/// value that is not finite is drawn at 0.
fn px(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The CSS class of palette slot `slot`.
#[must_use]
pub fn slot_class(slot: usize) -> String {
    format!("s{}", slot % PALETTE)
}

/// The edge of a text that stands at its position.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A sample of the line of palette slot `slot`, for a legend.
pub fn swatch(slot: usize) -> Markup {
    html! {
        svg viewBox="0 0 30 12" aria-hidden="true" class=(slot_class(slot)) {
            path class="line" d="M0 6H30" {}
            (line::marker(slot, 15.0, 6.0))
        }
    }
}

fn text(x: f64, y: f64, anchor: Anchor, class: &str, words: &str) -> Markup {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) class=(class) { (words) } }
}

/// A filled rectangle with the tooltip `hint`.
fn block(x: f64, y: f64, width: f64, height: f64, class: &str, hint: &str) -> Markup {
    html! {
        rect x=(px(x)) y=(px(y)) width=(px(width.max(0.0))) height=(px(height.max(0.0))) class=(class) {
            title { (hint) }
        }
    }
}

fn rule(from: (f64, f64), to: (f64, f64), class: &str) -> Markup {
    html! {
        line x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) class=(class) {}
    }
}

/// Largest width of `words` in label size, in units of the view box.
fn text_width(words: &str) -> f64 {
    crate::human::width(words) as f64 * 6.6
}

/// `words` cut to `room`, in units of the view box.
fn fitted(words: &str, room: f64) -> String {
    crate::human::name(words, (room / 6.6).max(3.0) as usize)
}

fn join(marks: impl IntoIterator<Item = Markup>) -> Markup {
    PreEscaped(marks.into_iter().map(|m| m.0).collect())
}
