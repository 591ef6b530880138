//! The reader of rule files, its errors, and the built-in sets.

use parakeet::directive::{Grouping, Hint, Life, StreamId};
use parakeet::flags::Flags;
use parakeet::rules::{Facts, MAX_RULES, MAX_TEXT, Notes, RuleSet, sets};
use units::Ns;

fn error(text: &str) -> String {
    RuleSet::read("r.toml", text).unwrap_err().to_string()
}

/// A rule file with every key.
const WHOLE: &str = r##"
name = "all"
[[stream]]
name = "a"
life = "short"
expect = "1.5ms"
share = 30
hint = "medium"
group = { by = "batch", files = 3, gap = "2s" }
[[stream]]
name = "b"
group = { by = "bytes", size = "64MiB" }
[[rule]]
path = ["#.log", "/srv/**/x"]
flags = ["write", "!direct"]
mode = ["0644", "600"]
size = "64KiB..1MiB"
program = "db_bench"
thread = "rocksdb:low*"
hint = ["short", "not-set"]
level = "0..3"
stream = "a"
[[rule]]
stream = "none"
"##;

#[test]
fn every_key_is_read_and_survives_printing() {
    let set = RuleSet::read("r.toml", WHOLE).unwrap();
    let (a, b) = (&set.streams[0], &set.streams[1]);
    assert_eq!(
        (a.life, a.expect, a.share),
        (Some(Life::Short), Some(Ns(1_500_000)), 30)
    );
    assert_eq!(a.hint, Some(Hint::Medium));
    assert_eq!(
        a.grouping,
        Grouping::Batch {
            files: 3,
            gap: Ns::secs(2)
        }
    );
    assert_eq!(b.grouping, Grouping::Bytes { size: 64 << 20 });
    let printed = set.print(&Notes::default());
    assert_eq!(RuleSet::read("r.toml", &printed).unwrap(), set, "{printed}");
}

/// Attributes of a file that the first rule of [`WHOLE`] matches.
const FACTS: Facts<'static> = Facts {
    path: b"/srv/db/000012.log",
    flags: Flags::WRITE,
    mode: 0o644,
    size: 65_536,
    program: b"/usr/bin/db_bench",
    thread: b"rocksdb:low0",
    hint: Hint::NotSet,
    level: Some(3),
};

#[test]
fn each_condition_can_fail() {
    let set = RuleSet::read("r.toml", WHOLE).unwrap();
    let facts = FACTS;
    assert_eq!(set.classify(&facts), Some(StreamId(0)));
    // Each of these violates one condition.
    let others = [
        Facts {
            path: b"/srv/db/x.log",
            ..facts
        },
        Facts {
            flags: Flags::READ,
            ..facts
        },
        Facts {
            flags: Flags::WRITE.and(Flags::DIRECT),
            ..facts
        },
        Facts {
            mode: 0o640,
            ..facts
        },
        Facts {
            size: 65_535,
            ..facts
        },
        Facts {
            size: 1 + (1 << 20),
            ..facts
        },
        Facts {
            program: b"/usr/bin/db",
            ..facts
        },
        Facts {
            thread: b"rocksdb:high0",
            ..facts
        },
        Facts {
            hint: Hint::Long,
            ..facts
        },
        Facts {
            level: Some(4),
            ..facts
        },
        Facts {
            level: None,
            ..facts
        },
    ];
    for other in others {
        assert_eq!(set.find(&other), Some(1), "{other:?}");
        assert_eq!(set.classify(&other), None);
    }
}

/// Invalid rule files, and their error messages.
const WRONG: &[(&str, &str)] = &[
    (
        "[[streams]]\n",
        "r.toml:1:3: expected one of name, stream, rule, found \"streams\"; did you mean stream",
    ),
    (
        "[[stream]]\nnam = 1\n",
        "r.toml:2:1: expected one of name, life, expect, share, hint, group, found \"nam\"; did you mean name",
    ),
    (
        "[[stream]]\nlife = \"short\"\n",
        "r.toml:1:1: expected name = a name, found no name",
    ),
    (
        "[[stream]]\nname = \"none\"\n",
        "r.toml:2:8: expected a name other than \"\" and \"none\", found \"none\"",
    ),
    (
        "[[stream]]\nname = \"a\"\nlife = \"shrot\"\n",
        "r.toml:3:8: expected one of short, medium, long, extreme, found \"shrot\"; did you mean short",
    ),
    (
        "[[stream]]\nname = \"a\"\nexpect = \"soon\"\n",
        "r.toml:3:10: expected a time above 0, such as \"1.5ms\" or \"20s\", found \"soon\"",
    ),
    (
        "[[stream]]\nname = \"a\"\nshare = 0\n",
        "r.toml:3:9: expected a share from 1 to 1000000, found 0",
    ),
    (
        "[[stream]]\nname = \"a\"\nshare = \"1\"\n",
        "r.toml:3:9: expected a share, found string",
    ),
    (
        "[[stream]]\nname = \"a\"\ngroup = { by = \"epoch\", files = 3 }\n",
        "r.toml:3:33: expected no files in a group by \"epoch\"",
    ),
    (
        "[[stream]]\nname = \"a\"\ngroup = { by = \"epoch\" }\n",
        "r.toml:3:9: expected every = \"10s\", found no every",
    ),
    (
        "[[rule]]\nstream = \"x\"\npath = \"[\"\n",
        "r.toml:3:8: expected ] after the [ at character 1; a bracket itself is [[]",
    ),
];

