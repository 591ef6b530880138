//! SYNTHETIC TEST DATA. No number here was measured or simulated: the records
//! are made of formulas, so that tables and pages have something to show.

use report::configuration::Configuration;
use report::record::{
    Comparison, Directions, DriveFacts, Gc, Grain, Handle, Holder, HostTraffic, Latency,
    LatencySet, NandTraffic, Place, Placement, Places, RUN_SCHEMA, Refusal, Run, Sample, Waf, Wear,
};
use std::collections::BTreeMap;

const GIB: f64 = 1_073_741_824.0;
const PAGE: u64 = 16_384;

/// The knobs that tell one synthetic stack from another.
pub(crate) struct Shape {
    stack: &'static str,
    ops_per_s: f64,
    p50_us: f64,
    spread: f64,
    waf_host: f64,
    gc: f64,
    mapping: f64,
    handles: u16,
}

const SHAPES: [Shape; 5] = [
    Shape {
        stack: "synthetic-ext4@block",
        ops_per_s: 41_200.0,
        p50_us: 78.0,
        spread: 1.0,
        waf_host: 1.62,
        gc: 1.31,
        mapping: 0.06,
        handles: 0,
    },
    Shape {
        stack: "synthetic-ext4@fdp",
        ops_per_s: 52_900.0,
        p50_us: 71.0,
        spread: 0.82,
        waf_host: 1.62,
        gc: 0.38,
        mapping: 0.06,
        handles: 4,
    },
    Shape {
        stack: "synthetic-f2fs@zns",
        ops_per_s: 58_300.0,
        p50_us: 66.0,
        spread: 0.75,
        waf_host: 1.35,
        gc: 0.0,
        mapping: 0.0,
        handles: 0,
    },
    Shape {
        stack: "synthetic-bytefs@byte",
        ops_per_s: 96_100.0,
        p50_us: 31.0,
        spread: 0.7,
        waf_host: 1.04,
        gc: 0.52,
        mapping: 0.11,
        handles: 0,
    },
    Shape {
        stack: "synthetic-btrfs@ocssd",
        ops_per_s: 33_700.0,
        p50_us: 96.0,
        spread: 1.1,
        waf_host: 2.41,
        gc: 0.2,
        mapping: 0.02,
        handles: 0,
    },
];

/// A comparison of five synthetic stacks.
pub(crate) fn comparison() -> Comparison {
    let workload = "synthetic test data (shaped like varmail:files=10000,threads=12)";
    Comparison::new(workload, 1, SHAPES.iter().map(run).collect())
}

/// One synthetic run, with placement handles.
pub(crate) fn one() -> Run {
    Run {
        refusals: vec![
            refusal(
                "blocks",
                (12, 200),
                &[("files", None, 3_700), ("journal", None, 196)],
            ),
            refusal(
                "open zones",
                (1, 0),
                &[("zone 3, explicitly-open", Some("mail/log"), 1)],
            ),
        ],
        ..run(&SHAPES[1])
    }
}

fn refusal(limit: &str, (times, free): (u64, u64), held: &[(&str, Option<&str>, u64)]) -> Refusal {
    let holder = |&(who, origin, amount): &(&str, Option<&str>, u64)| Holder {
        who: who.to_owned(),
        origin: origin.map(str::to_owned),
        amount,
    };
    Refusal {
        limit: limit.to_owned(),
        times,
        first_ns: 1_200_000_000 * times,
        asked: times,
        total: free + held.iter().map(|held| held.2).sum::<u64>(),
        free,
        reserve: free,
        held_by: held.iter().map(holder).collect(),
    }
}

/// Bytes that the application of a run writes.
const APPLICATION: f64 = 12.0 * GIB;

fn run(shape: &Shape) -> Run {
    let written = APPLICATION * shape.waf_host;
    let (causes, programmed, moved) = programs(shape, written);
    let sim_time_ns = (1_000_000.0 / shape.ops_per_s * 1e9) as u64;
    Run {
        schema: RUN_SCHEMA.to_owned(),
        stack: shape.stack.to_owned(),
        drive: drive(shape.stack.split_once('@').map_or("block", |s| s.1)),
        workload: "synthetic test data (shaped like varmail)".to_owned(),
        label: String::new(),
        precondition: "aged".to_owned(),
        steady: Some(true),
        windows: 3,
        cautions: Vec::new(),
        seed: 1,
        ops: 1_000_000,
        notes: Vec::new(),
        errors: BTreeMap::new(),
        ops_per_s: shape.ops_per_s,
        bytes_per_s: shape.ops_per_s * 16_384.0,
        at_load: None,
        used: None,
        cpu_ns_per_op: 4_000.0,
        latency_ns: latencies(shape),
        host: host(shape, written),
        nand: nand(causes, programmed, moved),
        waf: Waf {
            host: shape.waf_host,
            device: programmed as f64 / written,
            total: programmed as f64 / APPLICATION,
        },
        gc: gc(shape, moved),
        wear: wear(programmed),
        utilisation: utilisation(),
        timeline: timeline(shape, sim_time_ns),
        handles: (0..shape.handles).map(|id| handle(id, written)).collect(),
        placement: (shape.handles > 0).then(|| placement(shape)),
        fdp: None,
        map_cache: None,
        front: None,
        app: None,
        recovery: None,
        operations: BTreeMap::new(),
        jobs: Vec::new(),
        job_groups: Vec::new(),
        file_system: None,
        zones: None,
        places: Some(places(shape)),
        remap: None,
        host_memory: None,
        remount: None,
        refusals: Vec::new(),
        configuration: Configuration::new(),
        sim_time_ns,
        events: 18_400_000,
        wall_time_s: 7.4,
        peak_rss_bytes: 213_000_000,
    }
}

