//! The page of a run: live while it runs, and with its report afterwards.
//!
//! Invariants: a run is the same with and without a page: counters are read between two of its
//! events, and pictures are made of them here. A viewer gets a picture from memory, without waiting
//! for the simulation. The moments are the same for the same run.

use super::failure::Failure;
use super::http::{self, Reply};
use super::live::{Stats, stats_of};
use super::output::note;
use super::{serve, ui};
use engine::Signals;
use report::page::POLICY;
use report::record::Latency;
use serde::Serialize;
use ssd::{Cause, Health};
use stack::{Sight, StackName};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wall time between two pictures.
const PACE: Duration = Duration::from_millis(250);
/// Most moments that are kept: beyond this every other one is dropped.
const MOMENTS: usize = 240;

/// Counters of a run at one moment, since its first request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Moment {
    /// Virtual time since the start, ns.
    at_ns: u64,
    /// Requests completed, and the sum of their latencies.
    ops: u64,
    latency_sum_ns: f64,
    /// Bytes read and written between host and drive.
    read_bytes: u64,
    write_bytes: u64,
    /// Bytes programmed, by cause.
    programmed_bytes: BTreeMap<&'static str, u64>,
}

impl Moment {
    fn now(sight: &Sight<'_>, latency: &Latency) -> Self {
        let (progress, traffic) = (sight.progress(), sight.device().ledger());
        let drive = sight.device().drive();
        let (ledger, page) = (drive.ledger(), drive.layout().page_bytes());
        let programmed = |cause: &Cause| (cause.name(), ledger.by_cause(*cause) * page);
        Self {
            at_ns: progress.sim_time.0,
            ops: progress.ops,
            latency_sum_ns: latency.mean * latency.count as f64,
            read_bytes: traffic.read_bytes(),
            write_bytes: traffic.write_bytes(),
            programmed_bytes: Cause::ALL.iter().map(programmed).collect(),
        }
    }

    /// The counters relative to those of `first`.
    fn since(mut self, first: &Self) -> Self {
        self.read_bytes -= first.read_bytes;
        self.write_bytes -= first.write_bytes;
        for (cause, bytes) in &mut self.programmed_bytes {
            *bytes -= first.programmed_bytes[cause];
        }
        self
    }
}

/// A bounded number of moments of a run, at growing distances.
#[derive(Default)]
struct Moments {
    first: Moment,
    kept: Vec<Moment>,
    /// Observations skipped between two kept moments, and observations since the last one.
    stride: u32,
    looks: u32,
}

impl Moments {
    /// Whether this observation is to be kept.
    fn is_due(&mut self) -> bool {
        self.looks += 1;
        self.looks > self.stride || self.kept.is_empty()
    }

    /// Keeps `moment`, and returns it relative to the first one.
    fn keep(&mut self, moment: Moment) -> Moment {
        self.looks = 0;
        if self.kept.is_empty() {
            (self.first, self.stride) = (moment.clone(), 0);
        }
        if self.kept.len() == MOMENTS {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride = 2 * self.stride + 1;
        }
        let moment = moment.since(&self.first);
        self.kept.push(moment.clone());
        moment
    }
}

/// A run, shown beside the picture of its drive.
#[derive(Serialize)]
struct OfRun<'a> {
    stack: &'a str,
    workload: &'a str,
    /// Whether the run is done and has its report.
    done: bool,
    latency_ns: Quantiles,
    moments: Vec<&'a Moment>,
}

/// Latency quantiles of all completed requests, ns.
#[derive(Clone, Copy, Serialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

impl Quantiles {
    const fn of(latency: &Latency) -> Self {
        Self {
            p50: latency.p50,
            p99: latency.p99,
            p99_9: latency.p99_9,
            max: latency.max,
        }
    }
}

/// The picture of a drive and of the run on it.
#[derive(Serialize)]
struct Picture<'a> {
    #[serde(flatten)]
    drive: &'a ui::Picture,
    run: OfRun<'a>,
}

/// Documents that viewers get.
#[derive(Default)]
struct Shown {
    picture: Option<String>,
    /// The report, once the run is done.
    report: Option<String>,
}

/// The page of one run.
pub(crate) struct Page {
    stack: String,
    workload: String,
    place: String,
    shown: Arc<Mutex<Shown>>,
    /// Receives signals once the run is done.
    told: Receiver<()>,
    moments: Moments,
    last: Option<Last>,
}

/// The last picture, before serialization.
struct Last {
    drawn: Instant,
    drive: ui::Picture,
    latency: Quantiles,
    now: Moment,
}