/// Invalid texts behind a stream "wal", and parts of their error messages.
const WRONG_LATER: &[(&str, &str)] = &[
    (
        "[[rule]]\nstream = \"wall\"\n",
        "r.toml:4:10: expected the name of a [[stream]], found \"wall\"; did you mean wal",
    ),
    (
        "[[rule]]\npath = \"*.log\"\n",
        "r.toml:3:1: expected stream = the name of a stream, found no stream",
    ),
    (
        "[[rule]]\nstream = \"wal\"\nflags = \"!driect\"\n",
        "did you mean direct",
    ),
    (
        "[[rule]]\nstream = \"wal\"\nmode = \"0999\"\n",
        "r.toml:5:8: expected permissions in octal, such as \"0644\", found \"0999\"",
    ),
    (
        "[[rule]]\nstream = \"wal\"\nsize = \"2MiB..1MiB\"\n",
        "r.toml:5:8: expected sizes such as",
    ),
    (
        "[[rule]]\nstream = \"wal\"\npath = []\n",
        "r.toml:5:8: expected one value or more, found an empty list",
    ),
    (
        "[[rule]]\nstream = \"wal\"\n[[rule]]\nstream = \"wal\"\n",
        "r.toml:5:1: expected no rule here: the one before has no conditions",
    ),
    (
        "[[stream]]\nname = \"wal\"\n",
        "r.toml:4:8: expected a new name, found \"wal\" again",
    ),
];

#[test]
fn errors_have_position_and_suggestion() {
    let stream = "[[stream]]\nname = \"wal\"\n";
    for (text, expected) in WRONG {
        assert_eq!(error(text), *expected);
    }
    for (text, expected) in WRONG_LATER {
        let found = error(&format!("{stream}{text}"));
        assert!(found.contains(expected), "{found}");
    }
    assert!(error("name = \"x\n").starts_with("r.toml:1:"));
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    assert!(error(&"#".repeat(MAX_TEXT + 1)).contains("expected at most 1048576 bytes"));
    let rules = "[[rule]]\npath=\"a\"\nstream=\"none\"\n";
    assert!(RuleSet::read("r", &rules.repeat(MAX_RULES)).is_ok());
    let error = error(&rules.repeat(MAX_RULES + 1));
    assert!(error.contains("expected at most 4096 [[rule]]"), "{error}");
}

fn of<'s>(set: &'s RuleSet, facts: &Facts<'_>) -> &'s str {
    let stream = set.classify(facts);
    stream.map_or("none", |id| &set.streams[usize::from(id.0)].name)
}

