//! Declaration of hooks, and calls of the functions behind them.
//!
//! Invariant: until the library's constructor has run, a hook only forwards to the C library. An
//! allocator may call it during its own start, while the C library is not initialized either.

use super::lookup;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Whether the library's constructor has run.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Enables all hooks; called by the library's constructor.
pub(crate) fn begin() {
    BEGUN.store(true, Ordering::Release);
}

#[inline]
pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// The next function of a name in link order, looked up when it is first needed. The lookup takes
/// no lock and allocates nothing.
pub(crate) struct Next {
    name: &'static [u8],
    found: AtomicPtr<c_void>,
}

impl Next {
    /// An unresolved function of this name, which ends with a zero byte.
    pub(crate) const fn new(name: &'static [u8]) -> Self {
        Self {
            name,
            found: AtomicPtr::new(null_mut()),
        }
    }

    /// The function's address; null if no object defines it.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look() } else { found }
    }

    #[cold]
    fn look(&self) -> *mut c_void {
        let name = self.name.split_last().map_or(&[][..], |(_, name)| name);
        let found = lookup::next(name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

#[cfg(any(flashloom_preload, flashloom_place))]
unsafe extern "C" {
    fn fork() -> libc::pid_t;
}

/// A hook of `vfork` could not return twice on one stack, and the child needs state of its own.
/// `fork`, which is hooked, fulfils every guarantee of `vfork`.
#[cfg(any(flashloom_preload, flashloom_place))]
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> libc::pid_t {
    // SAFETY: `fork` has no arguments.
    unsafe { fork() }
}

/// Return value of a hook whose next function does not exist.
pub(crate) trait Refusal {
    /// The value that reports a failed call.
    const REFUSED: Self;
}

impl Refusal for i32 {
    const REFUSED: Self = -1;
}

impl Refusal for isize {
    const REFUSED: Self = -1;
}

impl Refusal for i64 {
    const REFUSED: Self = -1;
}

impl<T> Refusal for *mut T {
    const REFUSED: Self = null_mut();
}

impl Refusal for () {
    const REFUSED: Self = ();
}

/// Declares the hooks of one library. `fn [a b](x: T) -> R, |next| body` declares `a` and `b`,
/// which evaluate `body` once the library has begun; `next()` calls the C library's function with
/// the original arguments.
macro_rules! hooks {
    (
        in $library:ident:
        $(fn [$($name:ident)*] $args:tt -> $ret:ty, |$next:ident| $body:expr;)*
    ) => {
        $($($crate::preload::next::hook! { $library $name $args $ret, $next, $body })*)*

        /// Every hook of this module.
        pub(super) const HOOKS: &[fn() -> super::Hook] =
            &[$($(|| (stringify!($name), $name as *const ()),)*)*];
    };
}

macro_rules! hook {
    ($library:ident $name:ident ($($arg:ident: $ty:ty),*) $ret:ty, $next:ident, $body:expr) => {
        #[cfg_attr($library, unsafe(no_mangle))]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            static NEXT: $crate::preload::next::Next =
                $crate::preload::next::Next::new(concat!(stringify!($name), "\0").as_bytes());
            let $next = || -> $ret {
                let found = NEXT.get();
                if found.is_null() {
                    $crate::preload::raw::set_errno(libc::ENOSYS);
                    return <$ret as $crate::preload::next::Refusal>::REFUSED;
                }
                // SAFETY: the C library's function of this name has this type, and its caller
                // vouches for the arguments.
                unsafe {
                    core::mem::transmute::<
                        *mut core::ffi::c_void,
                        unsafe extern "C" fn($($ty),*) -> $ret,
                    >(found)($($arg),*)
                }
            };
            if !$crate::preload::next::has_begun() {
                return $next();
            }
            $body
        }
    };
}

pub(crate) use hook;
pub(crate) use hooks;
