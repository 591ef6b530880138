//! Bars for what takes long.
//!
//! Invariants: one bar is drawn at a time, on standard error, and only where that is a terminal;
//! none before [`PATIENCE`] is over, and from then on one stands and moves in any case, also
//! while nothing can be counted yet.

use super::output::note;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget};
use indicatif::{ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What is done sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Draws per second.
const RATE: u8 = 8;

/// The bar that is drawn. Whoever writes beside it holds it meanwhile.
static STANDING: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn standing() -> MutexGuard<'static, Option<ProgressBar>> {
    // What stands is not worth a second panic.
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether anybody looks, at a terminal that can draw.
pub(crate) fn is_seen() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// Lets `say` write to standard error, above the bar if one stands.
pub(crate) fn aside(say: impl FnOnce()) {
    match &*standing() {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}

/// Does `work`, with words for who waits for it.
pub(crate) fn during<T>(words: &str, work: impl FnOnce() -> T) -> T {
    let bar = Bar::new(None, "{spinner} {msg}, {elapsed}", "");
    bar.bar.set_message(words.to_owned());
    let made = work();
    bar.finish();
    made
}

/// A bar that stands when its time has come.
struct Bar {
    bar: ProgressBar,
    /// How it looks once anything was counted.
    counting: String,
    is_counting: AtomicBool,
}

impl Bar {
    /// Of `length`, if that is known; it looks like `before` until anything is counted.
    fn new(length: Option<u64>, before: &str, counting: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        bar.set_style(style(before));
        if is_seen() {
            let later = bar.clone();
            // Without a thread there is no bar, which costs no result.
            let _ = thread::Builder::new().spawn(|| stand(later));
        }
        Self {
            bar,
            counting: counting.into(),
            is_counting: AtomicBool::new(false),
        }
    }

    /// Something is counted: whether it is the first.
    fn counts(&self) -> bool {
        let is_first = !self.is_counting.swap(true, Ordering::Relaxed);
        if is_first {
            self.bar.set_style(style(&self.counting));
        }
        is_first
    }

    /// So many more: whether they are the first.
    fn add(&self, more: u64) -> bool {
        self.bar.inc(more);
        self.counts()
    }

    /// Takes it away.
    fn finish(&self) {
        let mut standing = standing();
        self.bar.finish_and_clear();
        *standing = None;
    }
}

/// Draws `bar` when its time has come, if its work is not done by then.
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

/// What was counted in a second, of all of its time.
fn rate(state: &ProgressState, out: &mut dyn Write) {
    let rate = state.pos() as f64 / state.elapsed().as_secs_f64();
    // There is nowhere to tell of a bar that cannot be written.
    let _ = write!(out, "{}", HumanCount(rate.round() as u64));
}

/// The time that the rest takes if it goes on as it went.
fn left(state: &ProgressState, out: &mut dyn Write) {
    let rest = state.len().unwrap_or_default().saturating_sub(state.pos());
    let left = state.elapsed().as_secs_f64() * rest as f64 / state.pos().max(1) as f64;
    let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
    let _ = write!(out, "{:#}", HumanDuration(left));
}

/// Requests done, over all runs of a command.
pub(crate) struct Meter {
    bar: Bar,
    /// Requests done by each run that has begun.
    done: Mutex<Vec<Option<u64>>>,
}

impl Meter {
    /// A meter for `runs` runs, which count `what`, so many of `length` together, if that is
    /// known.
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

    /// Run `index` has begun, and counted `ops`.
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
        // One run is as fast as it is without what came before it.
        if self.bar.counts() && done.len() == 1 {
            self.bar.bar.reset_elapsed();
        }
        self.bar.bar.set_position(all);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}

/// Which of several runs is the last that has begun.
fn whereabouts(done: &[Option<u64>]) -> String {
    let Some(last) = done.iter().rposition(Option::is_some) else {
        return String::new();
    };
    let others = done.iter().flatten().any(|&ops| ops > 0);
    let prepares = match done[last] {
        Some(0) if others => ", which prepares its drive",
        _ => "",
    };
    format!("; run {} of {}{prepares}", last + 1, done.len())
}

/// Runs done, of many that take long.
pub(crate) struct Runs(Bar);

impl Runs {
    /// For `count` runs: a bar where standard error is a terminal, a line a run elsewhere.
    pub(crate) fn new(count: usize) -> Self {
        let before = "{bar:40} {pos} of {len} runs, {elapsed}";
        let counting = "{bar:40} {pos} of {len} runs, {elapsed}, {left} left: {msg}";
        Self(Bar::new(u64::try_from(count).ok(), before, counting))
    }

    /// The run called `name` is done.
    pub(crate) fn done(&self, name: &str) {
        let bar = &self.0.bar;
        bar.set_message(name.to_owned());
        self.0.add(1);
        if !is_seen() {
            let (done, all) = (bar.position(), bar.length().unwrap_or_default());
            note(&format!("flashloom: {done} of {all}: {name}"));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish();
    }
}

/// Programs on memory systems, of which nobody knows beforehand how long they are.
pub(crate) struct Programs {
    bar: Bar,
    /// Of how many runs how many are done.
    runs: (usize, Mutex<usize>),
}

impl Programs {
    /// For `runs` runs: what they have executed where standard error is a terminal, a line a
    /// run elsewhere, if there are several.
    pub(crate) fn new(runs: usize) -> Self {
        let before = "{spinner} preparing the program, {elapsed}";
        let counting = "{spinner} {human_pos} instructions in {elapsed}, {rate}/s{msg}";
        Self {
            bar: Bar::new(None, before, counting),
            runs: (runs, Mutex::new(0)),
        }
    }

    /// So many instructions more.
    pub(crate) fn executed(&self, more: u64) {
        if self.bar.add(more) {
            self.bar.bar.reset_elapsed();
        }
    }

    /// A design has run its workload.
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

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}

/// Cases that go on until somebody says stop, or until there were so many cuts.
pub(crate) struct Cases {
    bar: Bar,
    /// Cases that were tried, and those of them that failed.
    tried: Mutex<(u64, u64)>,
}

impl Cases {
    /// Of about `cuts`, if there is an end.
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

    /// The power was cut once more.
    pub(crate) fn cut(&self) {
        self.bar.add(1);
    }

    /// A case was tried.
    pub(crate) fn tried(&self, failed: bool) {
        let mut tried = self.tried.lock().expect("no holder of this lock panics");
        tried.0 += 1;
        tried.1 += u64::from(failed);
        let (cases, failures) = *tried;
        let told = format!(": {cases} cases, {failures} failed");
        self.bar.bar.set_message(told);
    }

    /// The case of this number has failed.
    pub(crate) fn shrinks(&self, number: u64) {
        let told = format!(": case {number} has failed and is made small");
        self.bar.bar.set_message(told);
    }

    /// Takes the bar away.
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

    /// A terminal of one line.
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

    /// What `bar` shows after so many seconds.
    fn shown(bar: &Bar, seconds: u64) -> String {
        let line = Line::default();
        let target = ProgressDrawTarget::term_like(Box::new(line.clone()));
        bar.bar.set_draw_target(target);
        bar.bar.set_elapsed(Duration::from_secs(seconds));
        bar.bar.force_draw();
        line.0.lock().unwrap().trim().to_owned()
    }

    #[test]
    fn a_run_is_prepared_and_then_has_its_share_of_what_is_known() {
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
    fn of_several_runs_it_is_told_which() {
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
            said.ends_with("; run 2 of 6, which prepares its drive"),
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
