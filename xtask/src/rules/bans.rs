//! Code below `front` reads no OS clock, starts no thread, touches no file, and draws no randomness
//! outside the seed.
//!
//! This makes a run a pure function of its plan and seed. The command line counts as below `front`
//! here, except that it may read a clock and start threads: it reports wall time and progress.
//! Tests and benchmarks may touch files and the environment; the other bans hold for them too.

use crate::tree::Source;
use crate::{Finding, Tree};

/// Paths that may read an OS clock and wait on it.
const CLOCK_READERS: &[&str] = &["flashloom/src/", "flashloom/tests/"];

/// Paths that may start threads: many simulations run in parallel, one on each thread.
const THREAD_STARTERS: &[&str] = &["lab/stack/src/pool.rs", "flashloom/"];

/// Storeys that a run passes through.
const MODELS: &[&str] = &[
    "core/",
    "baselines/",
    "systems/",
    "lab/",
    "python/",
    "flashloom/",
];

/// Storeys without access to the operating system. The lab reads traces and plans.
const SEALED: &[&str] = &["core/", "baselines/", "systems/"];

/// One group of banned paths.
struct Ban {
    /// Banned paths: a mention is banned if its segments contain one of them.
    paths: &'static [&'static str],
    /// Path prefixes of the files where the ban holds.
    within: &'static [&'static str],
    /// Path prefixes of the files that are exempt.
    except: &'static [&'static str],
    /// Whether test code is exempt.
    tests_exempt: bool,
    /// Replacement that the finding recommends.
    remedy: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        paths: &["HashMap", "HashSet", "RandomState"],
        within: MODELS,
        except: &[],
        tests_exempt: false,
        remedy: "its order differs from run to run: use BTreeMap or BTreeSet, or a Vec by index",
    },
    Ban {
        paths: &[
            "thread_rng",
            "rand::random",
            "rand::rng",
            "OsRng",
            "getrandom",
        ],
        within: MODELS,
        except: &[],
        tests_exempt: false,
        remedy: "draw from a named stream of the seed: `seed.stream(\"name\")` of the sim crate",
    },
    Ban {
        paths: &["Instant", "SystemTime", "thread::sleep"],
        within: MODELS,
        except: CLOCK_READERS,
        tests_exempt: false,
        remedy: "time is virtual: ask the kernel of the sim crate; wall time is measured by the \
                 caller, in flashloom/src",
    },
    Ban {
        paths: &["thread::spawn", "thread::scope", "thread::Builder"],
        within: MODELS,
        except: THREAD_STARTERS,
        tests_exempt: true,
        remedy: "write a task of the kernel; whole simulations run in parallel in \
                 lab/stack/src/pool.rs only",
    },
    Ban {
        paths: &["std::fs", "std::net", "std::env"],
        within: SEALED,
        except: &[],
        tests_exempt: true,
        remedy: "take the bytes or the value as an argument; files are read in lab and above",
    },
];

/// Mentions of banned paths, in files where the ban holds.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = tree.sources.iter().flat_map(in_source).collect();
    // An import is seen twice: as an import and as a plain path.
    findings.sort();
    findings.dedup();
    findings
}

fn in_source(source: &Source) -> Vec<Finding> {
    let Some(code) = source.rust() else {
        return Vec::new();
    };
    let bans = BANS.iter().filter(|ban| ban.applies_to(&source.path));
    let hits = bans.flat_map(|ban| code.mentions.iter().map(move |mention| (ban, mention)));
    hits.filter_map(|(ban, mention)| {
        let banned = ban.hit(&mention.path)?;
        let exempt = ban.tests_exempt && source.is_test(mention.line);
        let what = format!("`{banned}` is banned here");
        (!exempt).then(|| Finding::new(&source.path, mention.line, what, ban.remedy))
    })
    .collect()
}

impl Ban {
    fn applies_to(&self, path: &str) -> bool {
        let starts = |list: &[&str]| list.iter().any(|prefix| path.starts_with(prefix));
        starts(self.within) && !starts(self.except)
    }

    /// The banned path that `mention` contains.
    fn hit(&self, mention: &[String]) -> Option<&'static str> {
        let contains = |banned: &&&str| {
            let wanted: Vec<_> = banned.split("::").collect();
            mention.windows(wanted.len()).any(|part| part == wanted)
        };
        self.paths.iter().find(contains).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let sources = vec![Source::new(path, text)];
        let tree = Tree {
            sources,
            ..Tree::default()
        };
        find(&tree).len()
    }

    const SSD: &str = "core/ssd/src/lib.rs";

    #[test]
    fn banned_path_is_found_once() {
        for text in [
            "use std::collections::HashMap;",
            "use std::collections::{BTreeMap, HashSet};",
            "fn f(m: &std::collections::HashMap<u8, u8>) {}",
            "use std::time::Instant;",
            "fn f() { std::time::SystemTime::now(); }",
            "fn f() { std::thread::sleep(d); }",
            "fn f() { thread::spawn(|| ()); }",
            "fn f() -> u8 { rand::random() }",
            "fn f() { let r = rand::thread_rng(); }",
            "use std::{fs, io};",
            "fn f() { println!(\"{:?}\", std::env::args()); }",
            "use std::net::TcpStream;",
        ] {
            assert_eq!(count(SSD, text), 1, "{text}");
        }
    }

    #[test]
    fn words_in_comments_and_strings_are_ignored() {
        assert_eq!(count(SSD, "// HashMap\nconst A: &str = \"std::fs\";"), 0);
    }

    #[test]
    fn tests_may_use_files_but_not_hash_maps() {
        let files = "#[cfg(test)]\nmod tests {\n use std::fs;\n}";
        let order = "#[cfg(test)]\nmod tests {\n use std::collections::HashMap;\n}";
        assert_eq!(count(SSD, files), 0);
        assert_eq!(count(SSD, order), 1);
        assert_eq!(count("core/ssd/tests/all.rs", "use std::fs;"), 0);
        assert_eq!(count("core/ssd/benches/all.rs", "use rand::thread_rng;"), 1);
    }

    #[test]
    fn lab_may_read_files_and_command_line_may_read_clocks() {
        assert_eq!(count("lab/workload/src/lib.rs", "use std::fs;"), 0);
        assert_eq!(
            count("lab/workload/src/lib.rs", "use std::time::Instant;"),
            1
        );
        assert_eq!(count("flashloom/src/main.rs", "use std::time::Instant;"), 0);
        assert_eq!(
            count("flashloom/src/main.rs", "use std::collections::HashMap;"),
            1
        );
    }

    #[test]
    fn only_the_pool_may_start_threads() {
        let text = "fn f() { std::thread::scope(|_| ()); }";
        assert_eq!(count("lab/stack/src/pool.rs", text), 0);
        assert_eq!(count("lab/stack/src/run.rs", text), 1);
    }

    #[test]
    fn bindings_may_not_read_clocks() {
        assert_eq!(count("python/src/runs.rs", "use std::time::Instant;"), 1);
    }

    #[test]
    fn fronts_are_exempt() {
        assert_eq!(count("front/nbd/src/lib.rs", "use std::time::Instant;"), 0);
    }
}