/// Programs by cause, all of them, and those of garbage collection.
fn programs(shape: &Shape, written: f64) -> (BTreeMap<String, u64>, u64, u64) {
    let causes = causes(shape, written);
    let moved = causes.get("gc").copied().unwrap_or(0);
    let programmed = causes.values().sum();
    (causes, programmed, moved)
}

fn utilisation() -> BTreeMap<String, f64> {
    let shares = [
        ("die", 0.71),
        ("channel", 0.38),
        ("link", 0.12),
        ("cpu", 0.05),
    ];
    shares.map(|(kind, share)| (kind.to_owned(), share)).into()
}

fn placement(shape: &Shape) -> Placement {
    Placement {
        policy: "hints".to_owned(),
        handles: shape.handles,
        used: shape.handles,
    }
}

fn drive(interface: &str) -> DriveFacts {
    DriveFacts {
        name: interface.to_owned(),
        interface: interface.to_owned(),
        capacity_bytes: 28 << 30,
        raw_bytes: 32 << 30,
        over_provisioning: 1.0 / 7.0,
        nand: "tlc".to_owned(),
        geometry: "8 × 4 × 2 × 128 × 256 × 16 KiB".to_owned(),
        endurance_cycles: 3000,
        dram_bytes: 31 << 20,
    }
}

fn causes(shape: &Shape, written: f64) -> BTreeMap<String, u64> {
    let shares = [
        ("host", 1.0),
        ("gc", shape.gc),
        ("mapping", shape.mapping),
        ("padding", 0.03),
        ("wear", 0.01),
    ];
    shares
        .into_iter()
        .filter(|(_, share)| *share > 0.0)
        .map(|(cause, share)| (cause.to_owned(), (written * share) as u64))
        .collect()
}

fn nand(causes: BTreeMap<String, u64>, programmed: u64, moved: u64) -> NandTraffic {
    let origins = [
        ("mail/inbox", 0.44),
        ("mail/log", 0.27),
        ("journal", 0.19),
        ("inode table", 0.07),
    ];
    let split = |bytes: u64| {
        origins
            .map(|(o, share)| (o.to_owned(), (bytes as f64 * share) as u64))
            .into()
    };
    NandTraffic {
        read_pages: 2_900_000 + moved / PAGE,
        program_pages: programmed / PAGE,
        erase_blocks: programmed / PAGE / 256,
        page_bytes: PAGE,
        by_cause_and_origin: causes.iter().map(|(c, b)| (c.clone(), split(*b))).collect(),
        reads_by_cause: [
            ("host".to_owned(), 2_900_000),
            ("gc".to_owned(), moved / PAGE),
        ]
        .into(),
        by_cause: causes,
    }
}

fn host(shape: &Shape, written: f64) -> HostTraffic {
    let data = 1.0 / shape.waf_host;
    let purposes = [
        ("data", data),
        ("journal", (1.0 - data) * 0.7),
        ("metadata", (1.0 - data) * 0.3),
    ];
    let directions = |share: f64| Directions {
        read: Grain {
            byte: 0,
            block: (share * 9.0 * GIB) as u64,
            total: (share * 9.0 * GIB) as u64,
        },
        write: Grain {
            byte: 0,
            block: (written * share) as u64,
            total: (written * share) as u64,
        },
    };
    HostTraffic {
        read_bytes: (9.0 * GIB) as u64,
        write_bytes: written as u64,
        byte_read_bytes: 0,
        byte_write_bytes: 0,
        trim_bytes: 3 << 30,
        flushes: 125_000,
        by_purpose: purposes
            .map(|(p, share)| (p.to_owned(), directions(share)))
            .into(),
        by_origin: BTreeMap::new(),
    }
}

fn latencies(shape: &Shape) -> LatencySet {
    let read = latency(shape.p50_us, shape.spread, 500_000);
    let write = latency(shape.p50_us * 0.4, shape.spread * 1.25, 500_000);
    LatencySet {
        all: latency(shape.p50_us * 0.8, shape.spread * 1.1, 1_000_000),
        by_op: [("read".to_owned(), read), ("write".to_owned(), write)].into(),
    }
}

