//! Declaring a hook, and calling what it stands in front of.
//!
//! Invariant: until the library's constructor has run, a hook is the C library's function and
//! nothing else. An allocator may call it then, from within its own start, while the C library
//! has not begun either.

use super::lookup;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Whether the library's constructor has run.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Hooks do their work from now on.
pub(crate) fn begin() {
    BEGUN.store(true, Ordering::Release);
}

#[inline]
pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// The next function of a name, looked up when it is first needed. Looking takes no lock and
/// allocates nothing.
pub(crate) struct Next {
    name: &'static [u8],
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The function called `name`, which ends with a zero byte.
    pub(crate) const fn new(name: &'static [u8]) -> Self {
        Self {
            name,
            found: AtomicPtr::new(null_mut()),
        }
    }

    /// Where it is; null if there is none.
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

/// A function cannot stand in front of `vfork` and return twice on one stack, and a child must
/// have state of its own: `fork`, which is our hook, keeps every promise of `vfork`.
#[cfg(any(flashloom_preload, flashloom_place))]
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> libc::pid_t {
    // SAFETY: it takes nothing.
    unsafe { fork() }
}

/// What a hook answers when there is nothing behind it.
pub(crate) trait Refusal {
    /// The value that says that the call failed.
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

/// Declares hooks of the library that is built with a configuration. `fn [a b](x: T) -> R, |next|
/// body` declares `a` and `b`, which do `body` once the library has begun; `next()` calls the
/// function that stands behind with the arguments as they came.
macro_rules! hooks {
    (
        in $library:ident:
        $(fn [$($name:ident)*] $args:tt -> $ret:ty, |$next:ident| $body:expr;)*
    ) => {
        $($($crate::preload::next::hook! { $library $name $args $ret, $next, $body })*)*

        /// The hooks of this module.
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
                // SAFETY: the C library's function of this name has this type;
                // the arguments are those that its caller vouches for.
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
