//! State of zones besides their flash, in a drive file and in its log. [`crate::image`] documents
//! its layout.
//!
//! Invariant: all state written or read fits the drive: it names existing sequential zones by
//! ascending number, with no more sectors than their buffer or their capacity holds.

use super::stream::{Kind, Reader, Sections};
use super::{ImageError, invalid, put_runs, take_runs};
use crate::config::{ConfigError, DriveConfig};
use crate::drive::Drive;
use crate::zoned::{SavedZone, ZoneLayout, ZoneState, ZonesMedia};
use std::io::{self, Read, Write};

/// Defects by their number in the file.
const DEFECTS: [ZoneState; 2] = [ZoneState::ReadOnly, ZoneState::Offline];

pub(super) fn put<W: Write>(
    sections: &mut Sections<'_, W>,
    config: &DriveConfig,
    media: &ZonesMedia,
) -> io::Result<()> {
    let layout = ZoneLayout::new(config).map_err(invalid)?;
    let Some(layout) = layout else {
        if *media == ZonesMedia::default() {
            return Ok(());
        }
        return Err(invalid(
            "the media are of a drive with zones, this has none",
        ));
    };
    if let Some((what, found)) = misfit(&layout, config, media) {
        let reason = format!("the media are not of this drive: {what} is {found}");
        return Err(invalid(reason));
    }
    sections.begin(Kind::Zones)?;
    put_media(sections, media)
}

fn put_media<W: Write>(sections: &mut Sections<'_, W>, media: &ZonesMedia) -> io::Result<()> {
    sections.put(&(media.saved.len() as u32).to_le_bytes())?;
    for saved in &media.saved {
        for number in [saved.zone, saved.from, saved.sectors] {
            sections.put(&number.to_le_bytes())?;
        }
        sections.put(&[u8::from(saved.reset) | u8::from(saved.finished) << 1])?;
        put_runs(sections, &saved.payload)?;
    }
    sections.put(&(media.defects.len() as u32).to_le_bytes())?;
    for (zone, state) in &media.defects {
        sections.put(&zone.to_le_bytes())?;
        let number = DEFECTS.iter().position(|defect| defect == state);
        sections.put(&[number.unwrap_or(0) as u8])?;
    }
    Ok(())
}

/// The first number in `media` that does not fit the drive.
fn misfit(
    layout: &ZoneLayout,
    config: &DriveConfig,
    media: &ZonesMedia,
) -> Option<(&'static str, u64)> {
    let mut least = layout.conventional;
    for saved in &media.saved {
        if saved.zone < least || saved.zone >= layout.zones {
            return Some(("the zone of a saved buffer", saved.zone.into()));
        }
        least = saved.zone + 1;
        let end = saved.from.checked_add(saved.sectors);
        let fits = end.is_some_and(|end| end <= layout.capacity) && saved.sectors <= layout.ring;
        let kept = if config.flash.keep_contents {
            saved.sectors as usize
        } else {
            0
        };
        if !fits || saved.payload.len() != kept {
            return Some(("the length of a saved buffer", saved.sectors.into()));
        }
    }
    let mut least = layout.conventional;
    for &(zone, _) in &media.defects {
        if zone < least || zone >= layout.zones {
            return Some(("the zone of a defect", zone.into()));
        }
        least = zone + 1;
    }
    None
}

/// The zones of a drive to which records of the log are applied.
pub(super) struct Replay {
    layout: ZoneLayout,
    contents: bool,
    media: ZonesMedia,
}

impl Replay {
    /// Reads the section of the zones; `None` if the drive has none.
    pub(super) fn take(
        reader: &mut Reader<'_, impl Read>,
        config: &DriveConfig,
    ) -> Result<Option<Self>, ImageError> {
        let layout = ZoneLayout::new(config).map_err(|e: ConfigError| ImageError::Config(e))?;
        let Some(layout) = layout else {
            return Ok(None);
        };
        reader.begin(Kind::Zones)?;
        let mut replay = Self {
            layout,
            contents: config.flash.keep_contents,
            media: ZonesMedia::default(),
        };
        replay.media = replay.take_media(reader)?;
        replay.check(reader, config)?;
        Ok(Some(replay))
    }

