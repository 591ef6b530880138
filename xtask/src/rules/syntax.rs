//! Every Rust file can be read by the other rules.

use crate::{Finding, Tree};

/// Rust files with syntax errors.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let broken = tree.sources.iter().filter_map(|source| {
        let (line, why) = source.code.as_ref()?.as_ref().err()?;
        let what = format!("not a Rust file: {why}");
        let remedy = "fix the syntax; the other rules skip this file until then";
        Some(Finding::new(&source.path, *line, what, remedy))
    });
    broken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Source;

    #[test]
    fn unparsable_file_is_found() {
        let sources = vec![
            Source::new("a.rs", "fn ok() {}\nfn {"),
            Source::new("b.md", "fn {"),
        ];
        let tree = Tree {
            sources,
            ..Tree::default()
        };
        let found = find(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a.rs", 2));
    }
}