/// Latency grows with the logarithm of the tail, and faster far out.
fn latency(p50_us: f64, spread: f64, count: u64) -> Latency {
    let at = |tail: f64| {
        let nines = -(tail * 2.0).max(1e-9).log10();
        (p50_us * 1e3 * 10f64.powf(nines * 0.33 * spread + nines.max(0.0).powi(3) * 0.004)) as u64
    };
    let cdf = (0..=150)
        .map(|i| 10f64.powf(-f64::from(i) / 27.0))
        .map(|tail| (at(tail), count - (tail * count as f64) as u64));
    let mut cdf: Vec<(u64, u64)> = cdf.collect();
    cdf.push((at(5e-7), count));
    Latency {
        count,
        mean: p50_us * 1e3 * 1.4,
        p50: at(0.5),
        p95: at(0.05),
        p99: at(0.01),
        p99_9: at(0.001),
        p99_99: at(0.0001),
        max: at(5e-7),
        cdf,
    }
}

fn gc(shape: &Shape, moved: u64) -> Gc {
    if moved == 0 {
        return Gc::default();
    }
    let peak = 10.0 * shape.gc / (1.0 + shape.gc);
    let bin = |i: i32| (900.0 * (-(f64::from(i) + 0.5 - peak).powi(2) / 5.0).exp()) as u64;
    let victim_valid_histogram: Vec<u64> = (0..10).map(bin).collect();
    let lines = victim_valid_histogram.iter().sum();
    Gc {
        lines,
        moved_bytes: moved,
        foreground_lines: lines / 9,
        stall_ns: 1_840_000_000,
        mean_valid: Some(0.42),
        victim_valid_histogram,
    }
}

fn wear(programmed: u64) -> Wear {
    let mean = programmed as f64 / (32.0 * GIB) + 40.0;
    let bin = |i: u32| {
        (
            i.into(),
            (700.0 * (-(f64::from(i) - mean).powi(2) / 30.0).exp()) as u64,
        )
    };
    Wear {
        mean_erases: mean,
        min_erases: 28,
        max_erases: 55,
        histogram: (28..=55).map(bin).collect(),
        bad_blocks: 3,
        life_years: Some(9.0e10 / programmed as f64),
        life_host_bytes: Some(9_000_000_000_000_000_000 / programmed),
        life_app_bytes: Some(8_000_000_000_000_000_000 / programmed),
        dwpd: Some(9.0e10 / programmed as f64),
    }
}

fn timeline(shape: &Shape, sim_time_ns: u64) -> Vec<Sample> {
    let points = 120;
    let sample = |i: u64| {
        let x = i as f64 / points as f64;
        let settled = 1.0 - (-6.0 * x).exp();
        let wave = 1.0 + 0.08 * (x * 37.0).sin() * settled;
        let written = (0.1 * GIB * wave) as u64;
        let gc = shape.gc * settled * wave;
        Sample {
            at_ns: sim_time_ns * i / points,
            ops: (8_333.0 * (1.1 - 0.12 * settled * wave)) as u64,
            host_write_bytes: written,
            host_read_bytes: written / 2,
            programmed_bytes: [("host", 1.0), ("gc", gc), ("mapping", shape.mapping)]
                .map(|(c, share)| (c.to_owned(), (written as f64 * share) as u64))
                .into(),
            waf: 1.0 + gc + shape.mapping,
            max_latency_ns: (shape.p50_us * 8e3 * (1.0 + 60.0 * gc * (x * 11.0).sin().powi(2)))
                as u64,
            p50_latency_ns: (shape.p50_us * 1e3) as u64,
            free_lines: (400.0 - 380.0 * settled) as u64,
        }
    };
    (1..=points).map(sample).collect()
}

/// Lines of increasing age, and the fuller the less garbage collection there is.
fn places(shape: &Shape) -> Places {
    let place = |i: u64| Place {
        full: if i < 6 {
            0
        } else {
            (1000 - (i * 37) % 1000) * 10 / (10 + (shape.gc * 10.0) as u64)
        },
        age: if i < 8 { 0 } else { i * 9000 },
        state: match i {
            0..6 => "free",
            6..8 => "open",
            127 => "gone",
            _ => "closed",
        }
        .to_owned(),
    };
    Places {
        of: "line".to_owned(),
        per_entry: 1,
        each: (0..128).map(place).collect(),
    }
}

fn handle(id: u16, written: f64) -> Handle {
    let host_bytes = (written / f64::from(id + 2)) as u64;
    let moved_bytes = host_bytes / (u64::from(id) * 3 + 2);
    Handle {
        id,
        host_bytes,
        media_bytes: Some(host_bytes + moved_bytes),
        moved_bytes,
    }
}