    fn take_media(&self, reader: &mut Reader<'_, impl Read>) -> Result<ZonesMedia, ImageError> {
        let zones = u64::from(self.layout.zones);
        let mut media = ZonesMedia::default();
        for _ in 0..reader.count("the number of saved buffers", zones)? {
            let (zone, from) = (reader.u32()?, reader.u32()?);
            let sectors = reader.count("the length of a saved buffer", self.layout.ring.into())?;
            let flags = reader.u8()?;
            let known = format_args!("0 to 2");
            reader.require("the state of a saved zone", flags.into(), known, flags < 3)?;
            let kept = if self.contents { sectors as usize } else { 0 };
            media.saved.push(SavedZone {
                zone,
                from,
                sectors,
                reset: flags == 1,
                finished: flags == 2,
                payload: take_runs(reader, kept, None)?,
            });
        }
        for _ in 0..reader.count("the number of defects", zones)? {
            let (zone, number) = (reader.u32()?, reader.u8()?);
            let state = DEFECTS.get(usize::from(number)).copied();
            let kinds = format_args!("0 or 1");
            reader.require(
                "the kind of a defect",
                number.into(),
                kinds,
                state.is_some(),
            )?;
            media
                .defects
                .push((zone, state.unwrap_or(ZoneState::ReadOnly)));
        }
        Ok(media)
    }

    fn check(
        &self,
        reader: &Reader<'_, impl Read>,
        config: &DriveConfig,
    ) -> Result<(), ImageError> {
        match misfit(&self.layout, config, &self.media) {
            None => Ok(()),
            Some((what, found)) => Err(ImageError::Value {
                offset: reader.offset(),
                what,
                found,
                expected: "what the zones of the drive have room for".to_owned(),
            }),
        }
    }

    /// Reads the change of zones from a record: those that changed, and all defects.
    pub(super) fn take_change(
        &self,
        reader: &mut Reader<'_, impl Read>,
    ) -> Result<ZonesMedia, ImageError> {
        self.take_media(reader)
    }

    pub(super) fn apply(&mut self, change: ZonesMedia) {
        for saved in change.saved {
            let all = &mut self.media.saved;
            let at = all.binary_search_by_key(&saved.zone, |other| other.zone);
            match (at, is_nothing(&saved)) {
                (Ok(at), true) => drop(all.remove(at)),
                (Ok(at), false) => all[at] = saved,
                (Err(_), true) => {}
                (Err(at), false) => all.insert(at, saved),
            }
        }
        self.media.defects = change.defects;
    }

    pub(super) fn end(
        self,
        reader: &Reader<'_, impl Read>,
        config: &DriveConfig,
    ) -> Result<ZonesMedia, ImageError> {
        self.check(reader, config)?;
        Ok(self.media)
    }
}

/// Whether the entry says that nothing is saved of a zone any more.
fn is_nothing(saved: &SavedZone) -> bool {
    saved.sectors == 0 && !saved.reset && !saved.finished
}

/// State of the zones that the log has recorded.
pub(super) struct Watch {
    told: ZonesMedia,
}

impl Watch {
    pub(super) fn new(drive: &Drive, media: &ZonesMedia) -> Option<Self> {
        drive.zones().map(|_| Self {
            told: media.clone(),
        })
    }

    /// Changes since the last call; `None` if there are none. Zones of which nothing is saved any
    /// more appear without sectors.
    pub(super) fn take(&mut self, drive: &Drive) -> Option<ZonesMedia> {
        let now = drive.saved_zones();
        if now == self.told {
            return None;
        }
        let told = std::mem::replace(&mut self.told, now);
        let now = &self.told;
        let gone = told
            .saved
            .iter()
            .filter(|saved| now.saved(saved.zone).is_none());
        let gone = gone.map(|saved| SavedZone {
            zone: saved.zone,
            ..SavedZone::default()
        });
        let changed = now
            .saved
            .iter()
            .filter(|saved| told.saved(saved.zone) != Some(saved));
        let mut saved: Vec<SavedZone> = gone.chain(changed.cloned()).collect();
        saved.sort_unstable_by_key(|saved| saved.zone);
        Some(ZonesMedia {
            saved,
            defects: now.defects.clone(),
        })
    }

    /// Writes the changes; all defects are written in any case.
    pub(super) fn put<W: Write>(
        &self,
        change: Option<ZonesMedia>,
        sections: &mut Sections<'_, W>,
    ) -> io::Result<()> {
        let unchanged = || ZonesMedia {
            saved: Vec::new(),
            defects: self.told.defects.clone(),
        };
        put_media(sections, &change.unwrap_or_else(unchanged))
    }
}
