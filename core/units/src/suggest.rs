//! "Did you mean": suggestions for misspelled names.

/// A suffix for an error message: `; did you mean x` with the name nearest to `word`, or an
/// empty string if none is near.
#[must_use]
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = names
        .into_iter()
        .map(|name| (distance(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min();
    near.map_or_else(String::new, |(_, name)| format!("; did you mean {name}"))
}

/// Number of insertions, deletions and replacements that turn `a` into `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    // A much longer word is never near. The early return bounds the cost of hostile text.
    if a.len() > 2 * b.len() + 8 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["randwrite", "randread", "logs"];
        assert_eq!(did_you_mean("randwrit", names), "; did you mean randwrite");
        assert_eq!(did_you_mean("log", names), "; did you mean logs");
        assert_eq!(did_you_mean("fileserver", names), "");
        assert_eq!(did_you_mean("", names), "");
        assert_eq!(did_you_mean(&"x".repeat(1 << 20), names), "");
    }
}
