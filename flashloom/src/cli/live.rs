//! A drive that is served or mounted right now: what it can be asked, and told to do.
//!
//! Invariants: whoever has a drive under power listens at a socket beside its file, which only its
//! owner may use; an answer is about the drive as it is at one instant; nobody who asks can
//! make the clients of the drive wait for longer than the answer takes to be made.

use super::failure::Failure;
use super::output::note;
use super::patience::Until;
use engine::{Device, Fault, Handle, Injected, Late};
use serde::{Deserialize, Serialize};
use ssd::{Cause, Drive, Health, ReadCause};
use std::collections::BTreeMap;
use std::fs::{Permissions, remove_file, set_permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use units::Bytes;

/// How long one who asks may take to say what.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a drive may take to have power again.
const POWER_ON: Duration = Duration::from_secs(120);
/// Longest question, in bytes.
const QUESTION_MAX: u64 = 4096;

/// What can be asked of a served drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// What it does.
    Stats,
    /// Its counters.
    Smart,
    /// Who caused what.
    Why,
    /// To lose its power and get it back.
    Cut,
    /// To have no injected faults.
    Heal,
    /// To fail to read these bytes, from the first to before the last.
    Unreadable(u64, u64),
    /// To fail to write them.
    Unwritable(u64, u64),
    /// To fail each read of which the number is a multiple.
    FailReads(u64),
    /// To turn a bit of each such read.
    FlipReads(u64),
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Answer(serde_json::Value),
    Refusal(String),
}

/// What happens to who serves a drive.
pub(crate) enum Event {
    /// A signal asks the process to end.
    Signal,
    /// The power was cut; takes word of the drive being back.
    Cut(Sender<()>),
}

/// How a drive under power is used, which decides what can be done to it.
pub(crate) enum Use {
    /// Clients connect to it, and connect again after a cut, which is sent here.
    Clients(Sender<Event>),
    /// The kernel has it open as a file.
    File,
    /// A file system is mounted on it, in this process.
    Mounted,
}

impl Use {
    /// Why a cut is refused, if it is.
    fn no_cut(&self) -> String {
        let shown = match self {
            Self::Mounted => "mounted",
            Self::Clients(_) | Self::File => "shown as a file",
        };
        let process = std::process::id();
        format!(
            "a drive that is {shown} loses its power with its process; `kill -9 {process}` cuts it"
        )
    }
}

/// How late answers are, as a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lateness {
    pub(crate) answers: u64,
    /// Of all of them together; what follows is of the last minutes.
    pub(crate) sum_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
    /// In relation to the time of the model.
    pub(crate) median_error: f64,
    pub(crate) p99_error: f64,
}

impl From<Late> for Lateness {
    fn from(late: Late) -> Self {
        Self {
            answers: late.count,
            sum_ns: late.sum.0,
            median_ns: late.median.0,
            p99_ns: late.p99.0,
            max_ns: late.most.0,
            median_error: late.median_error,
            p99_error: late.p99_error,
        }
    }
}

/// What a served drive does: its counters since it has power, and over its life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stats {
    pub(crate) capacity_bytes: u64,
    pub(crate) free_lines: u32,
    /// Bytes since power-on.
    pub(crate) host_read_bytes: u64,
    pub(crate) host_write_bytes: u64,
    pub(crate) host_trim_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) lines_collected: u64,
    pub(crate) stall_ns: u64,
    /// Mapped pages since power-on, by cause.
    pub(crate) programmed_pages: BTreeMap<&'static str, u64>,
    /// Bytes of one of them.
    pub(crate) programmed_page_bytes: u64,
    /// Flash pages since power-on, by cause.
    pub(crate) read_pages: BTreeMap<&'static str, u64>,
    /// Bytes programmed for each byte that hosts wrote, since power-on; none if they wrote
    /// nothing.
    pub(crate) write_amplification: Option<f64>,
    /// Of a drive whose answers are paced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lateness: Option<Lateness>,
    /// Over its life.
    pub(crate) life: Health,
}

