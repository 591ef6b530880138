//! The border between C and Rust: errors, panics and pointers.

use crate::refused::Refused;
use crate::types::FlashloomDevice;
use stack::device::Device;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The last error of this thread.
    static ERROR: RefCell<CString> = RefCell::default();
}

pub(crate) fn last_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

fn set_error(sentence: &str) {
    // A sentence could quote a zero byte of the caller's.
    let sentence = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    ERROR.set(sentence);
}

/// The result of `call`; `fallback` if it is refused or panics, with an error.
pub(crate) fn guarded<T>(fallback: T, call: impl FnOnce() -> Result<T, Refused>) -> T {
    // A drive whose call has panicked is not used again: see `on`.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => result,
        Ok(Err(Refused(sentence))) => {
            set_error(&sentence);
            fallback
        }
        Err(_) => {
            set_error("internal error: a defect of the library ended this call");
            fallback
        }
    }
}

/// Calls `call` with a drive. A drive whose call has panicked refuses all later calls.
pub(crate) fn on<T>(
    device: &FlashloomDevice,
    call: impl FnOnce(&Device) -> Result<T, Refused>,
) -> Result<T, Refused> {
    if device.is_broken.replace(true) {
        let why = "the drive is unusable after an internal error";
        return Err(Refused(why.to_owned()));
    }
    let result = call(&device.device);
    device.is_broken.set(false);
    result
}

fn null(name: &str) -> Refused {
    Refused(format!("{name}: expected a pointer, found null"))
}

/// Refuses a null pointer to an argument `name`.
pub(crate) fn place<T>(name: &str, pointer: *const T) -> Result<(), Refused> {
    match pointer.is_null() {
        true => Err(null(name)),
        false => Ok(()),
    }
}

/// The drive behind a pointer.
///
/// # Safety
/// The pointer is null or that of a live drive, which no other thread uses.
pub(crate) unsafe fn borrowed<'a>(
    device: *const FlashloomDevice,
) -> Result<&'a FlashloomDevice, Refused> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { device.as_ref() }.ok_or_else(|| null("device"))
}

/// The text behind a pointer.
///
/// # Safety
/// The pointer is null or that of a text that ends with a zero byte.
pub(crate) unsafe fn text<'a>(name: &str, pointer: *const c_char) -> Result<&'a str, Refused> {
    place(name, pointer)?;
    // SAFETY: the caller vouches for the pointer, which is not null.
    let text = unsafe { CStr::from_ptr(pointer) };
    let utf8 = text.to_str();
    utf8.map_err(|error| Refused(format!("{name}: expected UTF-8: {error}")))
}

/// A copy of the value behind a pointer.
///
/// # Safety
/// The pointer is null or that of a value.
pub(crate) unsafe fn read<T: Copy>(name: &str, pointer: *const T) -> Result<T, Refused> {
    place(name, pointer)?;
    // SAFETY: the caller vouches for the pointer, which is not null.
    Ok(unsafe { pointer.read() })
}

/// Stores a value behind a pointer.
///
/// # Safety
/// The pointer is null or that of a place for a value.
pub(crate) unsafe fn write<T>(name: &str, pointer: *mut T, value: T) -> Result<(), Refused> {
    place(name, pointer)?;
    // SAFETY: the caller vouches for the pointer, which is not null.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Stores a value, if there is one. Returns whether there is.
///
/// # Safety
/// The pointer is null or that of a place for a value.
pub(crate) unsafe fn told<T>(
    name: &str,
    pointer: *mut T,
    value: Option<T>,
) -> Result<i32, Refused> {
    place(name, pointer)?;
    let Some(value) = value else { return Ok(0) };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(name, pointer, value) }?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_and_its_drive_is_not_used_again() {
        let made = Device::from_toml("preset = \"block\"\ncapacity = \"64MiB\"");
        let device = FlashloomDevice {
            device: made.expect("it can be built"),
            is_broken: false.into(),
        };
        let panics = || on(&device, |_| -> Result<i32, Refused> { panic!("a defect") });
        assert_eq!(guarded(-1, panics), -1);
        let error = || {
            // SAFETY: the error is a text of this thread.
            let text = unsafe { CStr::from_ptr(last_error()) };
            text.to_str().map(str::to_owned)
        };
        assert!(error().is_ok_and(|text| text.starts_with("internal error: ")));
        assert_eq!(guarded(-1, || on(&device, |_| Ok(0))), -1);
        assert!(error().is_ok_and(|text| text.contains("unusable")));
    }
}
