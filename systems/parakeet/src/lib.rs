//! Parakeet.
