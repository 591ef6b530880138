//! Control of a drive that is being served or mounted: queries and commands.
//!
//! Invariants: the process that has a drive under power listens on a socket beside its file, which
//! only the owner may use. An answer is about the drive at one instant. A client of the socket
//! delays those of the drive for no longer than the answer takes to make.

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

/// Longest time for a client to send its question.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest time for a drive to be powered on again.
const POWER_ON: Duration = Duration::from_secs(120);
/// Largest question, in bytes.
const QUESTION_MAX: u64 = 4096;

/// A question or command for a served drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Query the activity of the drive.
    Stats,
    /// Query the counters of the drive's life.
    Smart,
    /// Query the causes of programs and reads.
    Why,
    /// Cut the power, and restore it.
    Cut,
    /// Remove all injected faults.
    Heal,
    /// Fail reads of the bytes from the first up to, not including, the second.
    Unreadable(u64, u64),
    /// Fail writes to the bytes from the first up to, not including, the second.
    Unwritable(u64, u64),
    /// Fail every read whose number is a multiple of this.
    FailReads(u64),
    /// Flip a bit in every read whose number is a multiple of this.
    FlipReads(u64),
}

/// The reply to a question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Answer(serde_json::Value),
    Refusal(String),
}

/// An event for the process that serves a drive.
pub(crate) enum Event {
    /// A signal that should end the process.
    Signal,
    /// The power was cut; the sender reports that the drive is back.
    Cut(Sender<()>),
}

/// The kind of use of a drive under power, which determines the commands that are possible.
pub(crate) enum Use {
    /// Clients connect to it, and reconnect after a cut, which is sent here.
    Clients(Sender<Event>),
    /// The kernel has the drive open as a file.
    File,
    /// A file system on the drive is mounted, in this process.
    Mounted,
}

impl Use {
    /// The reason why a cut is refused for this use.
    fn no_cut(&self) -> String {
        let shown = match self {
            Self::Mounted => "mounted",
            Self::Clients(_) | Self::File => "shown as a file",
        };
        let process = std::process::id();
        format!(
            "the power of a drive that is {shown} ends with its process; to cut it, run `kill -9 \
             {process}`"
        )
    }
}

/// Delays of answers beyond the model's time, for a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lateness {
    pub(crate) answers: u64,
    /// Sum over all answers; the values below cover the last minutes.
    pub(crate) sum_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
    /// Relative to the time of the model.
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

/// Activity of a served drive: its counters since power-on, and over its life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stats {
    pub(crate) capacity_bytes: u64,
    pub(crate) free_lines: u32,
    /// Bytes read since power-on; the counters below cover that time, too.
    pub(crate) host_read_bytes: u64,
    pub(crate) host_write_bytes: u64,
    pub(crate) host_trim_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) lines_collected: u64,
    pub(crate) stall_ns: u64,
    /// Mapped pages programmed since power-on, by cause.
    pub(crate) programmed_pages: BTreeMap<&'static str, u64>,
    /// Bytes of one mapped page.
    pub(crate) programmed_page_bytes: u64,
    /// Flash pages read since power-on, by cause.
    pub(crate) read_pages: BTreeMap<&'static str, u64>,
    /// Bytes programmed for each byte that hosts wrote, since power-on; `None` if they wrote
    /// nothing.
    pub(crate) write_amplification: Option<f64>,
    /// Delays of answers; only for a drive whose answers are paced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lateness: Option<Lateness>,
    /// Counters over the drive's life.
    pub(crate) life: Health,
}

/// The activity of `device`.
///
/// # Errors
/// If the device has no power.
pub(super) fn stats(device: &Device) -> Result<Stats, Fault> {
    let life = device.health()?;
    Ok(stats_of(device.drive(), device.capacity(), life))
}

/// The activity of `drive`, which offers `capacity` bytes.
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

/// The causes of programs and reads of a served drive, for a document.
#[derive(Serialize)]
struct Why {
    programmed_pages: BTreeMap<&'static str, u64>,
    shares: BTreeMap<&'static str, f64>,
    read_pages: BTreeMap<&'static str, u64>,
    lines_collected: u64,
    lines_collected_while_a_write_waited: u64,
    /// Mean number of valid pages in the collected lines.
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

/// The served drive, while it has power.
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

