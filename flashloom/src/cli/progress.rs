//! Progress bars for long operations.
//!
//! Invariants: one bar is drawn at a time, on standard error, and only if that is a terminal. No
//! bar appears before [`PATIENCE`] has passed; afterwards one is always visible and moves, even
//! while nothing can be counted yet.

use super::output::note;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget};
use indicatif::{ProgressState, ProgressStyle};
use report::human;
use stack::Progress;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// An operation that takes less needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Redraws of the bar per second.
const RATE: u8 = 8;

/// The visible bar. Code that writes to standard error holds the lock meanwhile.
static STANDING: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn standing() -> MutexGuard<'static, Option<ProgressBar>> {
    // After a panic the state of the bar is not worth a second panic.
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether standard error is a terminal that can draw bars.
pub(crate) fn is_seen() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// Calls `say`, which may write to standard error, with the bar hidden meanwhile.
pub(crate) fn aside(say: impl FnOnce()) {
    match &*standing() {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}

/// Does `work`, and shows `words` while the user waits for it.
pub(crate) fn during<T>(words: &str, work: impl FnOnce() -> T) -> T {
    let bar = Bar::new(None, "{spinner} {msg}, {elapsed}", "");
    bar.bar.set_message(words.to_owned());
    let made = work();
    bar.finish();
    made
}

/// A bar that becomes visible after [`PATIENCE`].
struct Bar {
    bar: ProgressBar,
    /// Template of the bar once anything was counted.
    counting: String,
    is_counting: AtomicBool,
}

impl Bar {
    /// A bar of `length`, if known, with the template `before` until anything is counted.
    fn new(length: Option<u64>, before: &str, counting: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        bar.set_style(style(before));
        if is_seen() {
            let later = bar.clone();
            // Without a thread there is no bar, but the result is not affected.
            let _ = thread::Builder::new().spawn(|| stand(later));
        }
        Self {
            bar,
            counting: counting.into(),
            is_counting: AtomicBool::new(false),
        }
    }

    /// Notes that counting goes on; returns whether this is the first time.
    fn counts(&self) -> bool {
        let is_first = !self.is_counting.swap(true, Ordering::Relaxed);
        if is_first {
            self.bar.set_style(style(&self.counting));
        }
        is_first
    }

    /// Adds `more` to the count; returns whether this is the first time.
    fn add(&self, more: u64) -> bool {
        self.bar.inc(more);
        self.counts()
    }

    /// Removes the bar from the terminal.
    fn finish(&self) {
        let mut standing = standing();
        self.bar.finish_and_clear();
        *standing = None;
    }
}

/// Shows `bar` after [`PATIENCE`], unless its work is done by then.
fn stand(bar: ProgressBar) {
    thread::sleep(PATIENCE);
    let mut standing = standing();
    if bar.is_finished() {
        return;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(RATE));
    bar.enable_steady_tick(Duration::from_secs(1) / RATE.into());
    *standing = Some(bar);
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    style.with_key("rate", rate).with_key("left", left)
}

/// Writes the mean count per second.
fn rate(state: &ProgressState, out: &mut dyn Write) {
    let rate = state.pos() as f64 / state.elapsed().as_secs_f64();
    // A failure to write a bar cannot be reported anywhere.
    let _ = write!(out, "{}", HumanCount(rate.round() as u64));
}

/// Writes the time left at the mean rate so far.
fn left(state: &ProgressState, out: &mut dyn Write) {
    let rest = state.len().unwrap_or_default().saturating_sub(state.pos());
    let left = state.elapsed().as_secs_f64() * rest as f64 / state.pos().max(1) as f64;
    let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
    let _ = write!(out, "{:#}", HumanDuration(left));
}

/// Counts requests over all runs of a command.
pub(crate) struct Meter {
    bar: Bar,
    /// Requests of each run; `None` before it starts.
    done: Mutex<Vec<Option<u64>>>,
}

impl Meter {
    /// A meter for `runs` runs, which count `what`, `length` of them in total if that is known.
    pub(crate) fn new(runs: usize, length: Option<u64>, what: &str) -> Self {
        let counting = match length {
            Some(_) => {
                format!("{{bar:30}} {{percent:>3}} % of {{human_len}} {what}, {{left}} left{{msg}}")
            }
            None => format!("{{spinner}} {{human_pos}} {what} in {{elapsed}}, {{rate}}/s{{msg}}"),
        };
        let before = "{spinner} preparing the drive, {elapsed}{msg}";
        Self {
            bar: Bar::new(length, before, counting),
            done: Mutex::new(vec![None; runs]),
        }
    }

    /// Notes that run `index` has started, and has counted `ops`.
    pub(crate) fn advance(&self, index: usize, ops: u64) {
        let mut done = self.done.lock().expect("no holder of this lock panics");
        done[index] = Some(ops);
        if done.len() > 1 {
            self.bar.bar.set_message(whereabouts(&done));
        }
        let all = done.iter().flatten().sum();
        if all == 0 {
            return;
        }
        // The rate of a single run excludes the preparation before it.
        if self.bar.counts() && done.len() == 1 {
            self.bar.bar.set_message("");
            self.bar.bar.reset_elapsed();
        }
        self.bar.bar.set_position(all);
    }

    /// Notes the progress of run `index`, or of the use of its stack before it.
    pub(crate) fn hear(&self, index: usize, progress: &Progress) {
        self.advance(index, progress.ops);
        let Some(written) = progress.past else { return };
        let whole = self
            .done
            .lock()
            .expect("no holder of this lock panics")
            .len();
        let written = human::bytes(written as f64);
        let uses = match progress.windows {
            0 => format!("filling the file system, {written} written"),
            windows => format!("using the file system, {written} written, {windows} windows"),
        };
        self.bar.bar.set_message(match whole {
            1 => format!(": {uses}"),
            _ => format!("; run {} of {whole}: {uses}", index + 1),
        });
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}

/// Names the last of several runs that has started.
fn whereabouts(done: &[Option<u64>]) -> String {
    let Some(last) = done.iter().rposition(Option::is_some) else {
        return String::new();
    };
    let others = done.iter().flatten().any(|&ops| ops > 0);
    let prepares = match done[last] {
        Some(0) if others => ", preparing its drive",
        _ => "",
    };
    format!("; run {} of {}{prepares}", last + 1, done.len())
}

/// Counts finished runs, of many long ones.
pub(crate) struct Runs(Bar);

impl Runs {
    /// A counter for `count` runs: a bar if standard error is a terminal, else a line for each run.
    pub(crate) fn new(count: usize) -> Self {
        let before = "{bar:40} {pos} of {len} runs, {elapsed}";
        let counting = "{bar:40} {pos} of {len} runs, {elapsed}, {left} left: {msg}";
        Self(Bar::new(u64::try_from(count).ok(), before, counting))
    }

    /// Notes that the run called `name` is done.
    pub(crate) fn done(&self, name: &str) {
        let bar = &self.0.bar;
        bar.set_message(name.to_owned());
        self.0.add(1);
        if !is_seen() {
            let (done, all) = (bar.position(), bar.length().unwrap_or_default());
            note(&format!("flashloom: {done} of {all}: {name}"));
        }
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        self.0.finish();
    }
}

/// Progress of programs on memory systems, whose length is unknown beforehand.
pub(crate) struct Programs {
    bar: Bar,
    /// Number of all runs, and of those done.
    runs: (usize, Mutex<usize>),
}

impl Programs {
    /// A counter for `runs` runs: instructions executed if standard error is a terminal, else a
    /// line for each run, if there are several.
    pub(crate) fn new(runs: usize) -> Self {
        let before = "{spinner} preparing the program, {elapsed}";
        let counting = "{spinner} {human_pos} instructions in {elapsed}, {rate}/s{msg}";
        Self {
            bar: Bar::new(None, before, counting),
            runs: (runs, Mutex::new(0)),
        }
    }

    /// Adds `more` executed instructions.
    pub(crate) fn executed(&self, more: u64) {
        if self.bar.add(more) {
            self.bar.bar.reset_elapsed();
        }
    }

    /// Notes that `design` has run `workload`.
    pub(crate) fn done(&self, design: &str, workload: &str) {
        let (all, done) = &self.runs;
        if *all < 2 {
            return;
        }
        let mut done = done.lock().expect("no holder of this lock panics");
        *done += 1;
        let last = format!("; {done} of {all} runs, {design} the last");
        self.bar.bar.set_message(last);
        if !is_seen() {
            note(&format!("flashloom: {design} has run {workload}"));
        }
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}

/// Progress of cases that continue until the user stops them, or until a number of power cuts.
pub(crate) struct Cases {
    bar: Bar,
    /// Number of cases tried, and of those that failed.
    tried: Mutex<(u64, u64)>,
}

impl Cases {
    /// A counter for about `cuts` power cuts; `None` for no end.
    pub(crate) fn new(cuts: Option<u64>) -> Self {
        let counting = match cuts {
            Some(_) => {
                "{bar:30} {human_pos} of about {human_len} power cuts, {elapsed}, {left} left{msg}"
            }
            None => "{spinner} {human_pos} power cuts, {elapsed}{msg}",
        };
        Self {
            bar: Bar::new(
                cuts,
                "{spinner} preparing the first cases, {elapsed}",
                counting,
            ),
            tried: Mutex::default(),
        }
    }

    /// Counts a power cut.
    pub(crate) fn cut(&self) {
        self.bar.add(1);
    }

    /// Counts a case, and its failure.
    pub(crate) fn tried(&self, failed: bool) {
        let mut tried = self.tried.lock().expect("no holder of this lock panics");
        tried.0 += 1;
        tried.1 += u64::from(failed);
        let (cases, failures) = *tried;
        let told = format!(": {cases} cases, {failures} failed");
        self.bar.bar.set_message(told);
    }

    /// Notes that the failed case `number` is being shrunk.
    pub(crate) fn shrinks(&self, number: u64) {
        let told = format!(": case {number} failed; reducing it");
        self.bar.bar.set_message(told);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Arc;

    /// A fake terminal of one line.
    #[derive(Clone, Debug, Default)]
    struct Line(Arc<Mutex<String>>);

    impl TermLike for Line {
        fn width(&self) -> u16 {
            200
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The line of `bar` after this many seconds.
    fn shown(bar: &Bar, seconds: u64) -> String {
        let line = Line::default();
        let target = ProgressDrawTarget::term_like(Box::new(line.clone()));
        bar.bar.set_draw_target(target);
        bar.bar.set_elapsed(Duration::from_secs(seconds));
        bar.bar.force_draw();
        line.0.lock().unwrap().trim().to_owned()
    }

    #[test]
    fn meter_shows_preparation_then_the_share_of_requests() {
        let meter = Meter::new(1, Some(2000), "requests");
        meter.advance(0, 0);
        let said = shown(&meter.bar, 5);
        assert!(said.ends_with("preparing the drive, 5s"), "{said}");
        meter.advance(0, 500);
        let said = shown(&meter.bar, 7);
        assert!(
            said.ends_with(" 25 % of 2,000 requests, 21s left"),
            "{said}"
        );
        meter.finish();
        assert_eq!(shown(&meter.bar, 8), "");
    }

    #[test]
    fn meter_of_several_runs_names_the_current_one() {
        let meter = Meter::new(6, None, "requests");
        meter.advance(0, 0);
        let said = shown(&meter.bar, 5);
        assert!(
            said.ends_with("preparing the drive, 5s; run 1 of 6"),
            "{said}"
        );
        meter.advance(0, 500);
        let said = shown(&meter.bar, 17);
        assert!(
            said.ends_with("500 requests in 17s, 29/s; run 1 of 6"),
            "{said}"
        );
        meter.advance(1, 0);
        let said = shown(&meter.bar, 17);
        assert!(
            said.ends_with("; run 2 of 6, preparing its drive"),
            "{said}"
        );
    }

    #[test]
    fn a_program_is_made_before_it_executes_anything() {
        let programs = Programs::new(2);
        let said = shown(&programs.bar, 3);
        assert!(said.ends_with("preparing the program, 3s"), "{said}");
        programs.executed(65_536);
        let said = shown(&programs.bar, 2);
        assert!(
            said.ends_with("65,536 instructions in 2s, 32,768/s"),
            "{said}"
        );
    }

    #[test]
    fn cuts_are_counted_as_they_are_made() {
        let cases = Cases::new(Some(800));
        cases.cut();
        cases.cut();
        cases.tried(true);
        let said = shown(&cases.bar, 2);
        let told = "2 of about 800 power cuts, 2s, 13m left: 1 cases, 1 failed";
        assert!(said.ends_with(told), "{said}");
    }
}
