//! SkyByte: a CXL-SSD and what its host does about it.

mod cache;
mod compact;
mod config;
mod design;
mod device;
mod dram;
mod estimate;
mod fetch;
mod log;
mod media;
mod metrics;
mod mshr;
mod prefetch;
mod profile;
mod promote;
mod state;

pub use config::{
    CacheConfig, ConfigError, DeviceConfig, DramConfig, HintConfig, LogConfig, LookupConfig,
    Prefetch, PromotionConfig, Queue, Replacement,
};
pub use design::{DESIGNS, Design, Migration};
pub use device::CxlSsd;
pub use estimate::{Estimate, estimate, is_long};
pub use media::DeviceMedia;
pub use metrics::{Counters, Metrics};
pub use profile::Profile;
