//! Random operations beside a small model.
