//! What each way through the device costs, and which one is taken.
