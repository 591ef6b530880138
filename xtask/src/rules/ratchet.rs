//! Files and functions stay short, and get shorter.
//!
//! `xtask/ratchet.toml` holds the maxima. They never exceed the ceilings below, and `cargo xtask
//! ratchet` only lowers them. A maximum far above the measured length is a finding too, so that
//! progress is kept.

use crate::tree::Source;
use crate::{Finding, Tree};
use serde::Deserialize;

/// Path of the file with the maxima.
pub const FILE: &str = "xtask/ratchet.toml";

/// Upper limits of the maxima themselves.
const CEILING: Lengths = Lengths {
    file: 600,
    function: 60,
    median_function: 12,
};

/// Lengths of code in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Lengths {
    /// Lines of a Rust file.
    pub file: usize,
    /// Lines of a function, from its signature to its closing brace.
    pub function: usize,
    /// The median over all functions, tests included.
    pub median_function: usize,
}

impl Lengths {
    fn named(self) -> [(&'static str, usize); 3] {
        [
            ("file", self.file),
            ("function", self.function),
            ("median_function", self.median_function),
        ]
    }
}

/// The contents of [`FILE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Ratchet {
    /// Lengths that no file or function may exceed.
    pub max: Lengths,
    /// Largest distance of the maxima above the measured lengths.
    pub margin: Lengths,
}

impl Ratchet {
    /// Lowers maxima that are too loose to the measured lengths plus half the margin, so that an
    /// ordinary change does not exceed them. Never raises one.
    #[must_use]
    pub fn lowered(self, measured: Lengths) -> Self {
        let lower = |max: usize, measured: usize, margin: usize| {
            let loose = max > measured + margin;
            if loose { measured + margin / 2 } else { max }
        };
        let (max, m) = (self.max, self.margin);
        let max = Lengths {
            file: lower(max.file, measured.file, m.file),
            function: lower(max.function, measured.function, m.function),
            median_function: lower(
                max.median_function,
                measured.median_function,
                m.median_function,
            ),
        };
        Self { max, ..self }
    }
}

/// Parses the text of [`FILE`].
///
/// # Errors
/// A sentence, if the text is not a ratchet.
pub fn parse(text: &str) -> Result<Ratchet, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

/// `text` of [`FILE`] with the maxima of `ratchet`; its comments are kept.
#[must_use]
pub fn rewrite(text: &str, ratchet: Ratchet) -> String {
    with_values(text, "[max]", &ratchet.max.named())
}

