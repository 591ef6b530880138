//! Addresses that clients see: those of the drive, or of a remapping layer above it.
//!
//! Invariants: a layer is formatted only on a drive without mapped pages, so that a wrong name
//! cannot destroy data; changes that a layer has not committed are as volatile as the cache of a
//! drive without power-loss protection, even on a drive that has it.

use crate::device::Medium;
use crate::file::FileError;
use crate::thread::finish;
use host::{BlockPort, Computing, Who};
use nand::UNIT;
use remap::{FormatOptions, OpenError, Options, Remap};
use sim::{Kernel, Sim};
use ssd::{Content, Drive, IoError, Sink};
use units::{Bytes, Extent, KIB, Ns, Origin, Placement};

/// Shortest run of free units that the layer deallocates on the drive. Our choice: the discard of a
/// small file reaches the drive, that of a single unit does not.
const TRIM: Bytes = Bytes(64 * KIB);

/// Selects the addresses that clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// The drive's own addresses.
    #[default]
    Drive,
    /// Addresses of a remapping layer, which is formatted if the drive is blank.
    Remapped,
    /// Addresses of a damaged remapping layer, opened read-only with its remaining data.
    Salvaged,
}

/// A drive as the port of a layer, without the model of a host.
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

    /// Takes no time: the client computes on a real processor.
    fn compute(&self, _: Ns) -> Computing {
        Computing::Until(self.sim.now())
    }
}

/// Target of requests: the drive, or a layer above it.
pub(crate) enum Surface {
    Drive(Drive),
    Remapped {
        port: Remap<Bare>,
        /// Damage of a salvaged layer, which is read-only; none if the layer is intact.
        damage: Option<Vec<OpenError>>,
    },
}

/// Most pages of a read that [`Surface::warm`] touches.
const WARMED: u64 = 4;

impl Surface {
    /// Opens the drive or the layer that `show` selects.
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

    /// Whether this is a layer.
    pub(crate) const fn is_layer(&self) -> bool {
        matches!(self, Self::Remapped { .. })
    }

    /// Damage of a salvaged layer; empty otherwise.
    pub(crate) fn damage(&self) -> &[OpenError] {
        match self {
            Self::Remapped { damage, .. } => damage.as_deref().unwrap_or_default(),
            Self::Drive(_) => &[],
        }
    }

    /// Whether an acknowledged write is durable on a drive whose power-loss protection is
    /// `protected`.
    pub(crate) const fn is_promised(&self, protected: bool) -> bool {
        matches!(self, Self::Drive(_)) && protected
    }

    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Self::Drive(drive) => drive.capacity().0,
            Self::Remapped { port, .. } => port.capacity().0,
        }
    }

    /// Granularity of deallocation in bytes.
    pub(crate) fn grain(&self) -> u64 {
        match self {
            Self::Drive(drive) => drive.layout().page_bytes(),
            Self::Remapped { .. } => UNIT as u64,
        }
    }

    /// Touches the first pages of a range before its read begins: when the time of the read has
    /// passed, their contents are in the processor's cache and do not delay the answer.
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

    /// Makes every acknowledged write durable. A no-op on a salvaged layer, which is read-only.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        match self {
            Self::Drive(drive) => drive.flush().await,
            Self::Remapped {
                damage: Some(_), ..
            } => Ok(()),
            Self::Remapped { port, damage: None } => port.flush().await,
        }
    }

    /// First offset from `from` on that is `wanted`, as if all ended at `end`. A layer does not
    /// report its holes and counts as data.
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

    /// Closes an intact layer before the drive shuts down. Changes that cannot be committed are
    /// lost as by a power cut.
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

/// Whether no page of the drive is mapped.
fn is_blank(drive: &Drive) -> bool {
    let pages = drive.capacity().0.div_ceil(drive.layout().page_bytes()) as u32;
    (0..pages).all(|page| !drive.is_mapped(page))
}
