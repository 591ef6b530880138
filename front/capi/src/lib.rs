//! The drive as a library for C programs: the functions of `include/flashloom.h`.
//!
//! Invariants:
//! - No unwinding crosses the border: a panic becomes an error, and its drive refuses all later
//!   calls.
//! - Every failure is one sentence, which [`flashloom_error`] returns.
//! - Null pointers and texts that are not UTF-8 are refused. Any other pointer is valid as the header
//!   demands, which is what makes the unsafe blocks here sound.
//! - Layouts of structures are those of the header, and asserted.
//!
//! This crate translates and calls; it knows nothing of the inside of a drive.

mod border;
mod refused;
mod types;

pub use types::{FlashloomCommand, FlashloomCompletion, FlashloomCounters, FlashloomDevice};

use border::{borrowed, guarded, on, read, text, told, write};
use refused::Refused;
use stack::device::{Device, setup};
use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;
use types::{command, completion, counters, status};
use units::Ns;

/// The version of this interface, `FLASHLOOM_ABI` of the header that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn flashloom_abi() -> u32 {
    1
}

/// The sentence of this thread's last error; empty without one. It is valid until the next error of
/// the thread.
#[unsafe(no_mangle)]
pub extern "C" fn flashloom_error() -> *const c_char {
    border::last_error()
}

/// Makes the drive that a TOML document describes; null on error.
///
/// # Safety
/// `toml` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_create(toml: *const c_char) -> *mut FlashloomDevice {
    guarded(null_mut(), || {
        // SAFETY: the caller passes null or a text that ends.
        let toml = unsafe { text("toml", toml) }?;
        Ok(FlashloomDevice::boxed(Device::from_toml(toml)?))
    })
}

/// Makes another drive at the host of `device`, which shares its clock and its cores; null on error.
///
/// # Safety
/// `device` is null or a live drive; `toml` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_beside(
    device: *const FlashloomDevice,
    toml: *const c_char,
) -> *mut FlashloomDevice {
    guarded(null_mut(), || {
        // SAFETY: the caller passes null or a text that ends, and null or a live drive.
        let (toml, device) = unsafe { (text("toml", toml)?, borrowed(device)?) };
        let plan = setup(toml).map_err(stack::device::DeviceError::from)?;
        on(device, |device| {
            Ok(FlashloomDevice::boxed(device.beside(&plan)?))
        })
    })
}

/// Makes an independent copy of an idle drive, as it is after a power cycle; null on error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_fork(device: *const FlashloomDevice) -> *mut FlashloomDevice {
    guarded(null_mut(), || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(FlashloomDevice::boxed(device.fork()?)))
    })
}

/// Frees a drive; null is ignored.
///
/// # Safety
/// `device` is null or a live drive, which is dead from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_free(device: *mut FlashloomDevice) {
    guarded((), || {
        if !device.is_null() {
            // SAFETY: it is a drive that `boxed` returned, and the caller gives it up.
            drop(unsafe { Box::from_raw(device) });
        }
        Ok(())
    });
}

/// Capacity in sectors of 512 bytes; 0 on error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_sectors(device: *const FlashloomDevice) -> u64 {
    guarded(0, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(device.sectors()))
    })
}

/// The time of the drive's clock in ns; 0 on error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_now(device: *const FlashloomDevice) -> u64 {
    guarded(0, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(device.now().0))
    })
}

/// Number of commands submitted and not completed; 0 on error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_in_flight(device: *const FlashloomDevice) -> u64 {
    guarded(0, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(device.in_flight()))
    })
}

/// Stores the time of the next event in ns. Returns 1, or 0 if the drive is at rest, or -1 on error.
///
/// # Safety
/// `device` is null or a live drive; `time_ns` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_next_event(
    device: *const FlashloomDevice,
    time_ns: *mut u64,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        let next = on(device, |device| Ok(device.next_event()))?;
        // SAFETY: the caller passes null or a place for a number.
        unsafe { told("time_ns", time_ns, next.map(|time| time.0)) }
    })
}