    /// The result of `ask` on the drive.
    ///
    /// # Errors
    /// If the drive has no power.
    pub(super) fn ask<A: Send + 'static>(
        &self,
        ask: impl FnOnce(&Device) -> A + Send + 'static,
    ) -> Result<A, String> {
        let asked = self.handle()?;
        let asked = asked.ask(|device: Rc<Device>| async move { ask(&device) });
        asked.map_err(|gone| gone.to_string())
    }

    /// Delays of the drive's answers; `None` if they are not paced.
    ///
    /// # Errors
    /// If the drive has no power.
    pub(super) fn lateness(&self) -> Result<Option<Lateness>, String> {
        let late = self.handle()?.lateness().map_err(|gone| gone.to_string())?;
        Ok(late.map(Lateness::from))
    }

    /// The activity of the drive.
    ///
    /// # Errors
    /// If the drive has no power.
    pub(crate) fn stats(&self) -> Result<Stats, String> {
        let stats = self.ask(|device| stats(device).map_err(|fault| fault.to_string()))??;
        let lateness = self.lateness()?;
        Ok(Stats { lateness, ..stats })
    }
}

/// The listening socket; removed on drop.
pub(crate) struct Live(PathBuf);

impl Drop for Live {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = remove_file(&self.0);
    }
}

/// Path of the socket for the drive in the file at `path`.
fn socket(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".live");
    name.into()
}

impl Live {
    /// Starts to answer questions about the drive in the file at `path`, which is locked. Without a
    /// socket the drive is used nevertheless; then `None`.
    pub(crate) fn start(path: &Path, powered: &Powered, used: Use) -> Option<Self> {
        let at = socket(path);
        // This process holds the drive's lock, so an existing socket belongs to a dead process.
        if engine::is_socket(&at) {
            let _ = remove_file(&at);
        }
        let bound = UnixListener::bind(&at).and_then(|listener| {
            set_permissions(&at, Permissions::from_mode(0o600))?;
            let powered = powered.clone();
            let body = move || {
                for stream in listener.incoming().flatten() {
                    // A client that does not read the answer does not need it.
                    let _ = answer(&stream, &powered, &used);
                }
            };
            thread::Builder::new().name("live".to_owned()).spawn(body)
        });
        match bound {
            Ok(_) => Some(Self(at)),
            Err(error) => {
                note(&format!(
                    "{}: {error}; flashloom drive stats, smart, cut and fault cannot reach this \
                     drive",
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
            return Err(
                "faults cannot be injected into a mounted drive; serve the drive with \
                `flashloom serve` instead"
                    .to_owned(),
            );
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
            Err(format!(
                "expected a range within the drive, which ends at {end}"
            ))
        }
        _ if device.inject(fault.clone()) => Ok(()),
        _ => Err("the drive has too many faults; remove them with --heal".to_owned()),
    })?;
    document(injected)
}

fn document<T: Serialize>(found: Result<T, String>) -> Result<serde_json::Value, String> {
    serde_json::to_value(found?).map_err(|error| error.to_string())
}

/// The cost of a power cut.
#[derive(Serialize, Deserialize)]
pub(crate) struct Back {
    /// Time until the drive accepted clients again.
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
        .map_err(|_| "the drive is no longer served")?;
    back.recv_timeout(POWER_ON)
        .map_err(|_| "the drive did not power on again after the cut")?;
    let off = begun.elapsed().as_nanos();
    Ok(Back {
        off_ns: u64::try_from(off).unwrap_or(u64::MAX),
    })
}

/// Sends a question to the process that serves the drive in the file at `path`.
///
/// # Errors
/// If no process serves the drive, or the request is refused.
pub(crate) fn ask(path: &Path, ask: &Ask) -> Result<serde_json::Value, Failure> {
    let nobody = "the drive is neither served nor mounted; start `flashloom serve` or `flashloom \
        mount` first";
    ask_if_served(path, ask)?.ok_or_else(|| Failure::at(path, nobody))
}

/// The same as [`ask`]; `None` if no process serves the drive, or if that ended before it answered.
///
/// # Errors
/// If the request is refused.
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
            ("\"cut\"\n", "ends with its process"),
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
    fn server_that_ends_before_its_answer_counts_as_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d.flash");
        let asked = || ask_if_served(&path, &Ask::Smart).expect("asked");
        assert!(asked().is_none(), "there is no socket");
        let listener = UnixListener::bind(socket(&path)).expect("a socket");
        let ends = thread::spawn(move || {
            for said in [&b""[..], b"{\"answer\":"] {
                let (mut stream, _) = listener.accept().expect("somebody asks");
                // Unread bytes reset the connection.
                stream.write_all(said).expect("said");
            }
        });
        assert!(asked().is_none() && asked().is_none());
        ends.join().expect("ended");
        assert!(asked().is_none(), "nobody listens");
    }
}