/// `text` of [`FILE`] with new values for some keys of one section.
pub(super) fn with_values(text: &str, section: &str, values: &[(&str, usize)]) -> String {
    let mut at = "";
    let lines = text.lines().map(|line| {
        if line.starts_with('[') {
            at = line;
        }
        let key = line.split_once(" = ").map(|(key, _)| key);
        let value = values.iter().find(|(name, _)| key == Some(name));
        match value {
            Some((name, value)) if at == section => format!("{name} = {value}\n"),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// The lengths of the longest file, the longest function, and the median function.
#[must_use]
pub fn measure(sources: &[Source]) -> Lengths {
    let rust = sources.iter().filter_map(|s| Some((s, s.rust()?)));
    let mut functions = Vec::new();
    let mut file = 0;
    for (source, code) in rust {
        file = file.max(source.text.lines().count());
        functions.extend(code.functions.iter().map(|f| f.lines));
    }
    functions.sort_unstable();
    Lengths {
        file,
        function: functions.last().copied().unwrap_or(0),
        median_function: functions.get(functions.len() / 2).copied().unwrap_or(0),
    }
}

/// Files and functions that are too long, and maxima that are too loose.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.source(FILE) else {
        return vec![Finding::new(
            FILE,
            1,
            "the maxima are missing",
            "restore the file",
        )];
    };
    let ratchet = match parse(&file.text) {
        Ok(ratchet) => ratchet,
        Err(why) => return vec![Finding::new(FILE, 1, why, "restore the file")],
    };
    let measured = measure(&tree.sources);
    let mut findings: Vec<_> = tree
        .sources
        .iter()
        .flat_map(|source| too_long(source, ratchet.max))
        .collect();
    findings.extend(limits(file, ratchet, measured));
    findings
}

fn too_long(source: &Source, max: Lengths) -> Vec<Finding> {
    let Some(code) = source.rust() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > max.file {
        let what = format!("{lines} lines, and a file has at most {}", max.file);
        let remedy = "split it where its parts could be explained apart";
        findings.push(Finding::new(&source.path, max.file + 1, what, remedy));
    }
    let long = code.functions.iter().filter(|f| f.lines > max.function);
    findings.extend(long.map(|f| {
        let what = format!(
            "`{}` has {} lines, at most {} fit",
            f.name, f.lines, max.function
        );
        let remedy = "name its steps as functions; let the parent branch and the leaves compute";
        Finding::new(&source.path, f.line, what, remedy)
    }));
    findings
}

/// Findings about the file of maxima itself and about the median.
fn limits(file: &Source, ratchet: Ratchet, measured: Lengths) -> Vec<Finding> {
    let at = |key: &str, what: String, remedy| {
        Finding::new(FILE, file.line_of(&format!("{key} = ")), what, remedy)
    };
    let mut findings = Vec::new();
    let ceilings = ratchet.max.named().into_iter().zip(CEILING.named());
    for ((key, max), (_, ceiling)) in ceilings.filter(|((_, max), (_, c))| max > c) {
        let what = format!("{key} = {max} is above the ceiling of {ceiling}");
        findings.push(at(key, what, "lower it; maxima only go down"));
    }
    if measured.median_function > ratchet.max.median_function {
        let what = format!("the median function has {} lines", measured.median_function);
        findings.push(at(
            "median_function",
            what,
            "shorten functions until it fits",
        ));
    }
    let lowered = ratchet.lowered(measured).max.named().into_iter();
    let pairs = lowered.zip(ratchet.max.named());
    for ((key, lower), (_, max)) in pairs.filter(|((_, lower), (_, max))| lower < max) {
        let what = format!("{key} = {max} is looser than needed, {lower} would do");
        findings.push(at(
            key,
            what,
            "run `cargo xtask ratchet` and commit the file",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Why.\n[max]\nfile = 10\nfunction = 5\nmedian_function = 4\n\n\
                        [margin]\nfile = 4\nfunction = 4\nmedian_function = 4\n";

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    fn messages(ratchet: &str, code: &str) -> Vec<String> {
        let sources = vec![Source::new(FILE, ratchet), Source::new("a.rs", code)];
        let tree = Tree {
            sources,
            ..Tree::default()
        };
        find(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lengths_within_the_maxima_pass() {
        let code = format!("{}\n\n{}", function(4), function(2));
        assert_eq!(messages(TEXT, &code), Vec::<String>::new());
    }

    #[test]
    fn long_file_is_found() {
        let found = messages(TEXT, &format!("{}{}", function(4), "// x\n".repeat(7)));
        assert!(found[0].starts_with("a.rs:11: 11 lines"), "{found:?}");
    }

    #[test]
    fn long_function_is_found_by_name_and_line() {
        let found = messages(TEXT, &format!("//! A.\n{}{}", function(6), function(2)));
        assert!(found[0].starts_with("a.rs:2: `f` has 6 lines"), "{found:?}");
    }

    #[test]
    fn long_median_is_found() {
        let found = messages(TEXT, &format!("{}{}", function(5), function(5)));
        assert!(found[0].contains("the median function has 5"), "{found:?}");
    }

    #[test]
    fn loose_maximum_is_found() {
        let found = messages(TEXT, &function(4));
        assert!(
            found[0].starts_with("xtask/ratchet.toml:3: file = 10"),
            "{found:?}"
        );
        assert!(found[0].contains("cargo xtask ratchet"), "{found:?}");
    }

    #[test]
    fn maximum_above_the_ceiling_is_found() {
        let found = messages(&TEXT.replace("function = 5", "function = 61"), &function(9));
        assert!(
            found.iter().any(|m| m.contains("above the ceiling")),
            "{found:?}"
        );
    }

    #[test]
    fn rewrite_lowers_maxima_and_keeps_comments() {
        let ratchet = parse(TEXT).expect("a ratchet");
        let measured = Lengths {
            file: 3,
            function: 9,
            median_function: 1,
        };
        let after = rewrite(TEXT, ratchet.lowered(measured));
        assert_eq!(after, TEXT.replace("file = 10", "file = 5"));
    }
}
