//! From raw records to a trace.