impl Page {
    /// Opens the page of a run of `workload` on `stack` at `address`. Until the run is done, a
    /// signal ends the process with its usual exit status. Must be called before any other thread
    /// starts.
    ///
    /// # Errors
    /// If the address is not available.
    pub(crate) fn open(
        address: SocketAddr,
        stack: &StackName,
        workload: &str,
    ) -> Result<Self, Failure> {
        let listener = serve::bind(address)?;
        let place = format!("http://{}/", listener.local_addr()?);
        let shown = Arc::<Mutex<Shown>>::default();
        let (tell, told) = channel();
        let seen = Arc::clone(&shown);
        Signals::hold()?.watch(move |signal| {
            if held(&seen).report.is_none() {
                std::process::exit(Signals::status(signal).into());
            }
            tell.send(()).is_ok()
        })?;
        let seen = Arc::clone(&shown);
        http::serve("ui", listener, move |request| reply(request, &held(&seen)))?;
        note(&format!("flashloom: the page is at {place}"));
        Ok(Self {
            stack: stack.to_string(),
            workload: workload.to_owned(),
            place,
            shown,
            told,
            moments: Moments::default(),
            last: None,
        })
    }

    /// Updates the picture, if it is due.
    ///
    /// # Errors
    /// If the drive's flash has no rated cycles, which the check of a plan rules out.
    pub(crate) fn see(&mut self, sight: &Sight<'_>) -> Result<(), Failure> {
        let is_kept = self.moments.is_due() || sight.is_done();
        let is_new = |last: &Last| last.drawn.elapsed() < PACE;
        if !is_kept && self.last.as_ref().is_some_and(is_new) {
            return Ok(());
        }
        let latency = sight.latencies().all;
        let moment = Moment::now(sight, &latency);
        let now = match is_kept {
            true => self.moments.keep(moment),
            false => moment.since(&self.moments.first),
        };
        self.last = Some(Last {
            drawn: Instant::now(),
            drive: picture(sight, &now)?,
            latency: Quantiles::of(&latency),
            now,
        });
        self.show(None)
    }

    /// Publishes the last picture, and `report` if the run is done.
    fn show(&self, report: Option<String>) -> Result<(), Failure> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        let kept = &self.moments.kept;
        let now = kept.last().is_none_or(|kept| *kept != last.now);
        let picture = Picture {
            drive: &last.drive,
            run: OfRun {
                stack: &self.stack,
                workload: &self.workload,
                done: report.is_some(),
                latency_ns: last.latency,
                moments: kept.iter().chain(now.then_some(&last.now)).collect(),
            },
        };
        let picture = Some(serde_json::to_string(&picture)?);
        *held(&self.shown) = Shown { picture, report };
        Ok(())
    }

    /// Publishes the `report` of the finished run, and waits for a signal.
    ///
    /// # Errors
    /// If the thread that handles signals has ended.
    pub(crate) fn stay(self, report: String) -> Result<(), Failure> {
        self.show(Some(report))?;
        let place = &self.place;
        note(&format!(
            "flashloom: the run has ended; its page stays at {place} until this command is \
             interrupted"
        ));
        Ok(self.told.recv()?)
    }
}

/// The picture of the drive in `sight`; bytes are counted from the first request to `now`.
fn picture(sight: &Sight<'_>, now: &Moment) -> Result<ui::Picture, Failure> {
    let drive = sight.device().drive();
    let life = Health::of(drive, drive.smart())?;
    let (read, written) = (now.read_bytes, now.write_bytes);
    let programmed: u64 = now.programmed_bytes.values().sum();
    let stats = Stats {
        host_read_bytes: read,
        host_write_bytes: written,
        write_amplification: (written > 0).then(|| programmed as f64 / written as f64),
        ..stats_of(drive, drive.capacity().0, life)
    };
    Ok(ui::Picture::of(drive, stats))
}

fn held(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reply(request: &str, shown: &Shown) -> Reply {
    let there = |what: &Option<String>, why: &str| what.clone().ok_or_else(|| why.to_owned());
    if http::path(request) != Some("/report") {
        let picture = || there(&shown.picture, "the drive is being prepared");
        return ui::reply(request, &picture);
    }
    match there(&shown.report, "the run goes on") {
        Ok(report) => Reply {
            policy: POLICY,
            ..Reply::found("text/html; charset=utf-8", report)
        },
        Err(why) => Reply::text("503 Service Unavailable", why + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stay_few_at_equal_distances() {
        let mut moments = Moments::default();
        for look in 0..10_000 {
            if moments.is_due() {
                let at_ns = look;
                moments.keep(Moment {
                    at_ns,
                    ..Moment::default()
                });
            }
        }
        let kept: Vec<u64> = moments.kept.iter().map(|moment| moment.at_ns).collect();
        assert!(
            (MOMENTS / 2..=MOMENTS).contains(&kept.len()),
            "{}",
            kept.len()
        );
        assert_eq!(kept[..3], [0, 64, 128]);
        assert!(kept.windows(2).all(|pair| pair[1] - pair[0] == 64));
    }

    #[test]
    fn a_report_is_there_once_the_run_is_done() {
        let status = |path: &str, shown: &Shown| reply(&format!("GET {path} x"), shown).status;
        let mut shown = Shown::default();
        for path in ["/live.json", "/report"] {
            assert_eq!(status(path, &shown), "503 Service Unavailable", "{path}");
        }
        shown.report = Some("<p>done</p>".to_owned());
        let report = reply("GET /report x", &shown);
        assert_eq!((report.status, report.policy), ("200 OK", POLICY));
        assert_eq!(status("/", &shown), "200 OK");
    }
}
