//! The industry's tests on small drives.

use ssd::Preset;
use stack::drive::resolve;
use stack::pts::{ROUNDS, Setup, Test, tested};
use units::{Bytes, MIB, Ns};

fn setup(drive: &str) -> Setup {
    Setup {
        drive: resolve(drive, Some(Bytes(128 * MIB))).expect("a preset"),
        share: 0.5,
        point: Ns::ms(2),
        seed: 1,
    }
}

#[test]
fn rounds_end_when_the_last_five_are_steady() {
    for test in [Test::Throughput1M, Test::Latency, Test::Saturation] {
        let found = tested(test, &setup("block")).expect("the test runs");
        assert!(found.rounds.len() >= ROUNDS);
        assert!(!found.steady || stack::pts::is_steady(&found.rounds));
        let most = test.most_rounds();
        assert!((found.steady && test != Test::Saturation) || found.rounds.len() == most);
        let measured = found.points.iter().map(|p| (p.read_percent, p.block_bytes));
        assert_eq!(measured.collect::<Vec<_>>(), test.measurements());
        for point in &found.points {
            assert!(point.iops > 0.0, "{point:?}");
            let bytes = point.iops * point.block_bytes as f64 / 1e6;
            assert!((point.mb_per_s / bytes - 1.0).abs() < 1e-6, "{point:?}");
            assert!(point.mean_ns <= point.max_ns);
        }
    }
}

#[test]
fn writes_of_an_empty_drive_slow_down_when_it_is_full() {
    let found = tested(Test::Saturation, &setup("block")).expect("the test runs");
    let (first, last) = (found.rounds[0], found.rounds[found.rounds.len() - 1]);
    assert!(last < first * 0.8, "{first} then {last} IOPS");
}

#[test]
fn life_is_that_of_the_product() {
    let of = |share: f64| {
        let setup = Setup {
            share,
            ..setup("block")
        };
        let found = tested(Test::Endurance, &setup).expect("the test runs");
        assert!(found.steady, "{:?}", found.rounds);
        found.endurance.expect("a life")
    };
    let (half, whole) = (of(0.5), of(1.0));
    assert_eq!(half.waf.to_bits(), whole.waf.to_bits());
    let twice = half.tbw_bytes.expect("rated") / whole.tbw_bytes.expect("rated");
    assert!((twice - 2.0).abs() < 1e-9);
    assert!(half.waf > 1.0 && half.dwpd == whole.dwpd);
}

#[test]
fn drives_without_random_writes_are_refused() {
    let setup = Setup {
        drive: (Preset::named("zns").expect("a preset").config)(),
        ..setup("block")
    };
    let error = tested(Test::Iops, &setup).expect_err("zones take no random writes");
    assert!(error.to_string().contains("random writes"), "{error}");
}
