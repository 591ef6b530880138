//! Parameters of workloads that are files: filebench scripts and recordings of file calls.

use super::{OPS, YES_NO, of_files};
use crate::describe::table::{Preset, param};
use crate::describe::unit::Unit;

/// Parameters that may follow the path of a filebench script.
pub static SCRIPT: Preset = of_files(
    "SCRIPT.f",
    "a path to a filebench script",
    &[],
    &[
        param("ops", "0", Unit::Limit, OPS.help),
        param(
            "time",
            "0",
            Unit::Time,
            "virtual run time; 0 for that of the script",
        ),
    ],
);

/// Parameters that may follow the path of a trace of file calls.
pub static CALLS: Preset = of_files(
    "CALLS.flt",
    "a path to a trace of file calls, as flashloom record makes them",
    &[],
    &[
        param(
            "think",
            "yes",
            YES_NO,
            "whether threads keep the recorded pauses",
        ),
        param(
            "speed",
            "0",
            Unit::Speed,
            "make each call at its recorded time over this factor, and count lateness as latency; \
             0 to follow think",
        ),
        param(
            "order",
            "data",
            Unit::Choice(&["data", "names"]),
            "order across threads: of all calls on a file, or only of those on names",
        ),
        param(
            "hints",
            "yes",
            YES_NO,
            "whether files get the lifetime hints that the program set",
        ),
        param(
            "ops",
            "0",
            Unit::Limit,
            "number of calls to replay, from the first one; 0 for all",
        ),
    ],
);
