//! The only table of the presets.
//!
//! Parsing, the list of workloads, the help and the error messages are derived from it. A test
//! checks that every default is accepted by its unit.

use input::named::decimal;

/// A workload that is selected by name.
pub type Preset = input::named::Preset<Unit>;

/// A parameter, written `name=value`.
pub type Param = input::named::Param<Unit>;

/// Kind of value that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number within these inclusive bounds.
    Whole(u64, u64),
    /// A size from 1 MiB to 16 GiB, `scale` for the size that the scale gives, or `replayed` for
    /// the memory that the paper's simulator touched at that scale.
    Footprint,
    /// A number of instructions, `scale` for the number that the scale gives, or `whole` for the
    /// whole program.
    Section,
    /// A decimal with up to three places, with inclusive bounds in thousandths.
    Decimal(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

impl input::named::Unit for Unit {
    fn expectation(self) -> String {
        match self {
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Footprint => "a size from 1MiB to 16GiB, or replayed".to_owned(),
            Self::Section => "instructions from 1 to 1000000000000, or whole".to_owned(),
            Self::Decimal(least, most) => {
                let whole = |thousandths: u64| thousandths as f64 / 1000.0;
                format!("a decimal from {} to {}", whole(least), whole(most))
            }
            Self::Word(words) => format!("one of {}", words.join(", ")),
        }
    }

    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Whole(least, most) => {
                text.parse().is_ok_and(|n: u64| (least..=most).contains(&n))
            }
            Self::Footprint => {
                let within = |b: units::Bytes| (units::MIB..=16 * units::GIB).contains(&b.0);
                [SCALE_GIVES, REPLAYED].contains(&text) || text.parse().is_ok_and(within)
            }
            Self::Section => {
                let within = |n: u64| (1..=1_000_000_000_000).contains(&n);
                [SCALE_GIVES, WHOLE].contains(&text) || text.parse().is_ok_and(within)
            }
            Self::Decimal(least, most) => {
                thousandths(text).is_some_and(|n| (least..=most).contains(&n))
            }
            Self::Word(words) => words.contains(&text),
        }
    }
}

/// The footprint or section follows from the scale.
pub(crate) const SCALE_GIVES: &str = "scale";

/// The footprint is the memory that the paper's simulator touched.
pub(crate) const REPLAYED: &str = "replayed";

/// The section is the whole program.
pub(crate) const WHOLE: &str = "whole";

/// Parses a decimal with up to three places and returns it in thousandths.
pub(crate) fn thousandths(text: &str) -> Option<u64> {
    decimal(text, 3)
}

const fn param(name: &'static str, default: &'static str, unit: Unit, help: &'static str) -> Param {
    Param::new(name, default, unit, help)
}

const THREADS: Param = param(
    "threads",
    "8",
    Unit::Whole(1, 4096),
    "threads, which share the same work",
);

const COMMON: [Param; 5] = [
    THREADS,
    param(
        "scale",
        "small",
        Unit::Word(&["small", "medium", "paper"]),
        "footprint: the paper's over 256, over 16, or the paper's",
    ),
    param(
        "footprint",
        SCALE_GIVES,
        Unit::Footprint,
        "bytes of memory, instead of a scale; \"replayed\" for what the paper's simulator touched, \
         and at least 1MiB, on a computer of that scale",
    ),
    param(
        "section",
        SCALE_GIVES,
        Unit::Section,
        "instructions that are measured, after as many that warm up; \"whole\" for all that there \
         are",
    ),
    param(
        "pieces",
        "8",
        Unit::Whole(1, 1024),
        "into how many the section is divided, spread evenly over the program; 1 for its middle",
    ),
];

const fn graph(default: &'static str) -> Param {
    param(
        "graph",
        default,
        Unit::Word(&["uniform", "kronecker"]),
        "all vertices alike, or a few with most edges",
    )
}

const fn times(name: &'static str, help: &'static str) -> Param {
    param(name, "1", Unit::Whole(1, 1_000_000), help)
}

/// A number of operations; 0 derives it from the footprint.
const fn amount(name: &'static str, help: &'static str) -> Param {
    param(name, "0", Unit::Whole(0, 1 << 40), help)
}

