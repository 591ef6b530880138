//! ext4 as something whose power is cut.

use super::HURRIED;
use super::port::Port;
use super::subject::Host;
use crate::files::ext4::options;
use crate::image::DriveImage;
use crate::plan::Plan;
use crash::OutsideError;
use extfs::ext4::{self, Options};
use extfs::jbd2::{Jbd2, Mode};
use extfs::{BLOCK, ExtFs, Image, MkfsOptions, check};
use host::BlockPort;
use sim::Sim;
use ssd::Drive;

/// Pieces of an image that are handed to a checker at once: 1 MiB.
const CHUNK: u64 = 256;

/// ext4 with these options.
pub(super) struct Ext4 {
    options: Options,
}

impl Ext4 {
    pub(super) fn of(plan: &Plan) -> Self {
        let options = Options {
            commit_interval: HURRIED.2,
            ..options(&plan.stack)
        };
        Self { options }
    }
}

/// Everything on a drive that is not zeros, with the offset of each piece.
fn pieces(drive: &Drive) -> Vec<(u64, Vec<u8>)> {
    let image = DriveImage(drive);
    let blocks = drive.capacity().0 / BLOCK as u64;
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut bytes = [0; BLOCK];
    for block in 0..blocks {
        if !image.read(block, &mut bytes) || bytes == [0; BLOCK] {
            continue;
        }
        let at = block * BLOCK as u64;
        match pieces.last_mut() {
            Some((start, piece))
                if *start + piece.len() as u64 == at
                    && (piece.len() as u64) < CHUNK * BLOCK as u64 =>
            {
                piece.extend_from_slice(&bytes);
            }
            _ => pieces.push((at, bytes.to_vec())),
        }
    }
    pieces
}

impl Host for Ext4 {
    type Body = ExtFs<Jbd2<Port>>;

    fn shows_stale(&self) -> bool {
        self.options.mode == Mode::Writeback
    }

    async fn format(&self, device: Port) -> Result<(), String> {
        let layout = MkfsOptions {
            now: self.options.start,
            ..MkfsOptions::new(device.capacity().0 / BLOCK as u64)
        };
        let made = ext4::format(&device, &layout).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: Sim, device: Port) -> Result<Self::Body, String> {
        let mounted = ext4::mount(&sim, &device, self.options).await;
        mounted.map(|m| m.0).map_err(|error| error.to_string())
    }

    fn check(&self, drive: &Drive) -> Vec<String> {
        let findings = check(&DriveImage(drive));
        findings.iter().map(ToString::to_string).collect()
    }

    fn ask_outside(&self, drive: &Drive, recover: bool) -> Result<Option<String>, OutsideError> {
        let pieces = pieces(drive);
        let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
        crash::e2fsck(drive.capacity().0, pieces, recover)
    }
}
