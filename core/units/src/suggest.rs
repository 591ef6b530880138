//! "Did you mean": the nearest of some names.

/// `; did you mean x`, or nothing if no name is near `word`.
#[must_use]
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = names
        .into_iter()
        .map(|name| (distance(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min();
    near.map_or_else(String::new, |(_, name)| format!("; did you mean {name}"))
}

/// Insertions, deletions and replacements that make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    // A word that is much longer is not near; what hostile text can make this
    // cost is bounded by it.
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
