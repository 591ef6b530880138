//! A bar for what takes long.

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
