//! Looking up functions in what the dynamic linker has loaded, without asking it.
//!
//! `dlsym` takes the linker's lock, which a thread holds that loads a library and allocates
//! meanwhile; and it allocates itself where it fails, or on C libraries before 2.34. An
//! allocator that calls a hook under a lock of its own would wait for itself. So the tables of
//! symbols are read here: the objects behind this one, in the order in which they were loaded.
//!
//! Invariants: nothing is written, locked or allocated. Objects that were loaded when the
//! program began are never unloaded, and the C library is among them, so a name that it has is
//! found before any object that may go.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// `struct link_map` of link.h.
#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    dynamic: *const Entry,
    next: *const Object,
}

/// `ElfW(Dyn)` of elf.h.
#[repr(C)]
struct Entry {
    tag: i64,
    value: usize,
}

/// `struct r_debug` of link.h.
#[repr(C)]
struct Loaded {
    version: c_int,
    first: *const Object,
}

/// `Elf64_Sym` of elf.h.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

// Tags of elf.h.
const STRINGS: i64 = 5;
const SYMBOLS: i64 = 6;
const VERSIONS: i64 = 0x6fff_fff0;
const GNU_HASH: i64 = 0x6fff_fef5;

/// A version that only programs that were linked with it get (`VERSYM_HIDDEN`).
const HIDDEN: u16 = 0x8000;

// Kinds of symbols: of no kind, a variable, a function.
const KINDS: [u8; 3] = [0, 1, 2];

unsafe extern "C" {
    static _r_debug: Loaded;
    static _DYNAMIC: [Entry; 0];
}

/// The tables of an object.
struct Tables {
    strings: *const u8,
    symbols: *const Symbol,
    versions: *const u16,
    hash: *const u32,
}

/// The function or variable of this name in the objects that come after this one; null if there
/// is none.
pub(crate) fn next(name: &[u8]) -> *mut c_void {
    // SAFETY: the dynamic linker keeps the list for debuggers. Objects at its end may go, but
    // not while one before them has the name.
    unsafe {
        let own = _DYNAMIC.as_ptr();
        let mut at = _r_debug.first;
        while !at.is_null() && (*at).dynamic != own {
            at = (*at).next;
        }
        while !at.is_null() {
            at = (*at).next;
            if let Some(object) = at.as_ref()
                && let Some(found) = object.find(name)
            {
                return found;
            }
        }
    }
    null_mut()
}

/// The hash of a name in tables of GNU's kind.
fn hash(name: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| sum.wrapping_mul(33).wrapping_add((*byte).into());
    name.iter().fold(5381, step)
}

impl Object {
    /// # Safety
    /// It is loaded.
    unsafe fn tables(&self) -> Option<Tables> {
        let [mut strings, mut symbols, mut versions, mut hash] = [0; 4];
        let mut entry = self.dynamic;
        // SAFETY: as for the function; an entry of tag 0 is the last.
        unsafe {
            while (*entry).tag != 0 {
                // The linker has made them addresses, where it may write to them.
                let value = (*entry).value;
                let place = if value < self.base {
                    self.base + value
                } else {
                    value
                };
                match (*entry).tag {
                    STRINGS => strings = place,
                    SYMBOLS => symbols = place,
                    VERSIONS => versions = place,
                    GNU_HASH => hash = place,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        (hash != 0 && strings != 0 && symbols != 0).then_some(Tables {
            strings: strings as *const u8,
            symbols: symbols as *const Symbol,
            versions: versions as *const u16,
            hash: hash as *const u32,
        })
    }

    /// # Safety
    /// It is loaded.
    unsafe fn find(&self, name: &[u8]) -> Option<*mut c_void> {
        // SAFETY: as for the function.
        unsafe {
            let tables = self.tables()?;
            let index = tables.index(name)?;
            Some((self.base + (*tables.symbols.add(index)).value) as *mut c_void)
        }
    }
}

impl Tables {
    /// Where a name is among the symbols. The table of hashes is the number of its buckets, of
    /// the first symbol that is in it, of the words of a filter, and a shift; the filter; the
    /// first symbol of each bucket; and a hash for each symbol, odd for the last of a bucket.
    ///
    /// # Safety
    /// They are those of an object that is loaded.
    unsafe fn index(&self, name: &[u8]) -> Option<usize> {
        let hash = hash(name);
        // SAFETY: as for the function.
        unsafe {
            let head = |at: usize| *self.hash.add(at) as usize;
            let (count, first, filter) = (head(0), head(1), head(2));
            let buckets = self
                .hash
                .add(4 + filter * size_of::<usize>() / size_of::<u32>());
            let hashes = buckets.add(count);
            if count == 0 {
                return None;
            }
            let mut index = *buckets.add(hash as usize % count) as usize;
            while index >= first.max(1) {
                let of_it = *hashes.add(index - first);
                if (of_it ^ hash) >> 1 == 0 && self.is(index, name) {
                    return Some(index);
                }
                if of_it & 1 != 0 {
                    break;
                }
                index += 1;
            }
        }
        None
    }

    /// Whether a symbol has this name, and is what a program gets that asks for no version.
    ///
    /// # Safety
    /// As above, and there is such a symbol.
    unsafe fn is(&self, index: usize, name: &[u8]) -> bool {
        // SAFETY: as for the function. Strings end with a zero byte.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let text = self.strings.add(symbol.name as usize);
            let same = (name.iter().enumerate()).all(|(at, byte)| *text.add(at) == *byte);
            let hidden = !self.versions.is_null() && *self.versions.add(index) & HIDDEN != 0;
            let is_here = symbol.section != 0 && KINDS.contains(&(symbol.info & 15));
            same && *text.add(name.len()) == 0 && is_here && !hidden
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_where_the_dynamic_linker_says() {
        // `fopen` and `posix_spawn` have an old version beside the one of today.
        for name in [
            c"open64",
            c"fopen",
            c"posix_spawn",
            c"gnu_get_libc_version",
            c"_r_debug",
        ] {
            // SAFETY: the name is a string.
            let theirs = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            assert!(!theirs.is_null(), "{name:?}");
            assert_eq!(next(name.to_bytes()), theirs, "{name:?}");
        }
        assert!(next(b"flashloom_has_no_such_name").is_null());
        assert!(next(b"").is_null());
    }
}
