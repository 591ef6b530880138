//! What of a drive is shown: its own addresses, or those of a layer that remaps them.
//!
//! Invariants: a layer is made on a drive of which nothing is mapped, and on no other, so
//! that no data are lost to a name that was given by mistake; what a layer has not committed
//! is as volatile as the cache of a drive without protection, whatever the drive promises.

use crate::device::Medium;
use crate::file::FileError;
use crate::thread::finish;
use host::{BlockPort, Computing, Who};
use nand::UNIT;
use remap::{FormatOptions, OpenError, Options, Remap};
use sim::{Kernel, Sim};
use ssd::{Content, Drive, IoError, Sink};
use units::{Bytes, Extent, KIB, Ns, Origin, Placement};

/// Shortest run that the layer frees and has deallocated on the drive: a choice of ours, so
/// that the discard of a small file goes on to the drive and that of a unit does not.
const TRIM: Bytes = Bytes(64 * KIB);

/// What of a drive is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Its own addresses.
    #[default]
    Drive,
    /// Those of a layer that remaps them, which is made if nothing is on the drive.
    Remapped,
    /// What is left of such a layer that is damaged, to be read.
    Salvaged,
}

/// A drive that is asked without the model of a host.
#[derive(Clone)]
pub(crate) struct Bare {
    sim: Sim,
    drive: Drive,
}

impl BlockPort for Bare {
    fn capacity(&self) -> Bytes {
        self.drive.capacity()
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, _: Who) -> Result<(), IoError> {
        self.drive.read(extent, sink).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let written = self
            .drive
            .write(extent, content, placement, who.origin, fua);
        written.await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.drive.trim(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.drive.flush().await
    }

    /// Whoever asks has a processor of his own.
    fn compute(&self, _: Ns) -> Computing {
        Computing::Until(self.sim.now())
    }
}

/// What requests go to.
pub(crate) enum Surface {
    Drive(Drive),
    Remapped {
        port: Remap<Bare>,
        /// What of it is damaged, if it was salvaged: then it is read and nothing else.
        damage: Option<Vec<OpenError>>,
    },
}

/// Pages of a read that are looked at before its time passes.
const WARMED: u64 = 4;

impl Surface {
    /// Opens what `show` says of `drive`.
    pub(crate) fn open(kernel: &Kernel, drive: &Drive, show: Show) -> Result<Self, FileError> {
        let (sim, drive) = (kernel.sim(), drive.clone());
        let work = async move {
            let below = Bare {
                sim: sim.clone(),
                drive: drive.clone(),
            };
            let options = Options {
                trim: Some(TRIM),
                ..Options::default()
            };
            let (port, damage) = match show {
                Show::Drive => return Ok(Self::Drive(drive)),
                Show::Salvaged => {
                    let (port, damage) = remap::salvage(&sim, &below, options).await?;
                    (port, Some(damage))
                }
                Show::Remapped => {
                    if is_blank(&drive) {
                        remap::format(&below, &FormatOptions::default()).await?;
                    }
                    (remap::open(&sim, &below, options).await?, None)
                }
            };
            Ok(Self::Remapped { port, damage })
        };
        finish(kernel, work).unwrap_or(Err(FileError::AtRest))
    }

    /// Whether it has addresses of its own.
    pub(crate) const fn is_layer(&self) -> bool {
        matches!(self, Self::Remapped { .. })
    }

    /// What is damaged of a layer that was salvaged.
    pub(crate) fn damage(&self) -> &[OpenError] {
        match self {
            Self::Remapped { damage, .. } => damage.as_deref().unwrap_or_default(),
            Self::Drive(_) => &[],
        }
    }

    /// Whether a write is a promise on a drive that is `protected`.
    pub(crate) const fn is_promised(&self, protected: bool) -> bool {
        matches!(self, Self::Drive(_)) && protected
    }

    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Self::Drive(drive) => drive.capacity().0,
            Self::Remapped { port, .. } => port.capacity().0,
        }
    }

    /// Bytes that are deallocated as a whole.
    pub(crate) fn grain(&self) -> u64 {
        match self {
            Self::Drive(drive) => drive.layout().page_bytes(),
            Self::Remapped { .. } => UNIT as u64,
        }
    }

    /// Looks at the first pages of a range that will be read: when their time has come their
    /// contents are near the processor, and the answer is not late for that.
    pub(crate) fn warm(&self, offset: u64, len: u64) {
        if let Self::Drive(drive) = self {
            let page = self.grain();
            let first = offset / page;
            let behind = (offset + len).div_ceil(page).min(first + WARMED);
            for page in first..behind {
                std::hint::black_box(drive.peek(page as u32));
            }
        }
    }

    pub(crate) async fn read(&self, extent: Extent, bytes: &mut [u8]) -> Result<(), IoError> {
        let mut sink = bytes;
        match self {
            Self::Drive(drive) => drive.read(extent, &mut sink).await,
            Self::Remapped { port, .. } => port.read(extent, &mut sink, Who::default()).await,
        }
    }

    pub(crate) async fn write(&self, extent: Extent, bytes: &[u8]) -> Result<(), IoError> {
        let (content, to) = (Content::Bytes(bytes), Placement(0));
        match self {
            Self::Drive(drive) => drive.write(extent, content, to, Origin(0), false).await,
            Self::Remapped { port, .. } => {
                let written = port.write(extent, content, to, Who::default(), false);
                written.await
            }
        }
    }

    pub(crate) async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match self {
            Self::Drive(drive) => drive.trim(extent).await,
            Self::Remapped { port, .. } => port.trim(extent).await,
        }
    }

    /// Makes every write that was answered durable. There is none where nothing is written.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        match self {
            Self::Drive(drive) => drive.flush().await,
            Self::Remapped {
                damage: Some(_), ..
            } => Ok(()),
            Self::Remapped { port, damage: None } => port.flush().await,
        }
    }

    /// The first offset from `from` on at which there is `wanted`, as if all ended at `end`.
    /// A layer does not say where its holes are: then all of it is data.
    pub(crate) fn seek(&self, from: u64, end: u64, wanted: Medium) -> Option<u64> {
        let (page, capacity) = (self.grain(), end);
        if from >= capacity {
            return None;
        }
        let data = wanted == Medium::Data;
        let at = match self {
            Self::Remapped { .. } => data.then_some(from),
            Self::Drive(drive) => {
                let mut pages = (from / page) as u32..capacity.div_ceil(page) as u32;
                let found = pages.find(|&page| drive.is_mapped(page) == data);
                found.map(|number| (u64::from(number) * page).max(from))
            }
        };
        at.or((!data).then_some(capacity))
    }

    /// What is to be done before the drive is powered off in good order. What cannot be
    /// done is lost as by a power cut.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + 'static {
        let open = match self {
            Self::Remapped { port, damage: None } => Some(port.clone()),
            _ => None,
        };
        async move {
            if let Some(port) = open {
                let _ = port.close().await;
            }
        }
    }
}

/// Whether nothing is on a drive.
fn is_blank(drive: &Drive) -> bool {
    let pages = drive.capacity().0.div_ceil(drive.layout().page_bytes()) as u32;
    (0..pages).all(|page| !drive.is_mapped(page))
}
