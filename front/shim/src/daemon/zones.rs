//! Zones as files: the contents of a zonefs folder, and the commands that change it.
//!
//! The size of `seq/N` is the write pointer of zone N. A zone is written at its end, reset by
//! truncating its file to 0, and finished by extending the file to the zone's capacity. A plain
//! folder can emulate zones: a file `emulated` beside `seq` then holds the limits, one a line:
//! `capacity=` in bytes, and optionally `open=` and `active=`.

use crate::sys::{self, Errno};
use core::ffi::c_int;
use shimmer::{BLOCK, Command, Failure, Limits, Part, Piece, ZoneReport};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes written by one call, from memory aligned for direct writes.
const PART: usize = 256 << 10;

/// Open zones that a drive allows if it reports no limit: those of the ZN540.
const OPEN_ZONES: u32 = 14;

#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// Maximum number of zones that are open for reading at a time. The least recently used ones are
/// closed, so that a drive of many zones leaves descriptors for connections.
const READING_MAX: usize = 256;

/// Descriptor of a zone that is open for reading.
struct Reader(c_int);

impl Drop for Reader {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// Open descriptors of zones. With the mount option `explicit-open` a zone is open on the device
/// while it is open for writing here, which is no longer than the core counts it as open.
#[derive(Default)]
struct Open {
    /// Readers by zone, each with the value of `uses` at its last use.
    reading: BTreeMap<u32, (Arc<Reader>, u64)>,
    uses: u64,
    writing: BTreeMap<u32, c_int>,
    /// Zones with writes that were not yet synced.
    unforced: BTreeSet<u32>,
    spare: Vec<Box<[Page]>>,
}

pub(super) struct ZoneFiles {
    folder: Vec<u8>,
    pub(super) reports: Vec<ZoneReport>,
    pub(super) limits: Limits,
    open: Mutex<Open>,
}

fn path(parts: &[&[u8]]) -> Result<CString, Errno> {
    CString::new(parts.concat()).map_err(|_| libc::EINVAL)
}

/// Largest capacity of a zone, 1 TiB: a thousand times that of the ZN540, and small enough that
/// sums over zones do not overflow.
const CAPACITY_MAX: u64 = 1 << 40;

/// Limits that a folder of emulated zones declares; 0 open or active zones is no limit.
#[derive(Debug, PartialEq, Eq)]
struct Emulated {
    capacity: u64,
    limits: Limits,
}

impl Emulated {
    fn parse(text: &str) -> Result<Self, String> {
        let capacity = setting(text, "capacity", |value| {
            let fits = (BLOCK..=CAPACITY_MAX).contains(value) && value.is_multiple_of(BLOCK);
            let expected = format!("a multiple of {BLOCK} up to {CAPACITY_MAX}");
            fits.then_some(*value).ok_or(expected)
        })?;
        let count = |name| {
            setting(text, name, |value| {
                u32::try_from(*value).map_err(|_| format!("a number up to {}", u32::MAX))
            })
        };
        let (open, active) = (count("open")?, count("active")?);
        Ok(Self {
            capacity: capacity.ok_or("emulated: expected a line `capacity=` with bytes a zone")?,
            limits: Limits {
                open: open.unwrap_or(0),
                active: active.unwrap_or(0),
            },
        })
    }
}

/// The value of the setting `name` in the text of `emulated`; `None` if it is missing. `fits`
/// converts the number, or returns a description of the values it expects.
fn setting<T>(
    text: &str,
    name: &str,
    fits: impl Fn(&u64) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let lines = text.lines().zip(1..);
    let mut named = lines.filter_map(|(line, number)| {
        let (said, value) = line.split_once('=')?;
        (said.trim() == name).then_some((value.trim(), number))
    });
    let Some((value, number)) = named.next() else {
        return Ok(None);
    };
    // Text that is no number is read as a number that does not fit.
    let fit = fits(&value.parse().unwrap_or(u64::MAX));
    fit.map(Some).map_err(|expected| {
        format!("emulated, line {number}: {name}: expected {expected}, found `{value}`")
    })
}

/// The number after the key `name` in the JSON document `.zones.json` of our zonefs.
fn document(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(&format!("\"{name}\":"))?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// A queue limit of the block device under a zonefs.
fn queue_limit(device: u64, name: &str) -> Option<u32> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = CString::new(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()?;
    let text = String::from_utf8(sys::contents(&path, 64).ok()?).ok()?;
    text.trim().parse().ok()
}

impl ZoneFiles {
    /// Reads the zones in a folder, and their limits.
    ///
    /// # Errors
    /// A sentence with the reason why these are no usable zones.
    pub(super) fn new(folder: &[u8]) -> Result<Self, String> {
        let text = |name: &[u8]| {
            let bytes = sys::contents(&path(&[folder, name]).ok()?, 4096).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let emulated = text(b"/emulated").as_deref().map(Emulated::parse);
        let (emulated, told) = (emulated.transpose()?, text(b"/.zones.json"));
        Self::look(folder, emulated, told.as_deref())
            .map_err(|errno| format!("it has no zones: error {errno}"))
    }

    fn look(folder: &[u8], emulated: Option<Emulated>, told: Option<&str>) -> Result<Self, Errno> {
        let list = sys::list(&path(&[folder, b"/seq"])?)?;
        let number = |name: &Vec<u8>| std::str::from_utf8(name).ok()?.parse::<u32>().ok();
        let count = list.iter().filter_map(number).count() as u32;
        let mut reports = Vec::new();
        let mut device = 0;
        for zone in 0..count {
            let name = path(&[folder, b"/seq/", zone.to_string().as_bytes()])?;
            let stat = sys::stat_at(libc::AT_FDCWD, &name, 0)?;
            device = stat.st_dev;
            // zonefs reports a zone's capacity as the number of blocks of its file.
            let capacity = match &emulated {
                Some(emulated) => emulated.capacity,
                None => stat.st_blocks as u64 * 512,
            };
            reports.push(ZoneReport {
                capacity,
                written: stat.st_size as u64,
            });
        }
        let limit = |ours: &str, kernels: &str| {
            let ours = told.and_then(|text| document(text, ours));
            let found = ours.map(|it| it as u32);
            // Without a limit from zonefs or the device, that of the dissertation's drive applies.
            found
                .or_else(|| queue_limit(device, kernels))
                .unwrap_or(OPEN_ZONES)
        };
        let limits = match emulated {
            Some(emulated) => emulated.limits,
            None => Limits {
                open: limit("max_wro_seq_files", "max_open_zones"),
                active: limit("max_active_seq_files", "max_active_zones"),
            },
        };
        let open = Mutex::new(Open::default());
        Ok(Self {
            folder: folder.to_vec(),
            reports,
            limits,
            open,
        })
    }

    fn state(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, zone: u32) -> CString {
        let name = [&self.folder[..], b"/seq/", zone.to_string().as_bytes()].concat();
        CString::new(name).expect("the folder was a string")
    }

    /// The reader of a zone; opens it, and closes the least recently used one at the limit.
    fn reader(&self, zone: u32) -> Result<Arc<Reader>, Errno> {
        let mut open = self.state();
        open.uses += 1;
        let now = open.uses;
        if let Some((reader, used)) = open.reading.get_mut(&zone) {
            *used = now;
            return Ok(Arc::clone(reader));
        }
        if open.reading.len() >= READING_MAX {
            let oldest = open.reading.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(zone, _)| *zone);
            oldest.and_then(|zone| open.reading.remove(&zone));
        }
        let reader = Arc::new(Reader(sys::open(&self.name(zone), libc::O_RDONLY)?));
        open.reading.insert(zone, (Arc::clone(&reader), now));
        Ok(reader)
    }

    fn writer(&self, zone: u32) -> Result<c_int, Errno> {
        let mut open = self.state();
        if let Some(fd) = open.writing.get(&zone) {
            return Ok(*fd);
        }
        // zonefs accepts direct writes only; not every plain folder supports them.
        let name = self.name(zone);
        let direct = sys::open(&name, libc::O_WRONLY | libc::O_DIRECT);
        let fd = direct.or_else(|_| sys::open(&name, libc::O_WRONLY))?;
        open.writing.insert(zone, fd);
        Ok(fd)
    }

    /// Closes a zone for writing. Its unsynced writes are later synced through its reader.
    fn close_writer(&self, zone: u32) {
        let fd = self.state().writing.remove(&zone);
        fd.inspect(|fd| sys::close(*fd));
    }

    /// Sets a zone's size, which resets or finishes it. The call is by name, as an open would count
    /// against the drive's limit of open zones.
    fn set_size(&self, zone: u32, size: u64) -> Result<(), Errno> {
        let outcome = sys::truncate_at(&self.name(zone), size);
        self.close_writer(zone);
        outcome
    }

    /// Closes the descriptors for writing after a failed start; the zones are not used again.
    pub(super) fn close_all(&self) {
        let open = std::mem::take(&mut *self.state());
        open.writing.into_values().for_each(sys::close);
    }

    /// The first `len` bytes of a zone.
    pub(super) fn bytes(&self, zone: u32, len: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len as usize];
        sys::pread_all(self.reader(zone)?.0, &mut bytes, 0)?;
        Ok(bytes)
    }

    pub(super) fn read(&self, piece: Piece, to: &mut [u8]) -> Result<(), Errno> {
        sys::pread_all(self.reader(piece.zone)?.0, to, piece.at)
    }

    /// Copies the bytes of `parts`, in order, to `to`, which has their total length.
    pub(super) fn gather(&self, parts: &[Part], to: &mut [u8]) -> Result<(), Errno> {
        let mut rest = to;
        for part in parts {
            let len = match part {
                Part::Zone(piece) => piece.len as usize,
                Part::Memory(data) => data.len(),
            };
            let (here, more) = rest.split_at_mut(len);
            match part {
                Part::Zone(piece) => self.read(*piece, here)?,
                Part::Memory(data) => here.copy_from_slice(data),
            }
            rest = more;
        }
        Ok(())
    }

    /// Appends `len` bytes at `at`, the end of a zone; `fill` provides them part by part.
    fn append(
        &self,
        zone: u32,
        at: u64,
        len: usize,
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let fd = self.writer(zone)?;
        let spare = self.state().spare.pop();
        let fresh = || (0..PART / 4096).map(|_| Page([0; 4096])).collect();
        let mut pages: Box<[Page]> = spare.unwrap_or_else(fresh);
        // SAFETY: pages are bytes without gaps, and `PART` of them.
        let buffer =
            unsafe { core::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), PART) };
        let mut done = 0;
        let mut outcome = Ok(());
        while done < len && outcome.is_ok() {
            let part = &mut buffer[..PART.min(len - done)];
            outcome = fill(done, part).and_then(|()| sys::pwrite_all(fd, part, at + done as u64));
            done += part.len();
        }
        let mut open = self.state();
        open.spare.push(pages);
        // Marked only now: a flush before or during this write has not synced all of it.
        open.unforced.insert(zone);
        drop(open);
        let full = at + len as u64 >= self.reports[zone as usize].capacity;
        if full || outcome.is_err() {
            self.close_writer(zone);
        }
        outcome
    }

    /// Executes a command of the core; prints a failure.
    pub(super) fn run(&self, command: &Command) -> Result<(), Failure> {
        let outcome = match *command {
            Command::Write { zone, at, ref data } => {
                self.append(zone, at, data.len(), |from, to| {
                    to.copy_from_slice(&data[from..from + to.len()]);
                    Ok(())
                })
            }
            Command::Copy { from, zone, at } => {
                self.append(zone, at, from.len as usize, |done, to| {
                    let piece = Piece {
                        at: from.at + done as u64,
                        len: to.len() as u64,
                        ..from
                    };
                    self.read(piece, to)
                })
            }
            Command::Flush => self.flush(),
            Command::Reset { zone } => self.set_size(zone, 0),
            Command::Finish { zone } => self.set_size(zone, self.reports[zone as usize].capacity),
            Command::Close { zone } => {
                self.close_writer(zone);
                Ok(())
            }
        };
        outcome.map_err(|errno| {
            sys::say(&format!("{command:.0?}: error {errno}"));
            Failure
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        let unforced = std::mem::take(&mut self.state().unforced);
        for zone in &unforced {
            let forced = self.reader(*zone).and_then(|reader| sys::force(reader.0));
            // The zones stay marked, so that a retry of the flush syncs them again.
            forced.inspect_err(|_| self.state().unforced.extend(&unforced))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_document_of_the_zonefs() {
        let text = "{\n  \"schema\": \"flashloom.zones/1\",\n  \"max_wro_seq_files\": 14,\n  \
                    \"max_active_seq_files\":28,\n \"files\": []}";
        assert_eq!(document(text, "max_wro_seq_files"), Some(14));
        assert_eq!(document(text, "max_active_seq_files"), Some(28));
        assert_eq!(document(text, "max"), None);
        assert_eq!(document("\"max\": ", "max"), None);
    }

    #[test]
    fn emulated_limits_are_parsed_or_refused_with_the_line() {
        let told = |text| Emulated::parse(text).map(|it| (it.capacity, it.limits.open));
        assert_eq!(told("capacity=8192\n open = 3\n"), Ok((8192, 3)));
        assert_eq!(told("open=0\ncapacity=4096"), Ok((4096, 0)));
        let refused = |text: &str, line: &str, expected: &str| {
            let why = Emulated::parse(text).unwrap_err();
            assert!(why.contains(line) && why.contains(expected), "{why}");
        };
        for capacity in ["0", "100", "abc", "", "-1", "4097", "18446744073709551615"] {
            let text = format!("open=2\ncapacity={capacity}\n");
            let found = format!("found `{capacity}`");
            refused(&text, "emulated, line 2: capacity", &found);
            refused(&text, "a multiple of 4096", &found);
        }
        refused("", "emulated", "expected a line `capacity=`");
        refused("open=3", "emulated", "expected a line `capacity=`");
        for count in ["99999999999", "x"] {
            let text = format!("capacity=4096\nactive={count}");
            refused(
                &text,
                "emulated, line 2: active",
                "a number up to 4294967295",
            );
        }
    }

    /// A folder of four empty emulated zones of eight blocks each.
    fn folder() -> (tempfile::TempDir, ZoneFiles) {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("seq")).unwrap();
        for zone in 0..4 {
            std::fs::write(at(&format!("seq/{zone}")), "").unwrap();
        }
        std::fs::write(at("emulated"), "capacity=32768\nopen=2\n").unwrap();
        let zones = ZoneFiles::new(folder.path().as_os_str().as_encoded_bytes()).unwrap();
        (folder, zones)
    }

    #[test]
    fn write_in_progress_during_a_flush_is_synced_by_the_next_flush() {
        let (_folder, zones) = folder();
        let append = |zone, at, outcome| {
            let during = |_, bytes: &mut [u8]| {
                bytes.fill(7);
                zones.flush().unwrap();
                outcome
            };
            assert_eq!(zones.append(zone, at, 4096, during), outcome);
            let unforced = std::mem::take(&mut zones.state().unforced);
            assert_eq!(unforced, BTreeSet::from([zone]));
        };
        append(2, 0, Ok(()));
        append(2, 4096, Ok(()));
        append(3, 0, Err(libc::EIO));
        assert_eq!(zones.bytes(2, 8192).unwrap(), [7; 8192]);
    }

    #[test]
    fn zone_is_open_for_writing_until_it_is_full_closed_or_reset() {
        let (_folder, zones) = folder();
        let fill = |_: usize, bytes: &mut [u8]| {
            bytes.fill(9);
            Ok(())
        };
        zones.append(3, 0, 4096, fill).unwrap();
        let writes = |zone, at, blocks: u64| {
            let from = Piece {
                zone: 3,
                at: 0,
                len: 4096,
            };
            for block in 0..blocks {
                let at = at + block * 4096;
                zones.run(&Command::Copy { from, zone, at }).unwrap();
            }
        };
        let open = || zones.state().writing.keys().copied().collect::<Vec<_>>();
        writes(0, 0, 8);
        assert_eq!(open(), [3], "what is full is closed");
        writes(1, 0, 2);
        assert_eq!(open(), [1, 3]);
        zones.run(&Command::Close { zone: 1 }).unwrap();
        assert_eq!(open(), [3], "what was not forced, too");
        zones.run(&Command::Flush).unwrap();
        zones.run(&Command::Finish { zone: 1 }).unwrap();
        assert_eq!(zones.bytes(1, 32768).unwrap()[..8192], [9; 8192]);
        zones.run(&Command::Reset { zone: 0 }).unwrap();
        zones.run(&Command::Reset { zone: 3 }).unwrap();
        assert_eq!(open(), []);
        assert!(zones.bytes(0, 1).is_err());
    }

    #[test]
    fn limits_come_from_the_document_or_the_emulated_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("seq")).unwrap();
        for zone in 0..6 {
            std::fs::write(at(&format!("seq/{zone}")), vec![1; 4096 * zone]).unwrap();
        }
        std::fs::write(at(".zones.json"), "{\"max_wro_seq_files\": 2,\n\"x\": 1}").unwrap();
        let name = folder.path().as_os_str().as_encoded_bytes();
        let zones = ZoneFiles::new(name).unwrap();
        assert_eq!((zones.limits.open, zones.limits.active), (2, OPEN_ZONES));
        assert_eq!(zones.reports.len(), 6);
        std::fs::write(at("emulated"), "capacity=8192\nopen=3\n").unwrap();
        let zones = ZoneFiles::new(name).unwrap();
        assert_eq!((zones.limits.open, zones.limits.active), (3, 0));
        assert_eq!(zones.reports[1].capacity, 8192);
    }
}
