//! Attribution of file data: the label of a file is its part of the workload's tree, and its kind.
//!
//! Invariant: two files with the same label are below the same top-level directory and have the
//! same suffix.

use units::Origin;
use workload::Labels;
use workload::files::Name;

/// Labels of files, by the path that opened them.
#[derive(Clone, Debug)]
pub struct Origins {
    labels: Labels,
    known: Vec<Option<Origin>>,
    /// Whether all files have the origin without a name.
    is_nameless: bool,
}

/// The origin of a file system's journal and metadata.
pub(crate) const FILE_SYSTEM: Origin = Origin(1);

impl Default for Origins {
    fn default() -> Self {
        let mut labels = Labels::default();
        let first = labels.intern("file system");
        debug_assert_eq!(first, FILE_SYSTEM);
        Self {
            labels,
            known: Vec::new(),
            is_nameless: false,
        }
    }
}

impl Origins {
    /// Origins of files that belong to no run: what is left of them on the drive is not counted for
    /// files of later runs.
    pub(crate) fn nameless() -> Self {
        Self {
            is_nameless: true,
            ..Self::default()
        }
    }

    /// The origin of `file`, which has the path `path`.
    pub(crate) fn of(&mut self, file: Name, path: &[u8]) -> Origin {
        if self.is_nameless {
            return Origin(0);
        }
        let index = file.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        *self.known[index].get_or_insert_with(|| self.labels.intern(&label(path)))
    }

    pub(crate) const fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// `db/*.sst` for `db/tables/000017.sst`, `mail` for `mail/inbox/12`.
fn label(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let text = text.trim_start_matches('/');
    let Some((top, rest)) = text.split_once('/') else {
        return text.to_owned();
    };
    let last = rest.rsplit('/').next().unwrap_or_default();
    match last.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{top}/*.{ending}"),
        _ => top.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_booked_by_directory_and_kind() {
        let labels = [
            "/db/1.sst",
            "db/x/22.sst",
            "db/log-1",
            "mail/a/b",
            "/",
            "a.b",
            "d/.hidden",
        ];
        let said = labels.map(|path| label(path.as_bytes()));
        assert_eq!(said, ["db/*.sst", "db/*.sst", "db", "mail", "", "a.b", "d"]);
        let mut origins = Origins::default();
        let first = origins.of(Name(3), b"db/1.sst");
        assert_eq!(origins.of(Name(9), b"db/2.sst"), first);
        assert_eq!(origins.labels().name(first), "db/*.sst");
    }
}
