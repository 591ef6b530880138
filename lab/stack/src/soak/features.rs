//! Features from which cases are drawn.
//!
//! Sizes are such that a run has some thousand events: each cut costs a recovery, so many short
//! runs find more than few long ones.

/// The frequency of a feature in cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// In every case: without it the workload would be far too large.
    Always,
    /// In half of the cases, by chance.
    Often,
    /// In one of six cases, by chance.
    Seldom,
}

/// A parameter or an option, with its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
    pub(super) choice: Choice,
}

/// A workload, with its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) params: &'static [Feature],
}

const fn always(name: &'static str, values: &'static [&'static str]) -> Feature {
    let choice = Choice::Always;
    Feature {
        name,
        values,
        choice,
    }
}

const fn often(name: &'static str, values: &'static [&'static str]) -> Feature {
    let choice = Choice::Often;
    Feature {
        name,
        values,
        choice,
    }
}

const fn seldom(name: &'static str, values: &'static [&'static str]) -> Feature {
    let choice = Choice::Seldom;
    Feature {
        name,
        values,
        choice,
    }
}

const fn workload(name: &'static str, params: &'static [Feature]) -> Workload {
    Workload { name, params }
}

const OPS: Feature = always("ops", &["200", "400", "800"]);
const THREADS: Feature = often("threads", &["1", "2", "8"]);
const TREE: Feature = always("files", &["20", "60"]);

/// A YCSB store whose levels are small enough to be compacted early.
const YCSB: &[Feature] = &[
    always("records", &["200", "400"]),
    always("ops", &["200", "400"]),
    always("memtable", &["64k"]),
    always("table", &["64k"]),
    always("base", &["128k"]),
    always("sync", &["yes"]),
    THREADS,
];

const FILES: &[Workload] = &[
    // Repeated to be more frequent than any other, as it makes calls of every kind.
    workload("anything", ANYTHING),
    workload("anything", ANYTHING),
    workload("anything", ANYTHING),
    workload("anything", ANYTHING),
    workload(
        "varmail",
        &[OPS, TREE, THREADS, often("append", &["4k", "16k"])],
    ),
    workload(
        "fileserver",
        &[OPS, TREE, THREADS, always("size", &["16k", "64k"])],
    ),
    workload("webproxy", &[OPS, TREE, THREADS]),
    workload("webserver", &[OPS, TREE, THREADS]),
    workload(
        "oltp",
        &[
            OPS,
            always("files", &["2"]),
            always("size", &["256k"]),
            always("threads", &["4", "8"]),
        ],
    ),
    workload("create", &[TREE, THREADS, often("fsync", &["yes"])]),
    workload("delete", &[TREE, THREADS]),
    workload("mkdir", &[TREE, THREADS]),
    workload("rmdir", &[TREE, THREADS]),
    workload("overwrite", OVERWRITE),
    workload(
        "append",
        &[
            OPS,
            THREADS,
            often("bs", &["100", "4k", "100:4k:6000"]),
            often("fsync", &["1", "5"]),
        ],
    ),
    workload(
        "iozone",
        &[
            always("size", &["1m"]),
            always("make", &["64k"]),
            always("bs", &["4k", "16k"]),
            often("order", &["random"]),
        ],
    ),
    workload("ycsb-a", YCSB),
    workload("ycsb-f", YCSB),
];

const ANYTHING: &[Feature] = &[
    OPS,
    THREADS,
    often("size", &["16k", "256k"]),
    often("files", &["6"]),
    seldom("room", &["64k"]),
];

const OVERWRITE: &[Feature] = &[
    OPS,
    THREADS,
    always("size", &["256k", "2m"]),
    always("bs", &["4k", "512:4k:6000", "64k"]),
    often("fsync", &["1", "6", "200"]),
    seldom("direct", &["yes"]),
    seldom("order", &["sequential"]),
];

/// Block workloads for a drive small enough to be overwritten many times.
const REQUESTS: &[Workload] = &[
    workload(
        "randwrite",
        &[
            always("ops", &["800", "2000"]),
            often("bs", &["4k/70:16k/20:128k/10"]),
            always("flush", &["7", "20"]),
            often("depth", &["4", "16"]),
        ],
    ),
    workload(
        "zipfwrite",
        &[
            always("ops", &["800", "2000"]),
            always("flush", &["7", "20"]),
            often("depth", &["4", "16"]),
        ],
    ),
];

/// The workloads that `host` can run.
pub(super) fn workloads(host: &str) -> &'static [Workload] {
    match host {
        "raw" => REQUESTS,
        _ => FILES,
    }
}

const SMALL: &[Feature] = &[always("--size", &["32MiB"])];
const MEMORY: &[Feature] = &[often("--page-cache", &["256KiB", "2MiB"])];
const SNAPSHOT: &[Feature] = &[seldom("--snapshot", &[""])];
const PROTECTION: &[Feature] = &[seldom("--set", &["controller.power_loss_protection=true"])];
/// Rates of failures: few, and so many that the drive turns read-only. A read fails at once if
/// there are no further passes.
const FAILURES: &[Feature] = &[
    seldom(
        "--set",
        &[
            "faults.factory_bad_blocks=2000",
            "faults.factory_bad_blocks=20000",
        ],
    ),
    seldom(
        "--set",
        &[
            "faults.program_failures=1000",
            "faults.program_failures=30000",
        ],
    ),
    seldom(
        "--set",
        &[
            "faults.erase_failures=10000",
            "faults.erase_failures=300000",
        ],
    ),
    seldom(
        "--set",
        &["faults.read_retries=300", "faults.read_retries=5000"],
    ),
    seldom("--set", &["faults.read_passes=1"]),
    seldom("--set", &["wear.spare_blocks=2", "wear.spare_blocks=20"]),
];
const PASTS: &[Feature] = &[often("--precondition", &["full", "aged"])];
/// Zones have no garbage of their own, so none are aged.
const ZONE_PASTS: &[Feature] = &[often("--precondition", &["full"])];
const MAPPED: &[Feature] = &[
    seldom(
        "--set",
        &["collection.victim=cost-benefit", "collection.victim=fifo"],
    ),
    seldom("--set", &["mapping.cache=64KiB"]),
    often("--set", &["mapping.cache_holds=entries"]),
    seldom("--set", &["collection.background_lines=0"]),
    often("--set", &["collection.paced=true"]),
];
const LOGS: &[Feature] = &[
    often("--set", &["front.log.bytes=1MiB", "front.log.bytes=896KiB"]),
    seldom("--set", &["front.log.commits=64", "front.log.commits=256"]),
    seldom("--set", &["front.log.clean_percent=100"]),
];
const CACHES: &[Feature] = &[often("--set", &["front.cache.bytes=1MiB"])];

/// Options of a drive of this `kind`, and of the run on it.
pub(super) fn options(host: &str, kind: &str) -> Vec<&'static [Feature]> {
    let mut all: Vec<&[Feature]> = vec![FAILURES];
    match host {
        "raw" => all.push(SMALL),
        _ => all.push(MEMORY),
    }
    if ["btrfs", "btrfs-nocow", "hyfim"].contains(&host) {
        all.push(SNAPSHOT);
    }
    match kind {
        "byte" if ["bytefs", "bytefs-log"].contains(&host) => all.extend([PASTS, LOGS]),
        "byte" => all.extend([PASTS, CACHES]),
        "zns" => all.extend([ZONE_PASTS, PROTECTION]),
        // The host holds the mapping: a drive that it has not written has no past.
        "ocssd" => all.push(PROTECTION),
        _ => all.extend([PROTECTION, PASTS, MAPPED]),
    }
    all
}
