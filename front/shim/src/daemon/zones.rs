//! Zones as files: what a folder of a zonefs holds, and commands to it.
//!
//! The size of `seq/N` is how far zone N is written; it is written at its end, cut to
//! nothing, which empties it, or made as long as it can be, which finishes it. A plain
//! folder does as well, if a file `emulated` beside `seq` says what the zones would allow, a
//! line each: `capacity=` in bytes, and `open=` and `active=`, which may be missing.

use crate::sys::{self, Errno};
use core::ffi::c_int;
use shimmer::{BLOCK, Command, Failure, Limits, Part, Piece, ZoneReport};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are written by one call, from memory that suits direct writes.
const PART: usize = 256 << 10;

/// Zones that may be open on the ZN540.
const OPEN_ZONES: u32 = 14;

#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// Zones that are open to be read at a time; those that were not for the longest are
/// closed, so that a drive of many zones leaves descriptors to those who connect.
const READING_MAX: usize = 256;

/// A zone that is open to be read.
struct Reader(c_int);

impl Drop for Reader {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// What is open. With the mount option `explicit-open` a zone is open on the device while
/// it is open to be written here: no longer than the core holds it to be.
#[derive(Default)]
struct Open {
    /// With when it was last used.
    reading: BTreeMap<u32, (Arc<Reader>, u64)>,
    uses: u64,
    writing: BTreeMap<u32, c_int>,
    /// Zones with writes that were not forced.
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

/// The most that a zone may hold, 1 TiB: a thousand times the ZN540's, and far from where
/// sums over zones would not fit.
const CAPACITY_MAX: u64 = 1 << 40;

/// What a folder says that its zones would allow; 0 open or active ones are no limit.
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

/// The number behind a name in the file that makes a folder zones, if it is one that `fits`,
/// which gives what is expected otherwise.
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
    // What is no number is none that fits.
    let fit = fits(&value.parse().unwrap_or(u64::MAX));
    fit.map(Some).map_err(|expected| {
        format!("emulated, line {number}: {name}: expected {expected}, found `{value}`")
    })
}

/// A number of the document in which our zonefs says what it allows.
fn document(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(&format!("\"{name}\":"))?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// A limit of the block device on which a zonefs is.
fn queue_limit(device: u64, name: &str) -> Option<u32> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = CString::new(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()?;
    let text = String::from_utf8(sys::contents(&path, 64).ok()?).ok()?;
    text.trim().parse().ok()
}

impl ZoneFiles {
    /// Looks at the zones in a folder.
    ///
    /// # Errors
    /// A sentence.
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
            // zonefs says by its blocks how much a zone can hold.
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
            // A device that does not say may allow any: then that of the dissertation.
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

    /// What reads a zone.
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
        // zonefs takes direct writes alone; not every plain folder takes them.
        let name = self.name(zone);
        let direct = sys::open(&name, libc::O_WRONLY | libc::O_DIRECT);
        let fd = direct.or_else(|_| sys::open(&name, libc::O_WRONLY))?;
        open.writing.insert(zone, fd);
        Ok(fd)
    }

    /// Nothing more is written to a zone for now. What was is forced by whoever reads it.
    fn close_writer(&self, zone: u32) {
        let fd = self.state().writing.remove(&zone);
        fd.inspect(|fd| sys::close(*fd));
    }

    /// Makes a zone empty or full. That is done by name: a zone that is closed need not be
    /// opened for it, of which there may be too many already.
    fn set_size(&self, zone: u32, size: u64) -> Result<(), Errno> {
        let outcome = sys::truncate_at(&self.name(zone), size);
        self.close_writer(zone);
        outcome
    }

    /// Gives back all descriptors. Nobody uses these zones after this.
    pub(super) fn close_all(&self) {
        let open = std::mem::take(&mut *self.state());
        open.writing.into_values().for_each(sys::close);
    }

    /// What is written in a zone.
    pub(super) fn bytes(&self, zone: u32, len: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len as usize];
        sys::pread_all(self.reader(zone)?.0, &mut bytes, 0)?;
        Ok(bytes)
    }

    pub(super) fn read(&self, piece: Piece, to: &mut [u8]) -> Result<(), Errno> {
        sys::pread_all(self.reader(piece.zone)?.0, to, piece.at)
    }

    /// The bytes of parts, one after the other, into `to`, which has their length.
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

    /// Writes at the end of a zone.
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
        // Only now: a flush that came before, or meanwhile, has not forced all of it.
        open.unforced.insert(zone);
        drop(open);
        let full = at + len as u64 >= self.reports[zone as usize].capacity;
        if full || outcome.is_err() {
            self.close_writer(zone);
        }
        outcome
    }

    /// Does a command.
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
            // Whoever tries again must not find that there is nothing to do.
            forced.inspect_err(|_| self.state().unforced.extend(&unforced))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_what_the_zonefs_says() {
        let text = "{\n  \"schema\": \"flashloom.zones/1\",\n  \"max_wro_seq_files\": 14,\n  \
                    \"max_active_seq_files\":28,\n \"files\": []}";
        assert_eq!(document(text, "max_wro_seq_files"), Some(14));
        assert_eq!(document(text, "max_active_seq_files"), Some(28));
        assert_eq!(document(text, "max"), None);
        assert_eq!(document("\"max\": ", "max"), None);
    }

    #[test]
    fn what_zones_would_allow_is_believed_if_it_can_be() {
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

    /// A folder of four empty zones of eight blocks.
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
    fn what_a_flush_comes_upon_is_forced_by_the_next_one() {
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
    fn zones_are_open_to_be_written_while_they_are_open() {
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
    fn a_folder_says_what_its_zones_allow() {
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
