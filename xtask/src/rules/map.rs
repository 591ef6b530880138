//! The map in `ARCHITECTURE.md` names exactly the crates of the workspace.
//!
//! The map is the table under the heading "Map of the crates"; the first column of a row names the
//! folder of a crate in backticks.

use crate::tree::Source;
use crate::{Finding, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Map of the crates";

/// Crates without a row, and rows without a crate.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.source(PAGE) else {
        let remedy = "write the page; its map names every crate";
        return vec![Finding::new(PAGE, 1, "the page is missing", remedy)];
    };
    let rows: Vec<_> = rows(page).collect();
    let missing = tree
        .crates
        .iter()
        .filter(|c| rows.iter().all(|row| row.1 != c.folder));
    let missing = missing.map(|c| {
        let what = format!("the map does not name `{}`", c.folder);
        let remedy = "add a row: what it does, and what it must not know";
        Finding::new(PAGE, page.line_of(HEADING), what, remedy)
    });
    let stale = rows
        .iter()
        .filter(|row| tree.crates.iter().all(|c| c.folder != row.1));
    let stale = stale.map(|(line, folder)| {
        let what = format!("the map names `{folder}`, which is no crate");
        Finding::new(PAGE, *line, what, "remove the row, or add the crate")
    });
    missing.chain(stale).collect()
}

/// Rows of the map: line number and folder.
fn rows(page: &Source) -> impl Iterator<Item = (usize, &str)> {
    let below = page
        .lines()
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1);
    let map = below.take_while(|(_, line)| !line.starts_with("## "));
    map.filter_map(|(number, line)| {
        let (folder, _) = line.strip_prefix("| `")?.split_once('`')?;
        Some((number, folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Crate;

    fn messages(page: &str, folders: &[&str]) -> Vec<String> {
        let crates = folders.iter().map(|folder| Crate {
            name: (*folder).to_owned(),
            folder: (*folder).to_owned(),
            needs: Vec::new(),
        });
        let tree = Tree {
            sources: vec![Source::new(PAGE, page)],
            crates: crates.collect(),
            ..Tree::default()
        };
        find(&tree).iter().map(ToString::to_string).collect()
    }

    const MAP: &str = "## Map of the crates\n\n| `core/sim` | time |\n\n## Next\n| `x` | |\n";

    #[test]
    fn complete_map_passes() {
        assert!(messages(MAP, &["core/sim"]).is_empty());
    }

    #[test]
    fn crate_without_a_row_is_found() {
        let found = messages(MAP, &["core/sim", "core/nand"]);
        assert!(found[0].contains("ARCHITECTURE.md:1") && found[0].contains("core/nand"));
    }

    #[test]
    fn row_without_a_crate_is_found() {
        let found = messages(MAP, &[]);
        assert!(found[0].contains("ARCHITECTURE.md:3") && found[0].contains("core/sim"));
    }

    #[test]
    fn missing_page_is_found() {
        assert_eq!(find(&Tree::default()).len(), 1);
    }
}
