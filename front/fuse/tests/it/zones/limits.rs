//! Limits of open and active zones, and their reports.

use super::bench::{DIRECT, MOST, SEQUENTIAL, Shown, told};
use nix::errno::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use zonefs::{OnError, Options};

const EXPLICIT: Options = Options {
    errors: OnError::Repair,
    explicit_open: true,
    read_only: false,
    origin: units::Origin(0),
};

impl Shown {
    /// Number of files open for writing, and of active ones, as the document reports.
    fn counts(&self) -> (u64, u64) {
        let count = |name| self.count(name);
        (count("nr_wro_seq_files"), count("nr_active_seq_files"))
    }

    /// Waits for the counts: the kernel reports a close some time after it.
    fn counts_become(&self, expected: (u64, u64)) {
        let mut counts = self.counts();
        for _ in 0..1000 {
            if counts == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            counts = self.counts();
        }
        assert_eq!(counts, expected);
    }
}

#[test]
fn open_without_explicit_open_is_counted_and_opens_no_zone() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options {
        explicit_open: false,
        ..EXPLICIT
    });
    let name = |number: u64| format!("seq/{number}");
    let read: Vec<File> = (0..SEQUENTIAL)
        .map(|number| File::open(shown.path(&name(number))).expect("opened"))
        .collect();
    assert_eq!(shown.counts(), (0, 0));
    let files = (0..SEQUENTIAL).map(|number| shown.open(&name(number), DIRECT));
    let files: Vec<File> = files.map(|file| file.expect("opened")).collect();
    let cnv = shown.open("cnv/0", 0).expect("opened");
    assert_eq!(shown.counts(), (SEQUENTIAL, 0));
    for (number, file) in files.iter().take(5).enumerate() {
        file.write_at(&[1; 4096], 0).expect("written");
        assert_eq!(shown.counts(), (SEQUENTIAL, number as u64 + 1));
    }
    // The drive allows no sixth active zone.
    assert_eq!(
        told(files[5].write_at(&[1; 4096], 0)),
        Err(Errno::EOVERFLOW)
    );
    let table = shown.table();
    assert_eq!(table["why_refused"]["refused"], "seq/5");
    let held = ["seq/0", "seq/1", "seq/2", "seq/3", "seq/4"];
    assert_eq!(table["why_refused"]["held_by"], serde_json::json!(held));
    files[0].set_len(0).expect("cut");
    files[1].set_len(MOST).expect("finished");
    assert_eq!(shown.counts(), (SEQUENTIAL, 3));
    assert_eq!(told(files[5].write_at(&[1; 4096], 0)), Ok(4096));
    drop((read, files, cnv));
    shown.counts_become((0, 4));
}

//= zonefs 6
#[test]
fn open_with_explicit_open_opens_a_zone() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(EXPLICIT);
    let state = |zone| {
        let zone = shown.behind(async move |all| all.info(zone));
        zone.expect("a zone").state.name()
    };
    let names = ["seq/0", "seq/1", "seq/2", "seq/3"];
    let open = |name: &str| shown.open(name, DIRECT);
    let files: Vec<File> = names.map(|name| open(name).expect("opened")).into();
    assert_eq!((shown.counts(), state(3)), ((4, 4), "explicitly-open"));
    assert_eq!(told(open("seq/4")).err(), Some(Errno::EBUSY));
    assert_eq!(
        shown.table()["why_refused"]["held_by"],
        serde_json::json!(names)
    );
    File::open(shown.path("seq/4")).expect("it is opened to be read");
    let twice = open("seq/0").expect("it has its zone");
    twice.write_at(&[1; 4096], 0).expect("written");
    // A reset file can be written again.
    twice.set_len(0).expect("cut");
    assert_eq!(state(3), "explicitly-open");
    twice.write_at(&[1; 4096], 0).expect("written");
    drop(twice);
    assert_eq!(shown.counts(), (4, 4));
    drop(files);
    // The written zone stays active; the others are closed.
    shown.counts_become((0, 1));
    assert_eq!((state(3), state(4)), ("closed", "empty"));
    let file = open("seq/4").expect("opened");
    file.set_len(MOST).expect("finished");
    assert_eq!((shown.counts(), state(7)), ((1, 1), "full"));
    drop(file);
    let full = open("seq/4").expect("a full one needs no zone");
    assert_eq!(state(7), "full");
    drop(full);
    // The mount closes zones that were left open.
    let opened = shown.behind(async |all| all.manage(8, ssd::ZoneAction::Open).await);
    opened.expect("opened");
    let shown = shown.again(EXPLICIT);
    assert_eq!(shown.counts(), (0, 1));
}
