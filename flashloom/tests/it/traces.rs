//! Traces that are detected by their contents, or rejected with the reason.

use crate::{Bench, number};

const INFO: &str = "flashloom.trace-info/1";

/// A zone that is reset and appended to, with several events for each request.
const ZONES: &str = "\
259,1  0  1  0.000001  9  Q  ZR N 0 + 0 [z]
259,1  0  2  0.000002  9  D  ZR N 0 + 0 [z]
259,1  0  3  0.000003  0  C  ZR N 0 + 0 [0]
259,1  0  4  0.001001  9  Q ZAS N 0 + 32 [z]
259,1  0  5  0.001002  9  D ZAS N 0 + 32 [z]
259,1  0  6  0.001003  0  C ZAS N 0 + 32 [0]
259,1  0  7  0.002001  9  Q ZAS N 0 + 32 [z]
259,1  0  8  0.003001  9  Q  ZF N 0 + 0 [z]
";

#[test]
fn zone_commands_of_a_trace_reach_a_drive_of_zones_and_no_other() {
    let bench = Bench::new();
    bench.write("z.txt", ZONES);
    let info = bench.json("trace info z.txt", INFO);
    assert_eq!(
        ["/appends", "/zone_commands", "/requests", "/writes"].map(|at| number(&info, at)),
        [2, 2, 4, 0]
    );
    let run = bench.json("run raw@zns --trace z.txt --size 256MiB", "flashloom.run/1");
    assert_eq!(
        [
            "/latency_ns/by_op/append/count",
            "/latency_ns/by_op/zone-reset/count",
            "/latency_ns/by_op/zone-finish/count",
            "/host/write_bytes",
            "/ops",
        ]
        .map(|at| number(&run, at)),
        [2, 1, 1, 32_768, 4]
    );
    let told = "request 1 is a zone-reset: expected a drive with zones";
    bench.refuses("run raw@block --trace z.txt --size 64MiB", &[told]);
    bench.refuses("compare z.txt --stacks raw@fdp --size 64MiB", &[told]);
    bench.refuses(
        "crash raw@block --workload z.txt --size 64MiB --points 3",
        &[told],
    );
    bench.write("wz.txt", "259,1 0 1 0.1 9 Q WZS 64 + 8 [mkfs]\n");
    let run = bench.json(
        "run raw@block --trace wz.txt --size 64MiB",
        "flashloom.run/1",
    );
    assert_eq!(number(&run, "/latency_ns/by_op/write-zeroes/count"), 1);
    bench.refuses(
        "run raw@zns --trace wz.txt --size 256MiB",
        &["request 1 is a write-zeroes: expected a drive without zones"],
    );
    bench.done("trace convert z.txt z.csv --to csv");
    let again = bench.json("trace info z.csv", INFO);
    assert_eq!(again["appends"], info["appends"]);
}

#[test]
fn traces_of_clouds_are_told_by_their_contents() {
    let bench = Bench::new();
    bench.write(
        "c.csv",
        "2,W,8388608,8192,1578000000000500\n4,R,4096,4096,1578000000000640\n\
         2,W,8396800,4096,1578000000000900\n",
    );
    let info = bench.json("trace info c.csv", INFO);
    assert_eq!(info["format"], "alibaba");
    assert_eq!(
        [
            "/write_bytes",
            "/read_bytes",
            "/duration_ns",
            "/notes/devices"
        ]
        .map(|at| number(&info, at)),
        [12_288, 4_096, 400_000, 2]
    );
    assert!(number(&info, "/span_bytes") < 2 << 30);
    let run = bench.json(
        "run raw@block --trace c.csv --size 64MiB",
        "flashloom.run/1",
    );
    assert_eq!(number(&run, "/host/write_bytes"), 12_288);
}

#[test]
fn ambiguous_trace_needs_a_format_which_every_command_takes() {
    let bench = Bench::new();
    bench.write("two.csv", "4,W,4096,512,9\n6,R,0,1024,30\n");
    let both = "found such as fit csv and alibaba; --format says which it is";
    for line in [
        "trace info two.csv",
        "trace head two.csv",
        "trace convert two.csv out.csv --to csv",
        "run raw@block --size 64MiB --trace two.csv",
        "compare two.csv --size 64MiB --stacks raw@block",
    ] {
        bench.refuses(line, &[both]);
    }
    let bytes = |format: &str| {
        let info = bench.json(&format!("trace info two.csv --format {format}"), INFO);
        number(&info, "/write_bytes")
    };
    assert_eq!([bytes("alibaba"), bytes("csv")], [512, 512 * 512]);
    let head = bench.json(
        "trace head two.csv --format alibaba --devices together",
        "flashloom.trace-head/1",
    );
    assert_eq!(head["requests"][0]["sector"], 8);
    bench.done("trace convert two.csv out.csv --to csv --format alibaba");
    let line = "run raw@block --size 64MiB --trace two.csv --format alibaba";
    assert_eq!(number(&bench.json(line, "flashloom.run/1"), "/ops"), 2);
}