/// What `device` does.
///
/// # Errors
/// If it has no power.
pub(super) fn stats(device: &Device) -> Result<Stats, Fault> {
    let life = device.health()?;
    Ok(stats_of(device.drive(), device.capacity(), life))
}

/// What `drive` does, which offers `capacity` bytes.
pub(super) fn stats_of(drive: &Drive, capacity: u64, life: Health) -> Stats {
    let ledger = drive.ledger();
    let programmed = ledger.programmed.iter().map(|pages| pages.iter().sum());
    let named = Cause::ALL.iter().map(|cause| cause.name());
    let programmed_pages: BTreeMap<_, u64> = named.zip(programmed).collect();
    let reads = ReadCause::ALL.iter().map(|cause| cause.name());
    let written = ledger.host_write_sectors * units::SECTOR;
    let bytes = programmed_pages.values().sum::<u64>() * drive.layout().page_bytes();
    Stats {
        capacity_bytes: capacity,
        free_lines: drive.free_lines(),
        host_read_bytes: ledger.host_read_sectors * units::SECTOR,
        host_write_bytes: written,
        host_trim_bytes: ledger.host_trim_sectors * units::SECTOR,
        flushes: ledger.flushes,
        lines_collected: ledger.lines_collected,
        stall_ns: ledger.stall_ns,
        programmed_pages,
        programmed_page_bytes: drive.layout().page_bytes(),
        read_pages: reads.zip(ledger.reads).collect(),
        write_amplification: (written > 0).then(|| bytes as f64 / written as f64),
        lateness: None,
        life,
    }
}

/// Who caused what of a served drive, as a document.
#[derive(Serialize)]
struct Why {
    programmed_pages: BTreeMap<&'static str, u64>,
    shares: BTreeMap<&'static str, f64>,
    read_pages: BTreeMap<&'static str, u64>,
    lines_collected: u64,
    lines_collected_while_a_write_waited: u64,
    /// Valid pages of the lines that were collected, in the mean.
    valid_pages_a_line: Option<f64>,
    stall_ns: u64,
}

fn why(device: &Device) -> Result<Why, Fault> {
    let Stats {
        programmed_pages,
        read_pages,
        lines_collected,
        stall_ns,
        ..
    } = stats(device)?;
    let ledger = device.drive().ledger();
    let all = programmed_pages.values().sum::<u64>().max(1) as f64;
    let share = |(&cause, &pages): (&&'static str, &u64)| (cause, pages as f64 / all);
    let mean = ledger.victim_pages as f64 / lines_collected.max(1) as f64;
    Ok(Why {
        shares: programmed_pages.iter().map(share).collect(),
        programmed_pages,
        read_pages,
        lines_collected,
        lines_collected_while_a_write_waited: ledger.lines_collected_foreground,
        valid_pages_a_line: (lines_collected > 0).then_some(mean),
        stall_ns,
    })
}

/// The drive that is served, while it has power.
#[derive(Clone, Default)]
pub(crate) struct Powered(Arc<Mutex<Option<Handle<Device>>>>);

impl Powered {
    pub(crate) fn set(&self, handle: Option<Handle<Device>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }

    fn handle(&self) -> Result<Handle<Device>, String> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handle
            .clone()
            .ok_or_else(|| "the drive has no power".into())
    }

    /// What `ask` makes of it.
    ///
    /// # Errors
    /// If it has no power.
    pub(super) fn ask<A: Send + 'static>(
        &self,
        ask: impl FnOnce(&Device) -> A + Send + 'static,
    ) -> Result<A, String> {
        let asked = self.handle()?;
        let asked = asked.ask(|device: Rc<Device>| async move { ask(&device) });
        asked.map_err(|gone| gone.to_string())
    }

    /// How late its answers are, if they are paced.
    ///
    /// # Errors
    /// If it has no power.
    pub(super) fn lateness(&self) -> Result<Option<Lateness>, String> {
        let late = self.handle()?.lateness().map_err(|gone| gone.to_string())?;
        Ok(late.map(Lateness::from))
    }

    /// What the drive does.
    ///
    /// # Errors
    /// If it has no power.
    pub(crate) fn stats(&self) -> Result<Stats, String> {
        let stats = self.ask(|device| stats(device).map_err(|fault| fault.to_string()))??;
        let lateness = self.lateness()?;
        Ok(Stats { lateness, ..stats })
    }
}

