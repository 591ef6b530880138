//! Table of the presets of blocks and their parameters.
//!
//! Parsing, the list of workloads, the help and the error messages all derive from it. Tests check
//! that every default is a value of its unit and that every preset runs with its defaults.

use super::unit::Unit;

/// Named workload with its help and its parameters.
pub type Preset = input::named::Preset<Unit>;

/// Parameter of a workload, written `name=value`.
pub type Param = input::named::Param<Unit>;

pub(crate) const fn param(
    name: &'static str,
    default: &'static str,
    unit: Unit,
    help: &'static str,
) -> Param {
    Param::new(name, default, unit, help)
}

const PLACEMENTS: Unit = Unit::Choice(&["own", "none", "auto", "origin"]);

const PLACEMENT: Param = param(
    "placement",
    "own",
    PLACEMENTS,
    "handles as the workload gives them, none, by access pattern, or one per origin",
);
const HANDLES: Param = param(
    "handles",
    "8",
    Unit::Handles,
    "handles that auto and origin use",
);
const DEPTH: Param = param(
    "depth",
    "32",
    Unit::Depth,
    "requests in flight, without a rate",
);
const THINK: Param = param(
    "think",
    "0",
    Unit::Time,
    "pause after each completion, without a rate",
);

const OPS: Param = param(
    "ops",
    "1000000",
    Unit::Count,
    "total number of reads and writes",
);
const RATE: Param = param(
    "rate",
    "0",
    Unit::Rate,
    "requests per second whether or not they complete; 0 to keep depth",
);
const ARRIVALS: Param = param(
    "arrivals",
    "fixed",
    Unit::Choice(&["fixed", "poisson"]),
    "distribution of arrival times, with a rate",
);

/// Parameters of every generator of independent requests.
const COMMON: [Param; 10] = [
    param(
        "bs",
        "4k",
        Unit::Sizes,
        "request size, or sizes with weights: 4k/60:64k/40",
    ),
    OPS,
    param("span", "100%", Unit::Part, "part of the drive that is used"),
    DEPTH,
    THINK,
    RATE,
    ARRIVALS,
    param(
        "flush",
        "0",
        Unit::Number,
        "a flush after this many writes; 0 for never",
    ),
    PLACEMENT,
    HANDLES,
];

const READ_NONE: Param = param("read", "0", Unit::Percent, "share of reads");
const READ_ALL: Param = param("read", "100", Unit::Percent, "share of reads");
const LARGE: Param = param(
    "bs",
    "128k",
    Unit::Sizes,
    "request size, or sizes with weights",
);

/// Every preset of blocks, in the order in which lists show them.
pub static PRESETS: [Preset; 10] = [
    preset(
        "seqwrite",
        "sequential writes from the first address to the last, repeatedly",
        &[READ_NONE, LARGE],
    ),
    preset(
        "seqread",
        "sequential reads from the first address to the last, repeatedly",
        &[READ_ALL, LARGE],
    ),
    preset(
        "randwrite",
        "writes at uniformly random addresses",
        &[READ_NONE],
    ),
    preset(
        "randread",
        "reads at uniformly random addresses",
        &[READ_ALL],
    ),
    preset(
        "randrw",
        "reads and writes at uniformly random addresses",
        &[param("read", "70", Unit::Percent, "share of reads")],
    ),
    preset(
        "zipfwrite",
        "writes at addresses that follow Zipf's law",
        &[
            READ_NONE,
            param(
                "theta",
                "0.99",
                Unit::Exponent,
                "exponent; larger is more skewed",
            ),
        ],
    ),
    preset(
        "zipfread",
        "reads at addresses that follow Zipf's law",
        &[
            READ_ALL,
            param(
                "theta",
                "0.99",
                Unit::Exponent,
                "exponent; larger is more skewed",
            ),
        ],
    ),
    preset(
        "hotcold",
        "writes to hot and cold addresses; placement=own gives hot and cold data a handle each",
        &[
            READ_NONE,
            param(
                "hot",
                "20",
                Unit::Share,
                "percentage of the span that is hot",
            ),
            param(
                "access",
                "80",
                Unit::Percent,
                "percentage of the requests to hot addresses",
            ),
            param("placement", "own", PLACEMENTS, PLACEMENT.help),
        ],
    ),
    preset(
        "bursts",
        "bursts of writes at uniformly random addresses, with idle times between them",
        &[
            READ_NONE,
            param(
                "rate",
                "50000",
                Unit::PositiveRate,
                "requests per second within a burst",
            ),
            param("on", "100ms", Unit::PositiveTime, "duration of a burst"),
            param("off", "900ms", Unit::Time, "idle time between bursts"),
        ],
    ),
    Preset {
        name: "logs",
        help: "circular logs whose data lives for different times, each with its own handle",
        own: &[
            param("logs", "4", Unit::Logs, "how many"),
            param("bs", "64k", Unit::Size, "bytes of one append"),
            param(
                "fill",
                "90%",
                Unit::Part,
                "part of the drive that they take together",
            ),
            param(
                "trim",
                "0",
                Unit::Trim,
                "piece to deallocate before appending to it; 0 to overwrite",
            ),
        ],
        common: &[OPS, DEPTH, THINK, RATE, ARRIVALS, PLACEMENT, HANDLES],
    },
];

const fn preset(name: &'static str, help: &'static str, own: &'static [Param]) -> Preset {
    Preset {
        name,
        help,
        own,
        common: &COMMON,
    }
}

/// Parameters that may follow the path of a trace.
pub static TRACE: Preset = Preset {
    name: "TRACE",
    help: "a path to a trace in any of its formats, plain or compressed",
    own: &[
        param(
            "format",
            "auto",
            Unit::Format,
            "format of the trace, if its contents are ambiguous",
        ),
        param(
            "devices",
            "auto",
            Unit::Devices,
            "layout of the trace's devices on the drive: together (overlapping), packed (used \
             regions one after the other), tenants (packed, and each device is an origin), \
             apart:64GiB (at this distance), or one device (3 or 8,0); auto packs cloud volumes",
        ),
        param(
            "columns",
            "none",
            Unit::Columns,
            "for a table in no known format, the meanings of its columns, such as \
             time_us/op/offset_bytes/size_bytes/volume",
        ),
        param(
            "action",
            "auto",
            Unit::Action,
            "events of the kernel that count as requests",
        ),
        param(
            "speed",
            "1",
            Unit::Factor,
            "factor by which the recorded times pass faster",
        ),
        param(
            "range",
            "all",
            Unit::Range,
            "addresses of the trace that are kept, such as 0-1GiB, and moved to the start of the \
             drive",
        ),
        param(
            "compact",
            "none",
            Unit::Choice(&["none", "first-touch"]),
            "first-touch places the used pieces of 64 KiB one after the other, in the order of \
             first use, in place of fit",
        ),
        param(
            "depth",
            "0",
            Unit::Number,
            "requests in flight; 0 to issue at the recorded times",
        ),
        param(
            "fit",
            "wrap",
            Unit::Choice(&["wrap", "as-is"]),
            "requests past the end of the drive: folded back, or kept to fail",
        ),
        param(
            "repeat",
            "1",
            Unit::Count,
            "passes over the trace, each from the time at which the one before it ends",
        ),
        param("placement", "origin", PLACEMENTS, PLACEMENT.help),
    ],
    common: &[HANDLES],
};

/// Parameters that may follow the path of a fio job.
pub static JOB: Preset = Preset {
    name: "JOB.fio",
    help: "a path to a fio job file",
    own: &[],
    common: &[PLACEMENT, HANDLES],
};