const THETA: Param = param(
    "theta",
    "0",
    Unit::Decimal(0, 3000),
    "exponent of Zipf's law; 0 for evenly",
);

/// All presets, in the order in which they are listed.
pub static PRESETS: [Preset; 9] = [
    preset(
        "bfs",
        "breadth-first search that passes over all vertices, as Rodinia's",
        &[
            graph("uniform"),
            // Rodinia's generator gives each vertex 2 to 4 edges, each in both directions.
            param("degree", "6", Unit::Whole(1, 1024), "edges of a vertex"),
            times("searches", "searches, after one that warms up"),
        ],
    ),
    preset(
        "bc",
        "betweenness centrality, as GAP's",
        &[
            graph("kronecker"),
            // The default of GAP's generators.
            param(
                "degree",
                "16",
                Unit::Whole(1, 1024),
                "edges of a vertex; of a Kronecker graph at least, so that it fills the footprint",
            ),
            times("sources", "sources, after a search that warms up"),
        ],
    ),
    preset("radix", "radix sort of integers, as SPLASH's", &[]),
    preset(
        "srad",
        "speckle-reducing diffusion of an image, as Rodinia's",
        &[times("iterations", "iterations, after one that warms up")],
    ),
    preset(
        "ycsb",
        "YCSB over a store of records of 1 KiB in memory",
        &[
            param(
                "letter",
                "b",
                Unit::Word(&["a", "b", "c", "f"]),
                "mix of reads and updates",
            ),
            amount(
                "ops",
                "operations; 0 for eight a record, at most eight million",
            ),
        ],
    ),
    preset(
        "tpcc",
        "transactions of TPC-C over tables in memory",
        &[amount("transactions", "transactions; 0 for one a customer")],
    ),
    preset(
        "dlrm",
        "training of a recommendation model with embedding tables",
        &[
            THETA,
            param(
                "batch",
                "128",
                Unit::Whole(1, 1 << 20),
                "samples of a batch",
            ),
            amount(
                "samples",
                "samples; 0 for as many as take each row twice, at most a million",
            ),
        ],
    ),
    preset(
        "durable",
        "records that a log of flushed lines makes durable, on pages pinned to the drive",
        &[
            param("lines", "2", Unit::Whole(1, 64), "lines of a record"),
            param(
                "looks",
                "8",
                Unit::Whole(1, 10_000),
                "slots of an index that a transaction looks up, on pages that may move",
            ),
            amount("transactions", "transactions; 0 for one a record"),
        ],
    ),
    preset(
        "synthetic",
        "random accesses with given shares of writes, cache misses and lines used per page",
        &[
            param(
                "writes",
                "25",
                Unit::Decimal(0, 100_000),
                "writes of a hundred accesses",
            ),
            param(
                "mpki",
                "40",
                Unit::Decimal(1, 500_000),
                "misses of the last cache for a thousand instructions",
            ),
            param("lines", "16", Unit::Whole(1, 64), "lines used of a page"),
            THETA,
            amount(
                "visits",
                "visits of pages; 0 for four a page, at most four million",
            ),
        ],
    ),
];

const fn preset(name: &'static str, help: &'static str, own: &'static [Param]) -> Preset {
    Preset {
        name,
        help,
        own,
        common: &COMMON,
    }
}

/// The parameters of traces, which follow their paths.
pub static TRACE: Preset = Preset {
    name: "TRACE",
    help: "a path to a trace of memory accesses, or several joined by +, one per thread",
    own: &[
        param(
            "format",
            "auto",
            Unit::Word(&[
                "auto",
                "flm",
                "champsim",
                "macsim",
                "pinatrace",
                "lackey",
                "cachetrace",
            ]),
            "its format, if contents and name do not tell",
        ),
        param(
            "warm",
            "25",
            Unit::Whole(0, 99),
            "hundredths that warm up, if the trace does not say",
        ),
        param(
            "scale",
            "auto",
            Unit::Word(&["auto", "small", "medium", "paper"]),
            "computer: the paper's over 256, over 16, or the paper's; \"auto\" for over as much as \
             the pages that are touched are less than 8GiB, but not below that for 4MiB",
        ),
    ],
    common: &[],
};
