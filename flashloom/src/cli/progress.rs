//! A bar for what takes long.

use super::output::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What is done sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Draws per second.
const RATE: u8 = 8;

/// Requests done, over all runs of a command.
pub(crate) struct Meter {
    bar: ProgressBar,
    start: Instant,
    /// Requests done by each run.
    done: Mutex<Vec<u64>>,
}

impl Meter {
    /// A meter for `runs` runs of `requests` together, if that is known. It
    /// shows nothing where standard error is no terminal.
    pub(crate) fn new(runs: usize, requests: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(requests, ProgressDrawTarget::hidden());
        let style = match requests {
            Some(_) => "{bar:40} {percent:>3} % of {human_len} requests, {eta} left",
            None => "{spinner} {human_pos} requests in {elapsed}, {per_sec}",
        };
        bar.set_style(ProgressStyle::with_template(style).expect("the template is sound"));
        Self {
            bar,
            start: Instant::now(),
            done: Mutex::new(vec![0; runs]),
        }
    }

    /// Whether anybody looks.
    pub(crate) fn is_seen() -> bool {
        io::stderr().is_terminal()
    }

    /// Run `index` has completed `ops` requests.
    pub(crate) fn advance(&self, index: usize, ops: u64) {
        if self.bar.is_hidden() && Self::is_seen() && self.start.elapsed() >= PATIENCE {
            self.bar
                .set_draw_target(ProgressDrawTarget::stderr_with_hz(RATE));
        }
        let mut done = self.done.lock().expect("no holder of this lock panics");
        done[index] = ops;
        self.bar.set_position(done.iter().sum());
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Runs done, of many that take long.
pub(crate) struct Runs {
    bar: ProgressBar,
}

impl Runs {
    /// For `count` runs: a bar where standard error is a terminal, a line a run elsewhere.
    pub(crate) fn new(count: usize) -> Self {
        let target = match Meter::is_seen() {
            true => ProgressDrawTarget::stderr_with_hz(RATE),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(u64::try_from(count).ok(), target);
        let style = "{bar:40} {pos} of {len} runs, {elapsed}, {eta} left: {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is sound"));
        Self { bar }
    }

    /// The run called `name` is done.
    pub(crate) fn done(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
            note(&format!("flashloom: {done} of {all}: {name}"));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Programs on memory systems, of which nobody knows beforehand how long they are.
pub(crate) struct Programs {
    bar: ProgressBar,
    /// Of how many runs how many are done.
    runs: (usize, Mutex<usize>),
}

impl Programs {
    /// For `runs` runs: what they have executed where standard error is a terminal, a line a
    /// run elsewhere, if there are several.
    pub(crate) fn new(runs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = "{spinner} {human_pos} instructions in {elapsed}, {per_sec}{msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is sound"));
        if Meter::is_seen() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(RATE));
            // What comes before the first instruction takes time as well.
            bar.enable_steady_tick(Duration::from_secs(1) / RATE.into());
        }
        Self {
            bar,
            runs: (runs, Mutex::new(0)),
        }
    }

    /// So many instructions more.
    pub(crate) fn executed(&self, more: u64) {
        self.bar.inc(more);
    }

    /// A design has run its workload.
    pub(crate) fn done(&self, design: &str, workload: &str) {
        let (all, done) = &self.runs;
        if *all < 2 {
            return;
        }
        let mut done = done.lock().expect("no holder of this lock panics");
        *done += 1;
        self.bar
            .set_message(format!("; {done} of {all} runs, {design} the last"));
        if self.bar.is_hidden() {
            note(&format!("flashloom: {design} has run {workload}"));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Cases that go on until somebody says stop, or until there were so many cuts.
pub(crate) struct Cases {
    bar: ProgressBar,
}

impl Cases {
    /// Until `cuts`, if that is given. Only a terminal sees it.
    pub(crate) fn new(cuts: Option<u64>) -> Self {
        let target = match Meter::is_seen() {
            true => ProgressDrawTarget::stderr_with_hz(RATE),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(cuts, target);
        let style = match cuts {
            Some(_) => {
                "{bar:40} {human_pos} of {human_len} power cuts, {elapsed}, {eta} left: {msg}"
            }
            None => "{spinner} {human_pos} power cuts, {elapsed}: {msg}",
        };
        bar.set_style(ProgressStyle::with_template(style).expect("the template is sound"));
        Self { bar }
    }

    /// How far they have come.
    pub(crate) fn tell(&self, cuts: u64, cases: u64, failures: usize) {
        self.bar
            .set_message(format!("{cases} cases, {failures} failed"));
        self.bar.set_position(cuts);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
