//! The configuration of a run's drive and host, field by field, for its record.
//!
//! All fields of the plan have a key. A few more express several of them together, in the same
//! words for every interface.

use crate::hosts::{self, Keeps};
use crate::plan::Plan;
use report::configuration::{
    BATTERY, Configuration, DRAM, DRAM_KEPT, HOST_MEMORY, HOST_MEMORY_TIMES, MAP, MKFS, PADDING,
    Setting, WRITE_BUFFER,
};
use serde::Serialize;
use ssd::front::Battery;
use ssd::{CacheHolds, DriveConfig, Interface, RawGeometry};
use toml::Value;
use units::Bytes;

/// Bytes of a sector of the flash.
const SECTOR: u64 = nand::UNIT as u64;

/// All fields of the configuration of `plan`.
pub(crate) fn configuration(plan: &Plan) -> Configuration {
    let mut all = Configuration::new();
    let mut drive = plan.drive.clone();
    // Fills in the values that the name of the flash part stands for.
    drive.flash.timing = drive.timing().ok();
    drive.flash.endurance = drive.endurance().ok();
    add(&mut all, "drive", &drive);
    add(&mut all, "host", &plan.host);
    add(&mut all, "page_cache", &plan.page_cache);
    add(&mut all, "file_system", &plan.behaviour);
    let keeps = hosts::memory(&plan.stack.host, &plan.stack.switches);
    let kept = keeps.map(|memory| memory.keeps(&plan.drive));
    let told = Told {
        drive: &plan.drive,
        kept,
    };
    let number = |bytes: Bytes| Setting::Number(bytes.0);
    all.insert(DRAM.to_owned(), number(told.dram()));
    all.insert(DRAM_KEPT.to_owned(), number(told.dram_kept()));
    if let Some(battery) = told.battery() {
        all.insert(BATTERY.to_owned(), Setting::Text(battery));
    }
    all.insert(WRITE_BUFFER.to_owned(), Setting::Text(told.write_buffer()));
    all.insert(MAP.to_owned(), Setting::Text(told.map()));
    all.insert(PADDING.to_owned(), number(told.padding()));
    let memory = kept.map_or(Bytes(0), |keeps| keeps.memory());
    all.insert(HOST_MEMORY.to_owned(), number(memory));
    if let Some(memory) = keeps {
        let (load, flush) = (memory.pm.load, memory.pm.flush);
        let times = format!("{load} to load a line, {flush} to flush it");
        all.insert(HOST_MEMORY_TIMES.to_owned(), Setting::Text(times));
    }
    let stack = &plan.stack;
    if let Some(host) = hosts::named(&stack.host, &stack.switches, &plan.behaviour) {
        let deallocates = hosts::Host::deallocates(&host) && !plan.behaviour.keep;
        all.insert(MKFS.to_owned(), Setting::Flag(deallocates));
    }
    all
}

/// Adds all fields of `part` under `key`.
fn add(all: &mut Configuration, key: &str, part: &impl Serialize) {
    match Value::try_from(part) {
        Ok(value) => flatten(all, key, value),
        Err(error) => {
            all.insert(key.to_owned(), Setting::Text(error.to_string()));
        }
    }
}

fn flatten(all: &mut Configuration, key: &str, value: Value) {
    let setting = match value {
        Value::Table(table) => {
            for (name, value) in table {
                flatten(all, &format!("{key}.{name}"), value);
            }
            return;
        }
        Value::Boolean(flag) => Setting::Flag(flag),
        Value::Integer(number) => Setting::Number(number.unsigned_abs()),
        Value::String(text) => Setting::Text(text),
        other => Setting::Text(other.to_string()),
    };
    all.insert(key.to_owned(), setting);
}

/// Fields that express several others together.
struct Told<'a> {
    drive: &'a DriveConfig,
    /// The drive's structures in the host's persistent memory.
    kept: Option<Keeps>,
}

