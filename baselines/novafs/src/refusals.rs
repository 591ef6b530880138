//! Records of refused allocations: pages kept for upkeep, and the holders of the others.

use crate::alloc::Class;
use crate::entry::VALUE_MAX;
use crate::fs::NovaFs;
use units::NoSpace;
use vfs::Errno;

const PAGES: &str = "pages";
const VALUE: &str = "bytes of the value of an attribute";

impl NovaFs {
    fn refuse(&self, limit: &'static str, why: impl FnOnce() -> NoSpace) -> Errno {
        let now = self.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        Errno::ENOSPC
    }

    /// Records that `asked` pages were refused; returns the error.
    pub(crate) fn refuse_pages(&self, asked: u64, class: Class) -> Errno {
        self.refuse(PAGES, || {
            let alloc = self.alloc.borrow();
            let (free, for_growth) = alloc.free();
            let kept = match class {
                Class::Growth => free - for_growth,
                Class::Upkeep => 0,
            };
            NoSpace::new(PAGES, asked, free, self.geometry.pages)
                .keeping(kept)
                .held(
                    "superblock, journals and first tables",
                    self.geometry.pool(),
                )
                .held("inode tables", alloc.table_pages())
                .rest("logs and contents of files")
        })
    }

    /// Records that an attribute value of `asked` bytes was refused; returns the error.
    pub(crate) fn refuse_value(&self, asked: usize) -> Errno {
        let most = VALUE_MAX as u64;
        self.refuse(VALUE, || NoSpace::new(VALUE, asked as u64, most, most))
    }
}
