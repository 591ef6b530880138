//! Power cuts before every event of a run: data of each fsync that returned survive, an
//! fsync that did not return leaves old or new data, and the checker finds no defect.

use crate::bench::{AtRest, Fs, attached, config, made, mounted, root};
use host::ZonedDevice;
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveMedia};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{OpenFlags, Process, Source};

const FILES: usize = 12;
const ROUNDS: u64 = 40;
const MOST: u64 = 1 << 20;

/// Bytes of a file at its last fsync that returned (`forced`), and at the one in progress.
#[derive(Clone, Default)]
struct Expected {
    forced: Option<Vec<u8>>,
    next: Option<Vec<u8>>,
}

type Model = Rc<RefCell<Vec<Expected>>>;

fn name(file: usize) -> Vec<u8> {
    format!("/file {file}").into_bytes()
}

/// Creates files and overwrites them from the start, longer each round, with an fsync each.
async fn work(sim: Sim, port: ZonedDevice, model: Model) {
    let vfs = mounted(&sim, &port).await;
    let process = root(&vfs);
    for round in 1..=ROUNDS {
        let file = (round * 5) as usize % FILES;
        let (byte, len) = (round as u8, 9_000 + 777 * round);
        let bytes = vec![byte; len as usize];
        model.borrow_mut()[file].next = Some(bytes.clone());
        let flags = OpenFlags::CREATE | OpenFlags::BOTH;
        let fd = process.open(&name(file), flags, 0o644).await.unwrap();
        let pattern = u64::from(byte) * 0x0101_0101_0101_0101;
        let written = process.write(fd, Source::Fill { pattern, len }).await;
        assert_eq!(written, Ok(len));
        process.fsync(fd).await.unwrap();
        process.close(fd).await.unwrap();
        let mut model = model.borrow_mut();
        model[file].forced = model[file].next.take();
    }
}

/// Whether a file is legal after a cut: its length lies between the old and the new one, and
/// each byte is the old or the new one.
fn fits(shown: Option<&[u8]>, expected: &Expected) -> bool {
    let Some(shown) = shown else {
        return expected.forced.is_none();
    };
    let lens = [&expected.forced, &expected.next].map(|bytes| bytes.as_ref().map(Vec::len));
    let (least, most) = (lens[0].unwrap_or(0), lens[1].max(lens[0]).unwrap_or(0));
    let known = |at: usize, byte: u8| {
        let either = [&expected.forced, &expected.next];
        let mut of = either.into_iter().flatten();
        of.any(|bytes| bytes.get(at) == Some(&byte))
    };
    (least..=most).contains(&shown.len())
        && shown.iter().enumerate().all(|(at, &byte)| known(at, byte))
}

/// Path of the file created after recovery.
const LATER: &[u8] = b"/later";

/// Creates, writes and fsyncs a file after recovery.
async fn go_on(process: &Process<Fs>) {
    let flags = OpenFlags::CREATE | OpenFlags::BOTH;
    let fd = process.open(LATER, flags, 0o644).await.unwrap();
    let source = Source::Fill {
        pattern: u64::MAX,
        len: 5_000,
    };
    process.write(fd, source).await.unwrap();
    process.fsync(fd).await.unwrap();
    process.close(fd).await.unwrap();
}

/// Powers on, mounts, checks all files, and fsyncs [`LATER`]. With `again`, cuts the power
/// after that many events and judges once more. `later` tells whether [`LATER`] must exist.
fn judge(media: DriveMedia, model: &[Expected], later: bool, again: Option<u64>) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let model = model.to_vec();
    let drive: Rc<RefCell<Option<Drive>>> = Rc::default();
    let (powered, kept, seen) = (Rc::clone(&drive), media.clone(), model.clone());
    let (done, gone_on) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(later)));
    let (ended, forced) = (Rc::clone(&done), Rc::clone(&gone_on));
    sim.clone().spawn_detached(async move {
        let drive = Drive::power_on(&sim, &config(), kept, Seed(1))
            .await
            .unwrap();
        *powered.borrow_mut() = Some(drive.clone());
        let port = attached(&sim, &drive);
        let vfs = mounted(&sim, &port).await;
        let process = root(&vfs);
        for (file, expected) in seen.iter().enumerate() {
            let mut shown = vec![0; MOST as usize];
            let fd = process.open(&name(file), OpenFlags::READ, 0).await;
            let shown = match fd {
                Err(_) => None,
                Ok(fd) => {
                    let mut sink = shown.as_mut_slice();
                    let len = process.read(fd, MOST, &mut sink).await.unwrap();
                    process.close(fd).await.unwrap();
                    Some(&shown[..len as usize])
                }
            };
            assert!(fits(shown, expected), "file {file}");
        }
        let found = process.stat(LATER).await.is_ok();
        assert!(found || !later, "what was forced after a recovery");
        go_on(&process).await;
        forced.set(true);
        vfs.unmount().await.unwrap();
        assert_eq!(persimmon::check(&AtRest(port, drive)), [""; 0]);
        ended.set(true);
    });
    let mut left = again;
    while kernel.step() {
        if left == Some(0) {
            let media = drive.borrow().as_ref().map_or(media, Drive::at_power_cut);
            return judge(media, &model, gone_on.get(), None);
        }
        left = left.map(|left| left - 1);
    }
    assert!(done.get(), "recovery came to rest before its end");
}

#[test]
fn fsynced_file_survives_a_cut_at_every_event() {
    let base = made();
    let (mut cut, mut rng) = (1, Seed(3).stream("recoveries"));
    loop {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let drive = Drive::ready(&sim, &config(), base.clone(), Seed(1)).expect("as before");
        let model: Model = Rc::new(RefCell::new(vec![Expected::default(); FILES]));
        let port = attached(&sim, &drive);
        sim.spawn_detached(work(sim.clone(), port, Rc::clone(&model)));
        while sim.events() < cut && kernel.step() {}
        if sim.events() < cut {
            break;
        }
        let again = (cut % 4 == 0).then(|| rng.below(1_200));
        judge(drive.at_power_cut(), &model.borrow(), false, again);
        cut += 1;
    }
    assert!(cut > 1_000, "{cut} cuts");
}