/// Listens for who asks.
pub(crate) struct Live(PathBuf);

impl Drop for Live {
    fn drop(&mut self) {
        // If it is gone already, all the better.
        let _ = remove_file(&self.0);
    }
}

/// The socket of who serves the drive in the file at `path`.
fn socket(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".live");
    name.into()
}

impl Live {
    /// Answers questions about the drive in the file at `path`, which is under a lock. A drive
    /// that cannot be asked is used all the same.
    pub(crate) fn start(path: &Path, powered: &Powered, used: Use) -> Option<Self> {
        let at = socket(path);
        // Who serves the drive has its lock: a socket that lies there is left by the dead.
        if engine::is_socket(&at) {
            let _ = remove_file(&at);
        }
        let bound = UnixListener::bind(&at).and_then(|listener| {
            set_permissions(&at, Permissions::from_mode(0o600))?;
            let powered = powered.clone();
            let body = move || {
                for stream in listener.incoming().flatten() {
                    // Who does not listen to the answer does not want it.
                    let _ = answer(&stream, &powered, &used);
                }
            };
            thread::Builder::new().name("live".to_owned()).spawn(body)
        });
        match bound {
            Ok(_) => Some(Self(at)),
            Err(error) => {
                note(&format!(
                    "{}: {error}; the drive cannot be asked anything",
                    at.display()
                ));
                None
            }
        }
    }
}

fn answer(stream: &UnixStream, powered: &Powered, used: &Use) -> io::Result<()> {
    let asking = Until::new(stream, PATIENCE);
    let mut line = String::new();
    BufReader::new(asking.take(QUESTION_MAX)).read_line(&mut line)?;
    let told = serde_json::from_str(&line)
        .map_err(|error| error.to_string())
        .and_then(|ask| carry_out(&ask, powered, used));
    let told = match told {
        Ok(answer) => Told::Answer(answer),
        Err(why) => Told::Refusal(why),
    };
    let mut answer = serde_json::to_vec(&told)?;
    answer.push(b'\n');
    Until::new(stream, PATIENCE).write_all(&answer)
}

fn carry_out(ask: &Ask, powered: &Powered, used: &Use) -> Result<serde_json::Value, String> {
    let fault = match *ask {
        Ask::Stats => return document(powered.stats()),
        Ask::Smart => return document(powered.stats().map(|stats| stats.life)),
        Ask::Why => return document(powered.ask(|device| why(device).map_err(|f| f.to_string()))?),
        Ask::Cut => return document(cut(powered, used)),
        _ if matches!(used, Use::Mounted) => {
            return Err("a mounted file system sees no injected faults; \
                        `flashloom serve` lets requests of clients fail"
                .to_owned());
        }
        Ask::Heal => return document(powered.ask(Device::heal)),
        Ask::Unreadable(from, to) => Injected::Unreadable(from..to),
        Ask::Unwritable(from, to) => Injected::Unwritable(from..to),
        Ask::FailReads(every) => Injected::ReadsFail(every),
        Ask::FlipReads(every) => Injected::ReadsFlip(every),
    };
    let injected = powered.ask(move |device| match &fault {
        Injected::Unreadable(range) | Injected::Unwritable(range)
            if range.end > device.capacity() =>
        {
            let end = Bytes(device.capacity());
            Err(format!("expected bytes of the drive, which ends at {end}"))
        }
        _ if device.inject(fault.clone()) => Ok(()),
        _ => Err("there are too many faults".to_owned()),
    })?;
    document(injected)
}

