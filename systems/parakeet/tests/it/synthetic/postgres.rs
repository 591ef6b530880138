//! PostgreSQL: relations that are rewritten in place, a log whose segments are recycled, and
//! temporary files.

use super::{MADE, Tape};
use parakeet::flags::Flags;
use sim::chance::Seed;
use units::{KIB, MIB};

const SEGMENT: u64 = 512 * KIB;
const RELATION: u64 = 6 * MIB;
const PAGE: u64 = 8 * KIB;

pub(crate) fn postgres(seed: u64, rounds: u32) -> Tape {
    let mut chance = Seed(seed).stream("postgres");
    let mut tape = Tape::of("/usr/lib/postgresql/15/bin/postgres");
    let relation = |tape: &mut Tape, number: u32| {
        let path = format!("/var/lib/postgresql/base/5/{number}");
        let file = tape.open(path, Flags::READ_WRITE.and(Flags::CREATE), "");
        tape.write(file, 0, RELATION);
        file
    };
    let relations: Vec<u64> = (0..8)
        .map(|at| relation(&mut tape, 16_384 + at * 3))
        .collect();
    let states = tape.open(
        "/var/lib/postgresql/pg_xact/0000".to_owned(),
        Flags::READ_WRITE,
        "",
    );
    let wal = |number: u64| format!("/var/lib/postgresql/pg_wal/{number:024X}");
    let mut segments: Vec<u64> = (0..6)
        .map(|at| tape.open(wal(at), Flags::READ_WRITE.and(Flags::CREATE), ""))
        .collect();
    for round in 0..rounds {
        // A segment of the log is written and synced, then renamed for reuse.
        let segment = segments.remove(0);
        for part in 0..32 {
            tape.write(segment, part * SEGMENT / 32, SEGMENT / 32);
            tape.sync(segment);
            tape.pass(2_000);
        }
        tape.rename(segment, wal(u64::from(round) + 6));
        segments.push(segment);
        // Pages of relations are overwritten, most of them in two hot relations.
        for _ in 0..96 {
            let hot = chance.chance(3, 4);
            let at = chance.below(if hot { 2 } else { 8 });
            let page = chance.below(RELATION / PAGE);
            tape.write(relations[at as usize], page * PAGE, PAGE);
        }
        relations.iter().for_each(|&file| tape.sync(file));
        tape.write(states, u64::from(round) % 64 * 8, 8);
        tape.sync(states);
        if round % 3 == 0 {
            let path = format!(
                "/var/lib/postgresql/base/pgsql_tmp/pgsql_tmp{}.{round}",
                900 + round % 7
            );
            let sorted = tape.open(path, MADE, "");
            tape.append(sorted, MIB);
            tape.pass(50_000);
            tape.close(sorted);
            tape.gone(sorted);
        }
    }
    tape
}
