//! Lookup of functions in loaded objects, without the dynamic linker.
//!
//! `dlsym` takes the linker's lock, which a thread may hold while it loads a library and allocates;
//! and it allocates itself if it fails, or on C libraries before 2.34. An allocator that calls a
//! hook under its own lock would deadlock. So this module reads the symbol tables of the objects
//! behind this one, in load order.
//!
//! Invariants: nothing is written, locked or allocated. Objects loaded at program start are never
//! unloaded, and the C library is among them, so a name that it defines is found before any object
//! that may be unloaded.

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

/// An entry of the dynamic section, `ElfW(Dyn)` of elf.h.
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

/// An entry of the symbol table, `Elf64_Sym` of elf.h.
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

/// Bit of a symbol version that is not the default one (`VERSYM_HIDDEN`).
const HIDDEN: u16 = 0x8000;

// Accepted kinds of symbols: untyped, variable, function.
const KINDS: [u8; 3] = [0, 1, 2];

unsafe extern "C" {
    static _r_debug: Loaded;
    static _DYNAMIC: [Entry; 0];
}

/// Addresses of an object's symbol tables.
struct Tables {
    strings: *const u8,
    symbols: *const Symbol,
    versions: *const u16,
    hash: *const u32,
}

/// The function or variable of this name in the objects loaded after this one; null if none defines
/// it.
pub(crate) fn next(name: &[u8]) -> *mut c_void {
    // SAFETY: the dynamic linker maintains the list for debuggers. Objects at its end may be
    // unloaded, but the search ends before them if an earlier one has the name.
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

/// The hash of a name in a `DT_GNU_HASH` table.
fn hash(name: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| sum.wrapping_mul(33).wrapping_add((*byte).into());
    name.iter().fold(5381, step)
}

impl Object {
    /// # Safety
    /// The object is loaded.
    unsafe fn tables(&self) -> Option<Tables> {
        let [mut strings, mut symbols, mut versions, mut hash] = [0; 4];
        let mut entry = self.dynamic;
        // SAFETY: as for the function; an entry of tag 0 is the last.
        unsafe {
            while (*entry).tag != 0 {
                // The linker has relocated the values to addresses, if the section is writable.
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
    /// The object is loaded.
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
    /// Index of a name in the symbol table. The hash table consists of a header (number of buckets,
    /// first hashed symbol, words of the filter, shift), the filter, the first symbol of each
    /// bucket, and a hash for each symbol, odd for the last one of a bucket.
    ///
    /// # Safety
    /// The tables are those of a loaded object.
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

    /// Whether a symbol has this name, is defined here, and is the default version.
    ///
    /// # Safety
    /// As for [`Tables::index`], and the index is valid.
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
    fn lookup_agrees_with_the_dynamic_linker() {
        // `fopen` and `posix_spawn` have an old version besides the current one.
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