/// Built-in sets, and the expected streams of files.
const READY: &[(&str, &[(&str, &str)])] = &[
    (
        "rocksdb",
        &[
            ("000012.log", "wal"),
            ("000012.sst", "deep"),
            ("LOG", "none"),
            ("MANIFEST-000004", "none"),
            ("LOCK", "none"),
        ],
    ),
    (
        "rocksdb-tuned",
        &[
            ("000012.log", "wal"),
            ("000012.sst", "deep"),
            ("CURRENT", "none"),
        ],
    ),
    (
        "shimmer",
        &[
            ("000012.log", "log"),
            ("000012.sst", "sstable"),
            ("t-000001.lsm", "lsm"),
            ("LOCK", "none"),
        ],
    ),
    (
        "wiredtiger",
        &[
            ("WiredTigerLog.0000000001", "log"),
            ("WiredTigerPreplog.0000000002", "log"),
            ("test-000001.lsm", "lsm"),
            ("test-000001.bf", "lsm"),
            ("WiredTigerHS.wt", "history"),
            ("collection-0-12.wt", "table"),
            ("WiredTiger.wt", "none"),
            ("WiredTiger.turtle", "none"),
            ("WiredTiger", "none"),
        ],
    ),
    (
        "cachelib",
        &[
            ("/cache/navy_soc0", "small"),
            ("/cache/navy_loc1", "large"),
            ("/cache/navy", "large"),
            ("x", "none"),
        ],
    ),
    (
        "postgresql",
        &[
            ("pg_wal/00000001000000000000000A", "wal"),
            ("pg_wal/archive_status/x.done", "none"),
            ("base/5/16384", "relation"),
            ("base/5/16384.1", "relation"),
            ("base/5/16384_fsm", "state"),
            ("base/pgsql_tmp/pgsql_tmp9.0", "temporary"),
            ("base/5/t3_16390", "temporary"),
            ("pg_xact/0000", "state"),
            ("global/1262", "relation"),
            ("postmaster.pid", "none"),
        ],
    ),
    (
        "sqlite",
        &[
            ("a.db", "database"),
            ("a.db-wal", "journal"),
            ("a.db-journal", "journal"),
            ("a.db-shm", "none"),
            ("/tmp/etilqs_aB3", "temporary"),
        ],
    ),
    (
        "kafka",
        &[
            ("t-0/00000000000000000000.log", "segment"),
            ("t-0/00000000000000000000.timeindex", "index"),
            ("__consumer_offsets-7/00000000000000000000.log", "offsets"),
            ("t-0/00000000000000000009.log.deleted", "segment"),
            ("t-0/00000000000000000009.log.cleaned", "compacted"),
            ("meta.properties", "none"),
        ],
    ),
];

#[test]
fn built_in_sets_place_the_files_of_their_programs() {
    assert_eq!(READY.len(), sets::ALL.len());
    for (name, files) in READY {
        let set = RuleSet::read(name, sets::text(name).unwrap()).unwrap();
        assert_eq!(set.name, *name);
        for (path, stream) in *files {
            let whole = format!("/data/{path}");
            let facts = Facts {
                path: whole.as_bytes(),
                ..Facts::default()
            };
            assert_eq!(of(&set, &facts), *stream, "{name} {path}");
        }
        // Each stream is used by some rule.
        for (at, stream) in set.streams.iter().enumerate() {
            let used = set
                .rules
                .iter()
                .any(|rule| rule.stream == Some(StreamId(at as u16)));
            assert!(used, "{name} {}", stream.name);
        }
    }
    assert_eq!(sets::text("rocks"), None);
}

//= rocksdb-hints 1
//= rocksdb-hints 2
#[test]
fn both_level_maps_of_rocksdb_are_the_published_ones() {
    let lives = |name: &str| -> Vec<Option<Life>> {
        let set = RuleSet::read(name, sets::text(name).unwrap()).unwrap();
        let life =
            |facts: Facts<'_>| set.streams[usize::from(set.classify(&facts).unwrap().0)].life;
        let level = |level| {
            life(Facts {
                path: b"000012.sst",
                level: Some(level),
                ..Facts::default()
            })
        };
        let log = life(Facts {
            path: b"000012.log",
            ..Facts::default()
        });
        std::iter::once(log).chain((0..7).map(level)).collect()
    };
    use Life::{Extreme, Long, Medium, Short};
    let some = |lives: [Life; 8]| lives.map(Some).to_vec();
    let native = [
        Short, Medium, Medium, Long, Extreme, Extreme, Extreme, Extreme,
    ];
    let tuned = [
        Short, Medium, Medium, Medium, Medium, Long, Extreme, Extreme,
    ];
    assert_eq!(lives("rocksdb"), some(native));
    assert_eq!(lives("rocksdb-tuned"), some(tuned));
}

//= rocksdb-hints 1
#[test]
fn rocksdb_tables_without_level_are_placed_by_hint() {
    let streams = |name: &str| {
        let set = RuleSet::read(name, sets::text(name).unwrap()).unwrap();
        [Hint::NotSet, Hint::Medium, Hint::Long, Hint::Extreme].map(|hint| {
            let facts = Facts {
                path: b"000012.sst",
                hint,
                ..Facts::default()
            };
            of(&set, &facts).to_owned()
        })
    };
    assert_eq!(streams("rocksdb"), ["deep", "upper", "middle", "deep"]);
    assert_eq!(streams("rocksdb-tuned"), ["deep", "upper", "upper", "deep"]);
    let set = RuleSet::read("t", sets::text("rocksdb-tuned").unwrap()).unwrap();
    let flush = Facts {
        path: b"000012.sst",
        thread: b"rocksdb:high0",
        ..Facts::default()
    };
    assert_eq!(of(&set, &flush), "upper");
}
