use super::*;
use crate::generate::Theta;

fn set(options: &[(&str, &str)]) -> Options {
    let mut all = Options::default();
    for (name, value) in options {
        assert_eq!(all.set(name, value), Ok(Set::Honoured), "{name}={value}");
    }
    all
}

#[test]
fn values_are_read_as_fio_reads_them() {
    let made = set(&[
        ("rw", "randrw:4"),
        ("rwmixwrite", "30"),
        ("bs", "8KiB,16k"),
        ("size", "1GB"),
        ("io_size", "16m"),
        ("rate_iops", "2k,100"),
        ("rate_process", "poisson"),
        ("thinktime", "5"),
        ("random_distribution", "zipf:1.2"),
        ("fsync", "32"),
        ("runtime", "5m"),
        ("startdelay", "2-4"),
        ("fdp_pli", "0,3"),
    ]);
    assert_eq!((made.read_percent, made.access.run), (70, 4));
    assert_eq!(made.sizes, [8, 16, 16].map(|k| Sizes::One(k << 10)));
    assert_eq!(made.amount.size, Part::Bytes(Bytes(1 << 30)));
    assert_eq!(made.pace.ios, [2_048, 100, 100]);
    assert_eq!(made.distribution[0], Distribution::Zipf(Theta(1_200_000)));
    assert_eq!((made.pace.think, made.durable.flush_every), (Ns::us(5), 32));
    assert_eq!(made.amount.runtime, Some(Ns::secs(300)));
    assert_eq!(made.pace.start, (Ns::secs(2), Ns::secs(4)));
    assert_eq!(made.handles.list, [0, 3]);
    assert_eq!(set(&[("rw", "read:-8k")]).access.gap, -8192);
    assert_eq!(
        set(&[("filename", "/a:/b\\:c")]).files.names,
        ["/a", "/b\\:c"]
    );
}

#[test]
fn options_are_ignored_or_refused_with_a_reason() {
    let mut options = Options::default();
    assert_eq!(options.set("kb_base", "1024"), Ok(Set::Ignored));
    for name in ["direct", "per_job_logs", "percentile_list", "log_avg_msec"] {
        assert_eq!(options.set(name, "1"), Ok(Set::Ignored));
    }
    let mut refused = |name, value| options.set(name, value).unwrap_err();
    assert_eq!(
        refused("iodeph", "3"),
        "an option of fio; did you mean iodepth"
    );
    assert_eq!(
        refused("flow_sleep", "8"),
        "a job without flow_sleep (one flow without pauses is simulated)"
    );
    assert_eq!(refused("rw", "randreadwrite"), RW);
    assert_eq!(
        refused("kb_base", "1000"),
        "kb_base=1024 (suffixes are binary)"
    );
    assert_eq!(refused("bs", "${BS}"), "a value in place of a variable");
    assert!(refused("ioengine", "rdma").starts_with("an engine of block"));
}

#[test]
fn full_queue_is_filled_again_at_its_low_mark() {
    let refill = |low, batch| {
        let marks = [("iodepth_low", low), ("iodepth_batch_complete_min", batch)];
        set(&[("iodepth", "16"), marks[0], marks[1]]).refill()
    };
    assert_eq!(refill("0", "1"), 15);
    assert_eq!(refill("4", "0"), 4);
    assert_eq!(refill("0", "4"), 12);
    assert_eq!(refill("4", "5"), 1);
    assert_eq!(refill("40", "99"), 0);
}

#[test]
fn every_suggested_option_is_honoured() {
    for name in names::HONOURED {
        let set = Options::default().set(name, "?");
        assert_ne!(set, Ok(Set::Ignored), "{name}");
        assert!(
            !set.is_err_and(|told| told.starts_with("an option")),
            "{name}"
        );
    }
}