#[test]
fn table_of_any_program_is_read_by_its_columns_and_converted_without_names() {
    let bench = Bench::new();
    bench.write("t.txt", "0 R 0 4096 secret\n1000 W 8192 4096 secret\n");
    let columns = "--columns time_us,op,offset_bytes,size_bytes,process";
    let line = format!("run raw@block --size 64MiB --trace t.txt {columns}");
    assert_eq!(number(&bench.json(&line, "flashloom.run/1"), "/ops"), 2);
    bench.done(&format!(
        "trace convert t.txt u.csv --to csv --anonymous {columns}"
    ));
    let head = bench.json("trace head u.csv", "flashloom.trace-head/1");
    assert_eq!(head["requests"][1]["origin"], "n1xxxx");
    bench.refuses(
        "record --block t.txt -o u.trace",
        &["t.txt: expected a block device"],
    );
}

#[test]
fn a_trace_that_is_out_of_order_is_sorted_and_said() {
    let bench = Bench::new();
    bench.write("o.csv", "100,W,0,8,p\n90,W,64,8,p\n130,R,0,8,p\n");
    let said = "1 requests were recorded out of order, by up to 10 ns, and were sorted";
    assert!(bench.done("trace info o.csv").contains(said));
    let run = bench.done("run raw@block --size 64MiB --trace o.csv");
    assert!(run.contains(said), "{run}");
}

#[test]
fn text_of_pin_is_read_as_memory_accesses() {
    let bench = Bench::new();
    let text: String = (0..64)
        .map(|i| {
            let kind = if i % 4 == 0 { "W" } else { "R" };
            format!("0x4006{i:02x}: {kind} 0x7ffd{:04x}\n", i * 200)
        })
        .collect();
    bench.write("pinatrace.out", format!("{text}#eof\n"));
    let info = bench.json("trace info pinatrace.out", INFO);
    // Some accesses start less than 8 bytes before the end of a cache line, and stay within it.
    assert_eq!(["/loads", "/stores"].map(|at| number(&info, at)), [48, 16]);
    bench.refuses(
        "run raw@block --trace pinatrace.out",
        &["pinatrace.out is a memory workload: run it with flashloom memory"],
    );
    for line in [
        "trace head pinatrace.out",
        "trace convert pinatrace.out o.csv --to csv",
    ] {
        bench.refuses(line, &["pinatrace.out: a trace of memory accesses"]);
    }
    bench.done("memory skybyte-full --workload pinatrace.out");
    bench.write("pinatrace.out", format!("{text}0x1: X 0x2\n"));
    bench.refuses("trace info pinatrace.out", &["pinatrace.out:65: expected"]);
    bench.write("pinatrace.out", "no accesses\n");
    bench.refuses(
        "trace info pinatrace.out",
        &["expected a trace in one of the formats"],
    );
}

#[test]
fn faulty_job_and_endless_workloads_are_refused() {
    let bench = Bench::new();
    bench.write(
        "j.fio",
        "[global]\nsize=8m\nflow_sleep=2\n[reader]\nrw=randreed\n",
    );
    for line in [
        "run raw@block --workload j.fio --size 64MiB",
        "compare j.fio --size 64MiB",
    ] {
        bench.refuses(
            line,
            &[
                "j.fio:3: expected a job without flow_sleep",
                "j.fio:5: expected read, write, trim",
            ],
        );
    }
    let endless = "takes more than a day to simulate";
    for line in [
        "run raw@block --workload randwrite:ops=18446744073709551615 --size 64MiB",
        "compare logs:ops=900000000000 --size 64MiB",
        "run ext4@block --workload varmail:ops=18446744073709551615 --size 64MiB",
    ] {
        bench.refuses(line, &[endless]);
    }
    bench.write("e.fio", "[a]\nrw=write\nnumber_ios=18446744073709551615\n");
    bench.refuses(
        "run raw@block --workload e.fio --size 64MiB",
        &["e.fio:3: ", endless],
    );
}
