//! The error of a call.

use stack::device::DeviceError;

/// A call that is refused, as a sentence.
pub(crate) struct Refused(pub(crate) String);

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Self {
        Self(error.to_string())
    }
}
