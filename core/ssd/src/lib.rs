//! ssd
