//! `soak`: power cuts of random stacks, until stopped.
//!
//! Invariant: a case is a function of the seed and its number; the number of threads changes only
//! the time. When stopped, the command keeps the cuts of unfinished cases with their findings, and
//! names the number from which those cases can be tried again.

use super::crash::{Crash, Failed};
use super::failure::Failure;
use super::output::{self, Shown, note};
use super::progress::Cases;
use clap::{Args, Parser};
use crash::Exploration;
use engine::Signals;
use report::Style;
use report::human::count;
use report::table::{Side, facts, listing};
use serde::Serialize;
use sim::Seed;
use stack::pool;
use stack::soak::{Case, shrink};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of cases between two checks of the number of cuts.
const BATCH: u64 = 16;
/// Draws of one case: a reason that holds for all of them, such as a full disk, must not make the
/// command draw for ever.
const DRAWS: u64 = 64;

/// Cut the power of random stacks under random workloads until interrupted
///
/// Each case is drawn from the seed and the number of the case: a stack with switches, a workload
/// with parameters, a drive with settings, flash failures and a precondition. A case that cannot
/// run is drawn again; others are tested as by `flashloom crash`. A failing case is reduced and
/// printed as a command that repeats the failure. The exit status is 1 if a check fails.
#[derive(Args)]
pub(crate) struct Soak {
    /// Seed of the cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first case, to resume an earlier run with this seed
    #[arg(long, default_value_t = 0, value_name = "CASE")]
    from: u64,
    /// Stop after this many power cuts [default: never]
    #[arg(long, value_name = "N")]
    cuts: Option<u64>,
    /// Number of events of each case at which the power is cut
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    points: u64,
    /// Run external checkers at every N-th cut; 0 for never
    #[arg(long, value_name = "N", default_value_t = 0)]
    outside: u64,
    /// Parallel cases [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// Case, parsed from its command line.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    crash: Crash,
}

/// Outcome of a case.
enum Tried {
    Explored(Exploration, Vec<Failed>),
    /// Interrupted before its end.
    Stopped(Exploration, Vec<Failed>),
    /// Refused by the stack, with the reason.
    Refused(String),
}

/// A case that was tried, and the reasons for which earlier draws of it cannot run.
struct Drawn {
    case: Case,
    tried: Tried,
    dropped: Vec<String>,
}

/// Progress display and stop flag of the soak.
struct Watch<'a> {
    bar: Cases,
    stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&self, tried: &Tried) {
        match tried {
            Tried::Explored(_, failures) => self.bar.tried(!failures.is_empty()),
            Tried::Refused(_) => self.bar.tried(false),
            Tried::Stopped(..) => {}
        }
    }
}

/// JSON document of `soak`.
#[derive(Default, Serialize)]
struct Covered {
    seed: u64,
    from: u64,
    /// Number of the first unfinished case, for --from.
    next: u64,
    cases: u64,
    points: u64,
    /// Recoveries that ran; a cut that leaves the state of a recent one is not recovered again.
    recovered: u64,
    recoveries_cut: u64,
    outside: u64,
    lost: u64,
    corrupt: u64,
    /// Judgements whose findings the medium explains.
    media: u64,
    /// Cases of which a run ended at a bound.
    bounded: u64,
    /// Power cuts by feature of their case.
    features: BTreeMap<String, u64>,
    /// Power cuts by drive activity at the cut.
    met: BTreeMap<&'static str, u64>,
    /// Cases that were not run to their end, by reason.
    refused: BTreeMap<String, u64>,
    /// Draws that cannot run and were replaced, by reason.
    redrawn: BTreeMap<String, u64>,
    failures: Vec<Shrunk>,
}

/// Failed case.
#[derive(Serialize)]
struct Shrunk {
    case: u64,
    /// Command as drawn.
    drawn: String,
    /// Reduced command that still fails.
    smallest: String,
    /// First failure of the reduced command.
    fault: String,
    what: String,
    repeat: String,
}

