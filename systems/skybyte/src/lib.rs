//! SkyByte.
