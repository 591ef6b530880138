//! Stacks: a host over a drive under a workload, built from a plan and run.
//!
//! Invariants: a run is a function of its plan, whatever else runs beside it; no user input makes
//! it panic or wait forever; its [`report::record::Run`] adds up.
//!
//! This crate knows neither a command line nor the look of reports.

mod attached;
mod below;
pub mod calibrate;
mod choices;
mod configuration;
pub mod crash;
pub mod device;
pub mod drive;
mod error;
pub mod files;
mod fill;
pub mod hosts;
mod image;
pub mod knobs;
mod layer;
mod lies;
pub mod load;
mod losses;
mod meter;
mod name;
mod past;
mod placement;
mod places;
mod plan;
mod plan_file;
pub mod pool;
pub mod pts;
mod replay;
pub mod reproduce;
mod run;
mod sight;
pub mod soak;
mod steady;
mod sweep;
mod timeline;
mod trace;
mod used;
pub mod validate;
mod volatile;
mod zones;

pub use attached::{AttachError, Attached};
pub use below::Below;
pub use choices::{Choices, interfaces, usual_pasts, usual_stacks, usual_workload};
pub use error::StackError;
pub use image::DriveImage;
pub use layer::SWITCHES as LAYERS;
pub use name::{STACKS, Stack, StackName};
pub use past::{Past, Used, past, past_of_drive};
pub use plan::{Ending, Plan, Progress, Sampling, Until};
pub use plan_file::{MOST_PLANS, plan_file};
pub use run::{media, run, run_from, run_on, run_while};
pub use sight::Sight;
pub use steady::MOST_WINDOWS;
pub use sweep::{Start, sweep, sweep_from};
pub use trace::Tracer;
pub use used::{KeptError, Rest, made_from, rest};
pub use zones::ZonePort;