impl Soak {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let signals = Signals::hold().map_err(|e| Failure::new(format!("signals: {e}")))?;
        let heard = signals.watch(move |signal| {
            // The second signal does not wait for the cuts in progress.
            if told.swap(true, Ordering::Relaxed) {
                std::process::exit(Signals::status(signal).into());
            }
            note("flashloom: stopping once the current power cuts are checked");
            true
        });
        heard.map_err(|e| Failure::new(format!("signals: {e}")))?;
        let covered = self.cover(&stop);
        let answer = self
            .shown
            .answer("flashloom.soak/1", &covered, |style| covered.told(style))?;
        let shown = output::emit(&answer);
        Ok(match covered.failures.is_empty() {
            true => shown,
            false => ExitCode::from(1),
        })
    }

    fn cover(&self, stop: &AtomicBool) -> Covered {
        let mut covered = Covered {
            seed: self.seed,
            from: self.from,
            next: self.from,
            ..Covered::default()
        };
        let bar = Cases::new(self.cuts.map(|cuts| self.whole_batches(cuts)));
        let watch = Watch { bar, stop };
        let is_enough = |covered: &Covered| self.cuts.is_some_and(|cuts| covered.points >= cuts);
        while !watch.is_over() && !is_enough(&covered) {
            let first = covered.next;
            let work = |index: usize| {
                let drawn = self.try_case(first + index as u64, &watch);
                watch.tell(&drawn.tried);
                drawn
            };
            let batch = pool::each(BATCH as usize, super::jobs(self.jobs), &work);
            for (number, drawn) in (first..).zip(batch) {
                self.take(&mut covered, number, drawn, &watch);
            }
        }
        watch.bar.finish();
        covered
    }

    /// The number of cuts in whole batches that covers `cuts`, which is only checked between
    /// batches.
    fn whole_batches(&self, cuts: u64) -> u64 {
        let batch = BATCH.saturating_mul(self.points).max(1);
        cuts.div_ceil(batch).saturating_mul(batch)
    }

    /// Counts a case, and shrinks it if it failed.
    fn take(&self, covered: &mut Covered, number: u64, drawn: Drawn, watch: &Watch) {
        let Drawn {
            case,
            tried,
            dropped,
        } = drawn;
        for reason in dropped {
            *covered.redrawn.entry(reason).or_default() += 1;
        }
        // Cases after an unfinished one may be finished.
        if !matches!(tried, Tried::Stopped(..)) && covered.next == number {
            covered.next += 1;
            covered.cases += 1;
        }
        match tried {
            Tried::Refused(reason) => *covered.refused.entry(reason).or_default() += 1,
            Tried::Stopped(found, _) if found.points == 0 => {}
            Tried::Explored(found, failures) | Tried::Stopped(found, failures) => {
                covered.count(&case, &found);
                if let Some(first) = failures.into_iter().next() {
                    watch.bar.shrinks(number);
                    let failure = self.smallest(number, &case, first, watch);
                    note(&format!("flashloom: case {number}: {}", failure.repeat));
                    covered.failures.push(failure);
                }
            }
        }
    }

    /// The arguments of `flashloom crash` for a case.
    fn words(&self, case: &Case) -> Vec<String> {
        let mut words = case.words();
        words.extend(["--points".to_owned(), self.points.to_string()]);
        words.extend(["--outside".to_owned(), self.outside.to_string()]);
        words
    }

    /// Runs the first draw of case `number` that can run.
    fn try_case(&self, number: u64, watch: &Watch) -> Drawn {
        let seed = Seed(self.seed).child(number);
        let mut dropped = Vec::new();
        for draw in 0..DRAWS {
            let case = Case::draw_again(seed, draw);
            let checked = match watch.is_over() {
                true => Ok(()),
                false => self.line(&case).and_then(|line| line.crash.check()),
            };
            let Err(reason) = checked else {
                let tried = self.attempt(&case, watch, &|| watch.bar.cut());
                return Drawn {
                    case,
                    tried,
                    dropped,
                };
            };
            dropped.push(reason.to_string());
        }
        Drawn {
            case: Case::draw(seed),
            tried: Tried::Refused(format!("none of {DRAWS} draws can run")),
            dropped,
        }
    }

    /// The command line of `case`, parsed and validated like any other.
    fn line(&self, case: &Case) -> Result<Line, Failure> {
        let words = [String::new()].into_iter().chain(self.words(case));
        Line::try_parse_from(words).map_err(|e| Failure::usage(&e))
    }

    /// Runs `case`; calls `heard` at each cut.
    fn attempt(&self, case: &Case, watch: &Watch, heard: &dyn Fn()) -> Tried {
        if watch.is_over() {
            return Tried::Stopped(Exploration::default(), Vec::new());
        }
        let mut is_stopped = false;
        let mut tell = |_, _| {
            heard();
            is_stopped = watch.is_over();
            match is_stopped {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let line = self.line(case);
        let explored = line.and_then(|line| line.crash.explore(&mut tell));
        // A loss of the medium breaks no promise.
        let explored = explored.map(|(found, mut failures)| {
            failures.retain(Failed::breaks_promise);
            (found, failures)
        });
        match explored {
            Ok((found, failures)) if is_stopped => Tried::Stopped(found, failures),
            Ok((found, failures)) => Tried::Explored(found, failures),
            Err(failure) => Tried::Refused(failure.to_string()),
        }
    }

    fn smallest(&self, number: u64, case: &Case, first: Failed, watch: &Watch) -> Shrunk {
        let mut last = first;
        let mut fails = |smaller: &Case| match self.attempt(smaller, watch, &|| ()) {
            Tried::Explored(_, failures) | Tried::Stopped(_, failures) => {
                match failures.into_iter().next() {
                    Some(failed) => {
                        last = failed;
                        true
                    }
                    None => false,
                }
            }
            Tried::Refused(_) => false,
        };
        let small = shrink(case.clone(), &mut fails);
        let line = |case: &Case| format!("flashloom crash {}", self.words(case).join(" "));
        Shrunk {
            case: number,
            drawn: line(case),
            smallest: line(&small),
            fault: last.fault,
            what: last.what,
            repeat: last.repeat,
        }
    }
}

impl Covered {
    fn count(&mut self, case: &Case, found: &Exploration) {
        self.points += found.points;
        self.recovered += found.recovered;
        self.recoveries_cut += found.recoveries;
        self.outside += found.outside;
        self.lost += found.lost;
        self.corrupt += found.corrupt;
        self.media += found.media;
        self.bounded += u64::from(found.bound.is_some());
        for feature in case.features() {
            *self.features.entry(feature).or_default() += found.points;
        }
        for (what, cuts) in &found.met {
            *self.met.entry(what).or_default() += cuts;
        }
    }

    fn told(&self, style: Style) -> String {
        let number = |n: u64| count(n as f64);
        let lines = vec![
            ("seed", self.seed.to_string()),
            ("cases", format!("{} to {}", self.from, self.next)),
            ("power cuts", number(self.points)),
            ("recoveries cut", number(self.recoveries_cut)),
            ("fsck runs", number(self.outside)),
            ("lost", number(self.lost)),
            ("corrupt", number(self.corrupt)),
            ("lost by the medium", number(self.media)),
            ("ended early", number(self.bounded)),
        ];
        let mut out = facts(lines, style);
        let columns = [("cuts", Side::Right), ("of", Side::Left)];
        let met = self
            .met
            .iter()
            .map(|(what, cuts)| (format!("with {what}"), cuts));
        let features = self
            .features
            .iter()
            .map(|(name, cuts)| (name.clone(), cuts));
        let row = |(name, cuts): (String, &u64)| vec![number(*cuts), name];
        let rows: Vec<_> = features.chain(met).map(row).collect();
        out.push('\n');
        out += &listing(&columns, &rows, style);
        for (reason, draws) in &self.redrawn {
            out += &format!(
                "\n{} draws could not run and were replaced: {reason}\n",
                number(*draws)
            );
        }
        for (reason, cases) in &self.refused {
            out += &format!("\n{} cases could not be run: {reason}\n", number(*cases));
        }
        for failure in &self.failures {
            let Shrunk {
                fault,
                what,
                repeat,
                smallest,
                ..
            } = failure;
            out += &format!("\n{fault}: {what}\n  {smallest}\n  {repeat}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Told {
        #[command(flatten)]
        soak: Soak,
    }

    fn soak(words: &str) -> Soak {
        let words = std::iter::once("").chain(words.split_whitespace());
        Told::parse_from(words).soak
    }

    #[test]
    fn soak_stops_after_the_current_cut_and_keeps_it() {
        let stop = AtomicBool::new(true);
        let bar = Cases::new(None);
        let watch = Watch { bar, stop: &stop };
        let soak = soak("--points 9");
        let case = Case::draw(Seed(1).child(1));
        let is_stopped = |cut: &dyn Fn(), points| {
            let tried = soak.attempt(&case, &watch, cut);
            matches!(tried, Tried::Stopped(found, _) if found.points == points)
        };
        assert!(is_stopped(&|| (), 0), "it does not begin");
        stop.store(false, Ordering::Relaxed);
        assert!(is_stopped(&|| stop.store(true, Ordering::Relaxed), 1));

        let mut covered = Covered::default();
        let found = Exploration {
            points: 1,
            ..Exploration::default()
        };
        let drawn = |tried| Drawn {
            case: case.clone(),
            tried,
            dropped: vec!["it does not fit".to_owned()],
        };
        let stopped = Tried::Stopped(found.clone(), Vec::new());
        soak.take(&mut covered, 0, drawn(stopped), &watch);
        soak.take(
            &mut covered,
            1,
            drawn(Tried::Explored(found, Vec::new())),
            &watch,
        );
        assert_eq!(covered.redrawn["it does not fit"], 2);
        assert_eq!((covered.points, covered.cases, covered.next), (2, 0, 0));
    }

    #[test]
    fn cuts_are_made_in_whole_batches() {
        let whole = |words| soak(words).whole_batches(200);
        assert_eq!(whole("--points 50"), 800);
        assert_eq!(whole("--points 5"), 240);
    }
}
