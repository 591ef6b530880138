//! All hosts as one type, dispatched at each call.

use super::{
    Btrfs, ByteFs, Directed, Ext4, F2fs, Host, Hyfim, Made, Nova, Persimmon, Persistent, Promises,
    Said, Shimmer, Undoing, Zonefs,
};
use crate::attached::Attached;
use crate::image::DriveImage;
use sim::Sim;
use ssd::DriveConfig;
use vfs::{AnyBody, Timestamp};

/// Defines the enum of all hosts, with conversions to it.
macro_rules! hosts {
    ($($name:ident),+) => {
        /// Any host, to be formatted and mounted.
        #[derive(Clone)]
        pub enum AnyHost {
            $(#[allow(missing_docs, reason = "a name says it")] $name($name)),+
        }

        $(
            impl From<$name> for AnyHost {
                fn from(host: $name) -> Self {
                    Self::$name(host)
                }
            }
        )+
    };
}

/// Hosts whose files get lifetime hints by rules.
type DirectedBtrfs = Directed<Btrfs>;
type DirectedExt4 = Directed<Ext4>;
type DirectedF2fs = Directed<F2fs>;
type DirectedPersimmon = Directed<Persimmon>;

hosts!(
    Btrfs,
    ByteFs,
    DirectedBtrfs,
    DirectedExt4,
    DirectedF2fs,
    DirectedPersimmon,
    Ext4,
    F2fs,
    Hyfim,
    Nova,
    Persimmon,
    Shimmer,
    Undoing,
    Zonefs
);

/// Evaluates an expression for the variant of an [`AnyHost`].
macro_rules! with {
    ($own:expr, $it:ident => $does:expr) => {
        match $own {
            AnyHost::Btrfs($it) => $does,
            AnyHost::ByteFs($it) => $does,
            AnyHost::DirectedBtrfs($it) => $does,
            AnyHost::DirectedExt4($it) => $does,
            AnyHost::DirectedF2fs($it) => $does,
            AnyHost::DirectedPersimmon($it) => $does,
            AnyHost::Ext4($it) => $does,
            AnyHost::F2fs($it) => $does,
            AnyHost::Hyfim($it) => $does,
            AnyHost::Nova($it) => $does,
            AnyHost::Persimmon($it) => $does,
            AnyHost::Shimmer($it) => $does,
            AnyHost::Undoing($it) => $does,
            AnyHost::Zonefs($it) => $does,
        }
    };
}

impl Host for AnyHost {
    fn promises(&self) -> Promises {
        with!(self, host => host.promises())
    }

    fn memory(&self) -> Option<Persistent> {
        with!(self, host => host.memory())
    }

    fn shape(&self, drive: &mut DriveConfig) {
        with!(self, host => host.shape(drive));
    }

    fn deallocates(&self) -> bool {
        with!(self, host => host.deallocates())
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        with!(self, host => host.format(sim, device, now).await)
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        with!(self, host => host.mount(sim, device, now).await)
    }

    fn has_snapshots(&self) -> bool {
        with!(self, host => host.has_snapshots())
    }

    async fn keep(&self, body: &AnyBody, name: &[u8], now: Timestamp) -> Made<()> {
        with!(self, host => host.keep(body, name, now).await)
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        with!(self, host => host.check(image))
    }

    fn has_outside(&self) -> bool {
        with!(self, host => host.has_outside())
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        with!(self, host => host.ask_outside(image, recover))
    }
}
