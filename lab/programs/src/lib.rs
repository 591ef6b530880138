//! Programs as streams of memory accesses.