/// The number of the origin called `name`, which is added if it is new; -1 on error.
///
/// # Safety
/// `device` is null or a live drive; `name` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_origin(
    device: *const FlashloomDevice,
    name: *const c_char,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a text that ends, and null or a live drive.
        let (name, device) = unsafe { (text("name", name)?, borrowed(device)?) };
        on(device, |device| Ok(i32::from(device.origin(name).0)))
    })
}

/// Submits a command at `time_ns`, and stores its number unless `id` is null. Returns 0, or -1 on
/// error.
///
/// # Safety
/// `device` is null or a live drive; `command` is null or a command; `id` is null or a place for a
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_submit(
    device: *const FlashloomDevice,
    time_ns: u64,
    command: *const FlashloomCommand,
    id: *mut u64,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a command, and null or a live drive.
        let (asked, device) = unsafe { (read("command", command)?, borrowed(device)?) };
        let command = self::command(&asked)?;
        let number = on(device, |device| Ok(device.submit(Ns(time_ns), command)?))?;
        if !id.is_null() {
            // SAFETY: the caller passes null or a place for a number.
            unsafe { write("id", id, number) }?;
        }
        Ok(0)
    })
}

/// Runs the next event. Returns 1, or 0 if the drive is at rest, or -1 on error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_step(device: *const FlashloomDevice) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(i32::from(device.step()?)))
    })
}

/// Runs all events up to and including `time_ns`, and sets the clock to it. Returns 0, or -1 on
/// error.
///
/// # Safety
/// `device` is null or a live drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_advance(device: *const FlashloomDevice, time_ns: u64) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        on(device, |device| Ok(device.advance(Ns(time_ns))?))?;
        Ok(0)
    })
}

/// Takes the earliest completion. Returns 1, or 0 without one, or -1 on error.
///
/// # Safety
/// `device` is null or a live drive; `out` is null or a place for a completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_completion(
    device: *const FlashloomDevice,
    out: *mut FlashloomCompletion,
) -> i32 {
    guarded(-1, || {
        border::place("completion", out)?;
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        let done = on(device, |device| Ok(device.completion()))?;
        // SAFETY: the caller passes null or a place for a completion.
        unsafe { told("completion", out, done.as_ref().map(completion)) }
    })
}

/// Stores the counters of a drive. Returns 0, or -1 on error.
///
/// # Safety
/// `device` is null or a live drive; `out` is null or a place for counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_counters(
    device: *const FlashloomDevice,
    out: *mut FlashloomCounters,
) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller passes null or a live drive.
        let device = unsafe { borrowed(device) }?;
        let counted = on(device, |device| Ok(counters(&device.counters())))?;
        // SAFETY: the caller passes null or a place for counters.
        unsafe { write("counters", out, counted) }?;
        Ok(0)
    })
}

/// Powers an idle drive off, and returns the record of all commands as JSON; null on error. The
/// drive remains to be freed, and the text too, by [`flashloom_text_free`].
///
/// # Safety
/// `device` is null or a live drive; `workload` is null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_finish(
    device: *const FlashloomDevice,
    workload: *const c_char,
) -> *mut c_char {
    guarded(null_mut(), || {
        // SAFETY: the caller passes null or a text that ends, and null or a live drive.
        let (workload, device) = unsafe { (text("workload", workload)?, borrowed(device)?) };
        let record = on(device, |device| {
            Ok(report::to_json(&device.finish(workload)?))
        })?;
        let record = CString::new(record).map_err(|error| Refused(error.to_string()))?;
        Ok(record.into_raw())
    })
}

/// Frees a text that [`flashloom_finish`] returned; null is ignored.
///
/// # Safety
/// `text` is null or such a text, which is dead from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashloom_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it is a text that `into_raw` returned, and the caller gives it up.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// The name of a completion's status; it lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn flashloom_status(number: u32) -> *const c_char {
    let name: &'static CStr = status(number);
    name.as_ptr()
}