impl Told<'_> {
    /// Geometry of an open-channel drive, whose mapping and write buffer are in the host; `None`
    /// for others.
    fn raw(&self) -> Option<RawGeometry> {
        RawGeometry::new(self.drive).ok().flatten()
    }

    /// Whether the host's write buffer is in persistent memory.
    const fn buffer_lasts(&self) -> bool {
        match self.kept {
            Some(Keeps::Swaps(config)) => config.lasting,
            Some(Keeps::Buffer(_)) => true,
            None => false,
        }
    }

    fn buffers(&self) -> Bytes {
        match self.raw() {
            Some(_) => Bytes(0),
            None => self.drive.dram().buffers,
        }
    }

    fn dram(&self) -> Bytes {
        let dram = self.drive.dram();
        Bytes(dram.map.0 + dram.front.0 + dram.ahead.0 + self.buffers().0)
    }

    fn dram_kept(&self) -> Bytes {
        let buffers = match self.drive.controller.power_loss_protection {
            true => self.buffers().0,
            false => 0,
        };
        Bytes(self.drive.front_kept().0 + buffers)
    }

    /// DRAM that the battery keeps, in words; `None` on a drive without a byte interface.
    fn battery(&self) -> Option<String> {
        let front = self.drive.front.as_ref()?;
        let (log, cache) = (front.log.bytes.0 > 0, front.cache.bytes.0 > 0);
        let kept = Bytes(self.dram_kept().0);
        Some(match (front.battery, log, cache) {
            (Battery::All, true, true) => format!("{kept}: log, page cache and write buffer"),
            (Battery::All, true, false) => format!("{kept}: log and write buffer"),
            (Battery::All, false, _) => format!("{kept}: page cache and write buffer"),
            (Battery::Log, true, _) => format!("{kept}: the log alone"),
            (Battery::Log, false, _) => "nothing, as there is no log".to_owned(),
            (Battery::None, _, _) => "nothing".to_owned(),
        })
    }

    fn write_buffer(&self) -> String {
        let size = self.drive.controller.write_buffer;
        if self.raw().is_some() {
            return match self.buffer_lasts() {
                true => format!("{size} in persistent memory of the host"),
                false => format!("{size} in the host, lost with the power"),
            };
        }
        let fate = match self.drive.controller.power_loss_protection {
            true => "protected",
            false => "lost with the power",
        };
        match &self.drive.zones {
            Some(zones) => {
                let (each, active) = (zones.buffer, zones.max_active);
                format!("{size} and {each} for each of {active} zones in the drive, {fate}")
            }
            None => format!("{size} in the drive, {fate}"),
        }
    }

    fn map(&self) -> String {
        let unit = self.drive.mapping.unit;
        match (self.drive.interface, self.kept) {
            (Interface::OpenChannel, Some(Keeps::Swaps(_))) => {
                format!("units of {unit}, in persistent memory of the host")
            }
            (Interface::OpenChannel, _) => format!("units of {unit}, in DRAM of the host"),
            (Interface::Zoned, _) => "zones, in the drive".to_owned(),
            _ => match self.drive.mapping.cache {
                Bytes(0) => format!("units of {unit}, in the drive"),
                cache => match self.drive.mapping.cache_holds {
                    CacheHolds::Pages => {
                        format!("units of {unit}, in the drive, {cache} of it in DRAM")
                    }
                    CacheHolds::Entries => {
                        format!("units of {unit}, in the drive, {cache} of single entries in DRAM")
                    }
                },
            },
        }
    }

    /// Size of the programs of a forced write: whole ones, unless the write buffer is persistent.
    fn padding(&self) -> Bytes {
        match self.raw() {
            Some(raw) if !self.buffer_lasts() => Bytes(u64::from(raw.write_min) * SECTOR),
            None if !self.drive.controller.power_loss_protection => {
                Bytes(u64::from(self.drive.geometry.sectors_per_program()) * SECTOR)
            }
            _ => Bytes(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Choices;
    use report::configuration::{FIELDS, Field, Role};
    use ssd::PRESETS;
    use workload::shipped::Asked;

    /// The plan of a stack with its default workload.
    fn plan(stack: &str) -> Plan {
        let stack = stack.parse().expect("it can be named");
        let asked = Asked::new(crate::usual_workload(&stack)).expect("it is shipped");
        let plan = Choices::default().plan(&stack, None, &asked);
        plan.expect("it can be run")
    }

    fn field(key: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.key == key)
    }

    /// A field without an entry would be compared under its key, unknown to readers.
    #[test]
    fn fields_of_every_preset_have_a_name_in_the_table() {
        let mut all = Configuration::new();
        for preset in PRESETS {
            add(&mut all, "drive", &(preset.config)());
        }
        for stack in ["ext4@block", "raw@zns", "hyfim+pmbuffer@ocssd", "nova@byte"] {
            let mut plan = plan(stack);
            plan.drive.collection.batch_lines = 1;
            plan.drive.collection.paced = true;
            plan.drive.mapping.cache_holds = CacheHolds::Entries;
            plan.behaviour.commit_interval = Some(units::Ns(1));
            plan.behaviour.cleaning_interval = Some(units::Ns(1));
            if let Some(front) = &mut plan.drive.front {
                front.battery = Battery::None;
            }
            all.extend(configuration(&plan));
        }
        let unknown: Vec<&String> = all.keys().filter(|key| field(key).is_none()).collect();
        assert!(unknown.is_empty(), "without a name: {unknown:?}");
        for Field { key, role, .. } in FIELDS {
            assert!(all.contains_key(*key), "{key} is no field");
            if let Role::Told(by) = role {
                assert!(field(by).is_some(), "{key} is told by {by}");
            }
        }
    }

    type Change = fn(&mut Plan);

    /// A field that is not compared itself must change the field that expresses it.
    #[test]
    fn field_expressed_by_another_changes_that_one() {
        let mut plan = plan("raw@byte");
        plan.drive.mapping.cache = Bytes(4096);
        let before = configuration(&plan);
        let changes: [(&str, Change); 8] = [
            (DRAM_KEPT, |p| {
                p.drive.front.as_mut().unwrap().battery = Battery::Log;
            }),
            (WRITE_BUFFER, |p| p.drive.controller.write_buffer.0 *= 2),
            (WRITE_BUFFER, |p| {
                p.drive.controller.power_loss_protection = false;
            }),
            (MAP, |p| p.drive.mapping.unit.0 *= 2),
            (MAP, |p| p.drive.mapping.cache.0 += 4096),
            (MAP, |p| p.drive.mapping.cache_holds = CacheHolds::Entries),
            (DRAM_KEPT, |p| {
                p.drive.controller.power_loss_protection = false;
            }),
            (DRAM_KEPT, |p| {
                p.drive.front.as_mut().expect("it has one").cache.bytes.0 *= 2;
            }),
        ];
        for (key, change) in changes {
            let mut changed = plan.clone();
            change(&mut changed);
            let after = configuration(&changed);
            assert_ne!(before[key], after[key], "{key}");
        }
    }

    #[test]
    fn open_channel_hosts_record_their_buffer_and_padding() {
        let told = |stack: &str| {
            let all = configuration(&plan(stack));
            [WRITE_BUFFER, MAP, PADDING].map(|key| all[key].clone())
        };
        let text = |text: &str| Setting::Text(text.to_owned());
        assert_eq!(
            told("btrfs@ocssd"),
            [
                text("6 MiB in the host, lost with the power"),
                text("units of 4 KiB, in DRAM of the host"),
                Setting::Number(96 << 10),
            ]
        );
        assert_eq!(
            told("hyfim+pmbuffer@ocssd"),
            [
                text("6 MiB in persistent memory of the host"),
                text("units of 4 KiB, in persistent memory of the host"),
                Setting::Number(0),
            ]
        );
    }
}
