//! Table from write-lifetime hints to placement handles of the drive.

use units::Placement;
use vfs::{Hint, Inode};

/// Placement handles by kind of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placer {
    /// Handles of file contents, indexed by hint.
    data: [Placement; 6],
    /// Handle of metadata and journal.
    metadata: Placement,
}

impl Placer {
    /// The table for a drive with `handles` handles. Files without a hint get handle 0, metadata
    /// and journal the last one. Hints from short to extreme get the handles between in order:
    /// the last of them serves all remaining hints, and handle 0 if there are none.
    #[must_use]
    pub fn for_handles(handles: u16) -> Self {
        let last = handles.saturating_sub(1);
        let between = last.saturating_sub(1);
        let hinted = |n: u16| {
            Placement(if between == 0 {
                0
            } else {
                1 + n.min(between - 1)
            })
        };
        let none = Placement(0);
        Self {
            data: [none, none, hinted(0), hinted(1), hinted(2), hinted(3)],
            metadata: Placement(last),
        }
    }

    /// Handle for the contents of a file with `hint`.
    #[must_use]
    pub const fn data(&self, hint: Hint) -> Placement {
        self.data[hint as usize]
    }

    /// Handle for the contents of `inode`: the one set for the inode, else that of its hint.
    #[must_use]
    pub fn data_of<P>(&self, inode: &Inode<P>) -> Placement {
        let decided = inode.handle.get();
        decided.unwrap_or_else(|| self.data(inode.hint.get()))
    }

    /// Handle for metadata and journal.
    #[must_use]
    pub const fn metadata(&self) -> Placement {
        self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_get_separate_handles_while_the_drive_has_enough() {
        let many = Placer::for_handles(8);
        let hints = [
            Hint::NotSet,
            Hint::Short,
            Hint::Medium,
            Hint::Long,
            Hint::Extreme,
        ];
        let handles = hints.map(|hint| many.data(hint).0);
        assert_eq!(handles, [0, 1, 2, 3, 4]);
        assert_eq!(many.metadata(), Placement(7));
        let few = Placer::for_handles(3);
        assert_eq!(hints.map(|hint| few.data(hint).0), [0, 1, 1, 1, 1]);
        assert_eq!(Placer::for_handles(1), Placer::default());
    }
}
