//! The end of a drive under power: a power cut, or a shutdown.

use crate::drive::Drive;
use crate::media::DriveMedia;

impl Drive {
    /// State that a power cut at this instant leaves.
    #[must_use]
    pub fn at_power_cut(&self) -> DriveMedia {
        let mut smart = self.smart();
        smart.unsafe_shutdowns += 1;
        DriveMedia {
            cells: self.core.nand.at_power_cut(),
            dump: self.core.saved(),
            front: self.core.saved_front(),
            zones: self.saved_zones(),
            smart,
        }
    }

    /// State in which no flash operation under way has begun: one of the states that a cut at this
    /// instant may leave, and the one that [`image::Log`] tracks.
    ///
    /// [`image::Log`]: crate::image::Log
    #[must_use]
    pub fn settled(&self) -> DriveMedia {
        DriveMedia {
            cells: self.core.nand.settled(),
            ..self.at_power_cut()
        }
    }

    /// Writes everything out and powers off.
    pub async fn shutdown(&self) -> DriveMedia {
        self.core.flush_front().await;
        self.core.write_out().await;
        if let Some(zones) = &self.zones {
            // Data that cannot be written stay in the buffer, and are saved or lost.
            let _ = zones.inner.write_out().await;
        }
        DriveMedia {
            cells: self.core.nand.at_power_cut(),
            dump: self.core.saved(),
            front: self.core.saved_front(),
            zones: self.saved_zones(),
            smart: self.smart(),
        }
    }
}
