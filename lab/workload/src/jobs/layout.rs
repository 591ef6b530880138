//! Regions of the drive for the files of jobs.
//!
//! Invariants: files of different names do not overlap; a single file is the drive itself; of
//! several files each takes the part that its jobs use, and those without a size share the rest.

use super::file::Section;
use super::options::Options;
use crate::generate::{NoRoom, Part};
use std::collections::BTreeMap;
use units::{Bytes, SECTOR};

/// Unit of the regions of several files.
const UNIT: u64 = 4096;

/// Region of the drive, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) base: u64,
    pub(super) len: u64,
}

/// File that one or more jobs use.
#[derive(Debug)]
struct File {
    name: String,
    /// First byte of the file that jobs use, and the end of what they use.
    used: (u64, u64),
    /// Whether a job uses a part of the file that depends on its size.
    is_open: bool,
    /// Place of the first used byte on the drive.
    base: u64,
}

/// Files of all jobs on one drive.
pub(super) struct Layout<'a> {
    sections: &'a [Section],
    files: Vec<File>,
    /// Numbers of the files by name.
    numbers: BTreeMap<String, usize>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(sections: &'a [Section], capacity: Bytes) -> Result<Self, NoRoom> {
        let mut files: Vec<File> = Vec::new();
        let mut numbers = BTreeMap::new();
        for section in sections {
            for clone in 0..section.options.numjobs {
                let used = used(&section.options, clone);
                for name in names(section, clone) {
                    let number = *numbers.entry(name.clone()).or_insert(files.len());
                    if number == files.len() {
                        let used = used.unwrap_or((u64::MAX, 0));
                        files.push(File {
                            name,
                            used,
                            is_open: false,
                            base: 0,
                        });
                    }
                    let file = &mut files[number];
                    file.is_open |= used.is_none();
                    if let Some(used) = used {
                        file.used = (file.used.0.min(used.0), file.used.1.max(used.1));
                    }
                }
            }
        }
        place(&mut files, capacity)?;
        Ok(Self {
            sections,
            files,
            numbers,
        })
    }

    /// Regions of the files of clone `clone` of job `job`.
    pub(super) fn regions(&self, job: usize, clone: u32) -> Result<Vec<Region>, NoRoom> {
        let section = &self.sections[job];
        let options = &section.options;
        let names = names(section, clone);
        let region = |name: &String| {
            let file = &self.files[self.numbers[name]];
            let size = Bytes(file.used.1);
            let increment = options.amount.increment.of(size).0;
            let offset = increment.saturating_mul(u64::from(clone));
            let offset = options.amount.offset.of(size).0.saturating_add(offset);
            let room = size.0.saturating_sub(offset);
            let len = match span(options) {
                Part::Percent(_) => span(options).of(size).0.min(room),
                Part::Bytes(bytes) => bytes.0 / SECTOR * SECTOR,
            };
            let largest = options.sizes.iter().map(super::value::Sizes::largest).max();
            let needed = len.max(largest.unwrap_or(SECTOR));
            if needed > room.min(len) {
                return Err(NoRoom {
                    label: section.name.clone(),
                    needed: Bytes(needed),
                    room: Bytes(room.min(len)),
                });
            }
            let base = file.base + (offset - file.used.0);
            Ok(Region { base, len })
        };
        names.iter().map(region).collect()
    }

    /// A sentence on the places of the files; none for a single file.
    pub(super) fn notes(&self) -> Vec<String> {
        if self.files.len() < 2 {
            return Vec::new();
        }
        let place = |file: &File| {
            let size = Bytes(file.used.1 - file.used.0);
            format!("{} at {} ({size})", file.name, Bytes(file.base))
        };
        let first: Vec<String> = self.files.iter().take(4).map(place).collect();
        let more = match self.files.len() {
            0..=4 => "",
            _ => ", …",
        };
        vec![format!(
            "{} files are beside each other on the drive: {}{more}",
            self.files.len(),
            first.join(", ")
        )]
    }
}

/// Sets the places of all files.
fn place(files: &mut [File], capacity: Bytes) -> Result<(), NoRoom> {
    if let [file] = files {
        (file.used, file.base) = ((0, capacity.0 / SECTOR * SECTOR), 0);
        return Ok(());
    }
    let fixed = files.iter().filter(|file| !file.is_open);
    let fixed = fixed.map(|file| {
        let size = (file.used.1 - file.used.0).checked_next_multiple_of(UNIT);
        size.unwrap_or(u64::MAX)
    });
    let fixed = fixed.fold(0_u64, u64::saturating_add);
    let open = files.iter().filter(|file| file.is_open).count() as u64;
    let rest = capacity.0.saturating_sub(fixed);
    let share = rest.checked_div(open).unwrap_or(0) / UNIT * UNIT;
    if fixed > capacity.0 || (open > 0 && share == 0) {
        return Err(NoRoom {
            label: format!("files of {} jobs", files.len()),
            needed: Bytes(fixed.saturating_add(open * UNIT)),
            room: capacity,
        });
    }
    let mut base = 0;
    for file in files {
        if file.is_open {
            file.used = (0, share);
        }
        file.base = base;
        base += (file.used.1 - file.used.0).next_multiple_of(UNIT);
    }
    Ok(())
}

