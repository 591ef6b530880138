//! Choices of a reader that need no script: the style sheet sees which button is on.
//!
//! Buttons are those that browsers have, so keys and screen readers know them.

use maud::{Markup, html};

/// A choice: its name, what it is of, and its values with what they say. The first is on.
fn choice(name: &str, what: &str, values: &[(&str, &str)]) -> Markup {
    html! {
        fieldset.choice {
            legend { (what) }
            @for (i, (value, says)) in values.iter().enumerate() {
                label {
                    input type="radio" name=(name) id={ (name) "-" (value) } checked[i == 0];
                    span { (says) }
                }
            }
        }
    }
}

/// Light, dark, or what the system has.
pub(super) fn theme() -> Markup {
    let values = [("auto", "System"), ("light", "Light"), ("dark", "Dark")];
    choice("theme", "Colours", &values)
}

/// Which claims are shown.
pub(super) fn claims() -> Markup {
    let values = [
        ("all", "All"),
        ("hold", "Held"),
        ("miss", "Missed"),
        ("else", "Other regime"),
        ("open", "Not measured"),
    ];
    choice("claims", "Claims", &values)
}
