//! The plots of a page: from records to the figures of [`crate::plot`].
//!
//! Invariant: a chart for which no run has data is left out, never drawn empty.

pub(crate) mod flows;
pub(crate) mod glance;
pub(crate) mod latency;
pub(crate) mod places;
pub(crate) mod time;
pub(crate) mod wear;
pub(crate) mod writes;