/// First byte and end of the part of each of its files that a clone uses; `None` if it depends on
/// the size of the file.
fn used(options: &Options, clone: u32) -> Option<(u64, u64)> {
    let bytes = |part| match part {
        Part::Bytes(Bytes(bytes)) => Some(bytes / SECTOR * SECTOR),
        Part::Percent(0) => Some(0),
        Part::Percent(_) => None,
    };
    let increment = bytes(options.amount.increment)?.saturating_mul(u64::from(clone));
    let first = bytes(options.amount.offset)?.saturating_add(increment);
    Some((first, first.saturating_add(bytes(span(options))?)))
}

/// Part of each of its files that a job uses.
fn span(options: &Options) -> Part {
    let count = match options.files.names.len() {
        0 => u64::from(options.files.count.unwrap_or(1)),
        names => names as u64,
    };
    match (options.files.size, options.amount.size) {
        (Some(bytes), _) => Part::Bytes(Bytes(bytes)),
        (None, Part::Bytes(bytes)) => Part::Bytes(Bytes(bytes.0 / count)),
        (None, percent) => percent,
    }
}

/// Names of the files of a clone.
fn names(section: &Section, clone: u32) -> Vec<String> {
    let files = &section.options.files;
    let in_directory = |name: &str| format!("{}{name}", files.directory);
    if !files.names.is_empty() {
        return files.names.iter().map(|name| in_directory(name)).collect();
    }
    let format = match files.format.as_str() {
        "" => "$jobname.$jobnum.$filenum",
        format => format,
    };
    let job = format
        .replace("$jobname", &section.name)
        .replace("$jobnum", &clone.to_string());
    let count = files.count.unwrap_or(1);
    let name = |number: u32| in_directory(&job.replace("$filenum", &number.to_string()));
    (0..count).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::file::parse;

    const CAPACITY: Bytes = Bytes(64 << 20);

    /// Regions of all clones of all jobs, in MiB.
    fn regions(text: &str) -> Result<Vec<(u64, u64)>, String> {
        let (sections, _) = parse("a", text).unwrap();
        let layout = Layout::new(&sections, CAPACITY).map_err(|e| e.to_string())?;
        let mut all = Vec::new();
        for (job, section) in sections.iter().enumerate() {
            for clone in 0..section.options.numjobs {
                let regions = layout.regions(job, clone).map_err(|e| e.to_string())?;
                all.extend(regions.iter().map(|r| (r.base >> 20, r.len >> 20)));
            }
        }
        Ok(all)
    }

    #[test]
    fn single_file_is_the_drive() {
        assert_eq!(regions("[a]\n"), Ok(vec![(0, 64)]));
        let text = "[global]\nfilename=/dev/x\n[a]\noffset=16m\nsize=8m\n[b]\nsize=50%\n";
        assert_eq!(regions(text), Ok(vec![(16, 8), (0, 32)]));
        let text = "[a]\nfilename=/dev/x\nnumjobs=2\nsize=4m\noffset_increment=25%\n";
        assert_eq!(regions(text), Ok(vec![(0, 4), (16, 4)]));
    }

    #[test]
    fn files_of_different_names_do_not_overlap() {
        let text = "[a]\nsize=8m\n[b]\noffset=50m\nsize=4m\n[c]\nnumjobs=2\n";
        assert_eq!(regions(text), Ok(vec![(0, 8), (8, 4), (12, 26), (38, 26)]));
        let text = "[a]\nfilename=x:y\nsize=8m\n[b]\nfilename=y\nsize=6m\n";
        assert_eq!(regions(text), Ok(vec![(0, 4), (4, 4), (4, 6)]));
        let text = "[a]\nnrfiles=2\nfilesize=2m\nsize=8m\n";
        assert_eq!(regions(text), Ok(vec![(0, 2), (2, 2)]));
    }

    #[test]
    fn files_without_room_are_refused() {
        let told = regions("[a]\nsize=40m\n[b]\nsize=40m\n").unwrap_err();
        assert!(told.contains("80 MiB") && told.contains("64 MiB"), "{told}");
        assert!(regions("[a]\noffset=60m\nsize=8m\n").is_err());
        assert!(regions("[a]\noffset=65m\n").is_err());
        assert!(regions("[a]\nsize=4k\nbs=8k\n").is_err());
        assert!(regions("[a]\nsize=18446744073709551615\n[b]\nsize=8m\n").is_err());
    }
}