fn document<T: Serialize>(found: Result<T, String>) -> Result<serde_json::Value, String> {
    serde_json::to_value(found?).map_err(|error| error.to_string())
}

/// What a cut took.
#[derive(Serialize, Deserialize)]
pub(crate) struct Back {
    /// Until clients were listened for again.
    pub(crate) off_ns: u64,
}

fn cut(powered: &Powered, used: &Use) -> Result<Back, String> {
    let Use::Clients(tell) = used else {
        return Err(used.no_cut());
    };
    let begun = Instant::now();
    powered.ask(Device::cut)?;
    let (reply, back) = channel();
    tell.send(Event::Cut(reply))
        .map_err(|_| "nobody serves the drive any more")?;
    back.recv_timeout(POWER_ON)
        .map_err(|_| "the drive did not come back")?;
    let off = begun.elapsed().as_nanos();
    Ok(Back {
        off_ns: u64::try_from(off).unwrap_or(u64::MAX),
    })
}

/// Asks whoever serves the drive in the file at `path`.
///
/// # Errors
/// If nobody does, or if it cannot be done.
pub(crate) fn ask(path: &Path, ask: &Ask) -> Result<serde_json::Value, Failure> {
    let nobody = "nobody serves the drive or has it mounted; `flashloom serve` and `flashloom \
                  mount` do";
    ask_if_served(path, ask)?.ok_or_else(|| Failure::at(path, nobody))
}

/// The same; none if nobody serves it, or if who did ended before the answer was there.
///
/// # Errors
/// If it cannot be done.
pub(crate) fn ask_if_served(path: &Path, ask: &Ask) -> Result<Option<serde_json::Value>, Failure> {
    let mut question = serde_json::to_vec(ask)?;
    question.push(b'\n');
    let answer = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket(path))?;
        stream.write_all(&question)?;
        let mut line = String::new();
        BufReader::new(stream).read_to_string(&mut line)?;
        Ok(line)
    };
    let told = answer()
        .ok()
        .and_then(|line| serde_json::from_str(&line).ok());
    match told {
        Some(Told::Answer(answer)) => Ok(Some(answer)),
        Some(Told::Refusal(why)) => Err(Failure::at(path, why)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_lines_and_answers_say_what_is_wrong() {
        for ask in [Ask::Stats, Ask::Unreadable(0, 512), Ask::FlipReads(500)] {
            let line = serde_json::to_string(&ask).expect("a line");
            assert_eq!(serde_json::from_str::<Ask>(&line).expect("the same"), ask);
        }
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        for (question, said) in [
            ("\"stats\"\n", "the drive has no power"),
            ("\"cut\"\n", "loses its power with its process"),
            ("nonsense\n", "expected"),
        ] {
            (&ours).write_all(question.as_bytes()).expect("asked");
            answer(&theirs, &Powered::default(), &Use::File).expect("answered");
            let mut line = String::new();
            BufReader::new(&ours)
                .read_line(&mut line)
                .expect("an answer");
            assert!(
                line.starts_with("{\"refusal\":") && line.contains(said),
                "{line}"
            );
        }
    }
    #[test]
    fn who_ends_before_it_answers_serves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d.flash");
        let asked = || ask_if_served(&path, &Ask::Smart).expect("asked");
        assert!(asked().is_none(), "there is no socket");
        let listener = UnixListener::bind(socket(&path)).expect("a socket");
        let ends = thread::spawn(move || {
            for said in [&b""[..], b"{\"answer\":"] {
                let (mut stream, _) = listener.accept().expect("somebody asks");
                // What was not read resets the connection.
                stream.write_all(said).expect("said");
            }
        });
        assert!(asked().is_none() && asked().is_none());
        ends.join().expect("ended");
        assert!(asked().is_none(), "nobody listens");
    }
}
