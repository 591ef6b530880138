//! A remapping layer above a drive in a file.

use crate::keep::{config, made};
use engine::{Device, DeviceEngine, Fault, FileError, Handle, Medium, Pace, Show};
use sim::Seed;
use ssd::IoError;
use std::path::Path;
use std::rc::Rc;

const UNIT: u64 = 4096;

/// A powered drive behind the layer.
struct Powered(DeviceEngine, Handle<Device>);

impl Powered {
    fn start(path: &Path, show: Show) -> Result<Self, FileError> {
        let (engine, device) = Device::start(path, Pace::Free, show)?;
        Ok(Self(engine, device))
    }

    fn write(&self, unit: u64, word: u64) -> Result<(), Fault> {
        let bytes = word.to_le_bytes().repeat(512);
        let written =
            move |device: Rc<Device>| async move { device.write(unit * UNIT, &bytes).await };
        self.1.ask(written).expect("it has power")
    }

    fn zero(&self, unit: u64, units: u64) {
        let zeroed =
            move |device: Rc<Device>| async move { device.zero(unit * UNIT, units * UNIT).await };
        self.1.ask(zeroed).expect("it has power").expect("zeroed");
    }

    fn flush(&self) {
        let flushed = |device: Rc<Device>| async move { device.flush().await };
        self.1.ask(flushed).expect("it has power").expect("flushed");
    }

    /// First word of each of the first units.
    fn words(&self, units: u64) -> Vec<u64> {
        let read = move |device: Rc<Device>| async move {
            let mut words = Vec::new();
            for unit in 0..units {
                let bytes = device.read(unit * UNIT, 8).await.expect("read");
                words.push(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            }
            words
        };
        self.1.ask(read).expect("it has power")
    }

    fn end(self) {
        self.1.stop();
        self.0
            .join()
            .expect("it ends")
            .expect("the file is written");
    }
}

#[test]
fn flushed_writes_through_a_layer_are_in_the_file() {
    let (folder, path, _) = made(&config());
    let (mut rng, mut model) = (Seed(5).stream("writes"), vec![0; 800]);
    for life in 0..3 {
        let powered = Powered::start(&path, Show::Remapped).expect("it has power");
        assert_eq!(powered.words(800), model, "life {life}");
        for number in 0..600 {
            let unit = rng.below(800);
            if number % 50 == 9 {
                let units = rng.below(800 - unit).min(20) + 1;
                powered.zero(unit, units);
                model[unit as usize..(unit + units) as usize].fill(0);
            } else {
                powered.write(unit, life << 32 | number).expect("written");
                model[unit as usize] = life << 32 | number;
            }
        }
        powered.flush();
        // State of the file as after a crash of the process.
        let left = folder.path().join("left.flash");
        std::fs::copy(&path, &left).expect("copied");
        let again = Powered::start(&left, Show::Remapped).expect("it has power");
        assert_eq!(again.words(800), model, "life {life}, killed");
        again.end();
        powered.end();
    }
}

#[test]
fn drive_with_data_and_no_layer_is_rejected_unchanged() {
    let (_folder, path, _) = made(&config());
    let powered = Powered::start(&path, Show::Drive).expect("it has power");
    powered.write(7, 42).expect("written");
    powered.end();
    for show in [Show::Remapped, Show::Salvaged] {
        let refused = Powered::start(&path, show).err();
        assert!(matches!(refused, Some(FileError::Layer(_))), "{refused:?}");
    }
    let powered = Powered::start(&path, Show::Drive).expect("it has power");
    assert_eq!(powered.words(8)[7], 42);
    powered.end();
}

#[test]
fn salvaged_layer_rejects_writes_and_reports_damage() {
    let (_folder, path, _) = made(&config());
    let powered = Powered::start(&path, Show::Remapped).expect("it has power");
    powered.write(3, 9).expect("written");
    powered.end();
    let powered = Powered::start(&path, Show::Salvaged).expect("it has power");
    let refused = powered.write(3, 10);
    assert!(
        matches!(refused, Err(Fault::Drive(IoError::ReadOnly))),
        "{refused:?}"
    );
    powered.flush();
    assert_eq!(powered.words(4), [0, 0, 0, 9]);
    let told = |device: Rc<Device>| async move {
        let end = device.capacity();
        let holes = (device.seek(5, Medium::Data), device.seek(5, Medium::Hole));
        (
            device.damage().len(),
            end,
            holes,
            device.seek(end, Medium::Hole),
        )
    };
    let (damage, end, holes, beyond) = powered.1.ask(told).expect("it has power");
    assert_eq!((damage, holes, beyond), (0, (Some(5), Some(end)), None));
    powered.end();
}
