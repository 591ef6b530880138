//! Shimmer.
