//! Integration tests of the drive through its public interface.

mod ahead;
mod big;
mod bytes;
mod cleaning;
mod demand;
mod image;
mod limits;
mod mapcache;
mod mapping;
mod pages;
mod past;
mod placement;
mod policies;
mod power;
mod progress;
mod raw;
mod scale;
mod steady;
mod support;
mod theory;
mod wear;
mod zones;
