//! Switches of a page without script: the style sheet selects by the checked button.
//!
//! The buttons are the browser's own radio buttons, so keys and screen readers know them.

use maud::{Markup, html};

/// A switch: its name, its legend, and its values with their labels. The first value is checked.
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

/// The switch of the theme: light, dark, or that of the system.
pub(super) fn theme() -> Markup {
    let values = [("auto", "System"), ("light", "Light"), ("dark", "Dark")];
    choice("theme", "Colours", &values)
}

/// The switch that selects claims by verdict.
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
