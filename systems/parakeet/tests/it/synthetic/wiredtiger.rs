//! WiredTiger: chunks of an LSM tree that are merged, logs that are prepared under another name,
//! and a table that is written in place.

use super::{MADE, Tape};
use parakeet::flags::Flags;
use sim::chance::Seed;
use units::{KIB, MIB};

const CHUNK: u64 = MIB;

pub(crate) fn wiredtiger(seed: u64, chunks: u32) -> Tape {
    let mut chance = Seed(seed).stream("wiredtiger");
    let mut tape = Tape::of("wtperf");
    let table = tape.open(
        "WT_TEST/history.wt".to_owned(),
        Flags::READ_WRITE.and(Flags::CREATE),
        "",
    );
    tape.write(table, 0, 8 * MIB);
    let mut logs: Vec<u64> = Vec::new();
    let mut tiers: Vec<Vec<(u64, u64)>> = vec![Vec::new(); 4];
    let mut number = 0;
    let mut chunk = |tape: &mut Tape, size: u64| {
        number += 1;
        let file = tape.open(format!("WT_TEST/test-{number:06}.lsm"), MADE, "");
        (0..size / (64 * KIB)).for_each(|_| tape.append(file, 64 * KIB));
        tape.sync(file);
        let bloom = tape.open(format!("WT_TEST/test-{number:06}.bf"), MADE, "");
        tape.append(bloom, size / 32);
        tape.sync(bloom);
        (file, bloom)
    };
    for round in 0..chunks {
        let log = tape.open(format!("WT_TEST/WiredTigerPreplog.{round:010}"), MADE, "");
        tape.rename(log, format!("WT_TEST/WiredTigerLog.{round:010}"));
        for _ in 0..32 {
            tape.append(log, CHUNK / 32);
            tape.sync(log);
            tape.pass(1_000 + chance.below(1_000));
            let page = chance.below(8 * MIB / (16 * KIB));
            tape.write(table, page * 16 * KIB, 16 * KIB);
        }
        tape.sync(table);
        logs.push(log);
        if logs.len() > 3 {
            let old = logs.remove(0);
            tape.close(old);
            tape.gone(old);
        }
        tiers[0].push(chunk(&mut tape, CHUNK));
        for tier in 0..3 {
            if tiers[tier].len() < 4 {
                break;
            }
            let merged = chunk(&mut tape, CHUNK << (2 * (tier + 1)));
            for (file, bloom) in std::mem::take(&mut tiers[tier]) {
                tape.gone(file);
                tape.gone(bloom);
            }
            tiers[tier + 1].push(merged);
        }
        // The last tier is not merged: its oldest chunk expires.
        if tiers[3].len() > 1 {
            let (file, bloom) = tiers[3].remove(0);
            tape.gone(file);
            tape.gone(bloom);
        }
    }
    tape
}
