//! Errors of the drive, and the reaction of each mount option.

use crate::bench::{BLOCK, CACHED, DIRECT, cnv, config, mounted, on, seq, text};
use host::{Who, ZonedDevice, ZonedPort};
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneState, ZoneStatus, ZoneUse};
use std::cell::Cell;
use std::rc::Rc;
use units::{Extent, Lba, Ns};
use vfs::Errno;
use zonefs::{OnError, Options, Superblock, ZoneFs};

/// A drive with injected failures of commands and of zones.
#[derive(Clone)]
struct Failing {
    device: ZonedDevice,
    /// Selects writes and flushes, or reads, to fail.
    writes: Rc<Cell<bool>>,
    reads: Rc<Cell<bool>>,
    /// State of zones that the drive reports instead of the real one.
    state: Rc<Cell<Option<ZoneState>>>,
    /// Makes reports of zones fail.
    silent: Rc<Cell<bool>>,
}

impl Failing {
    fn new(device: ZonedDevice) -> Self {
        Self {
            device,
            writes: Rc::default(),
            reads: Rc::default(),
            state: Rc::default(),
            silent: Rc::default(),
        }
    }
}

impl ZonedPort for Failing {
    host::pass_zoned!([|own| &own.device] limits, zone, in_use);

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        if self.silent.get() {
            return Err(ZoneStatus::InvalidField);
        }
        let mut zones = self.device.report(first, count).await?;
        if let Some(state) = self.state.get() {
            for zone in zones.iter_mut().filter(|zone| zone.zone > 0) {
                (zone.state, zone.write_pointer) = (state, None);
            }
        }
        Ok(zones)
    }
    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        if self.reads.get() {
            return Err(ZoneStatus::UnrecoveredRead);
        }
        self.device.read(extent, sink, who).await
    }
    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        if !self.writes.get() {
            return self.device.write(extent, content, who, fua).await;
        }
        // A part of the write reaches the medium.
        let part = Extent::new(extent.start.0, 8);
        let Content::Bytes(bytes) = content else {
            return Err(ZoneStatus::WriteFault);
        };
        self.device
            .write(part, Content::Bytes(&bytes[..4096]), who, fua)
            .await?;
        Err(ZoneStatus::WriteFault)
    }
    async fn append(
        &self,
        _: u32,
        _: u32,
        _: Content<'_>,
        _: Who,
        _: bool,
    ) -> Result<Lba, ZoneStatus> {
        unreachable!("files are written at their ends")
    }
    async fn copy(&self, _: &[Extent], _: Lba) -> Result<(), ZoneStatus> {
        unreachable!("nothing is copied")
    }
    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        if self.writes.get() {
            return Err(ZoneStatus::InvalidTransition);
        }
        self.device.manage(zone, action).await
    }
    async fn commit(&self, _: Lba) -> Result<(), ZoneStatus> {
        unreachable!("there is no random write area")
    }
    async fn flush(&self) -> Result<(), ZoneStatus> {
        match self.writes.get() {
            true => Err(ZoneStatus::WriteFault),
            false => self.device.flush().await,
        }
    }
    fn compute(&self, span: Ns) -> host::Computing {
        self.device.compute(span)
    }
}

/// Size, whether the file can be read and written, whether another file can be written,
/// permissions.
type Left = (u64, bool, bool, bool, u16);

async fn left(fs: &ZoneFs) -> Left {
    let now = fs.attributes(seq(0)).unwrap();
    let read = fs.read(seq(0), 0, 1, false).await.is_ok();
    let writes = fs
        .write(seq(0), now.size, &text(0, 1), DIRECT)
        .await
        .is_ok();
    let others = fs.write(seq(1), 0, &text(0, 1), DIRECT).await.is_ok();
    (now.size, read, writes, others, now.perm)
}

/// State after a failed write of three blocks behind two, of which one block arrived.
fn after(errors: OnError, state: Option<ZoneState>) -> Left {
    on(&config(|_| {}), async move |sim, device| {
        let port = Failing::new(device);
        let options = Options {
            errors,
            ..Options::default()
        };
        let fs = mounted(&sim, &port, &Superblock::default(), options).await;
        fs.write(seq(0), 0, &text(0, 2), DIRECT).await.unwrap();
        port.writes.set(true);
        port.state.set(state);
        let failed = fs.write(seq(0), 2 * BLOCK, &text(2, 3), DIRECT).await;
        assert_eq!(failed, Err(Errno::ENODATA));
        port.writes.set(false);
        left(&fs).await
    })
}

//= zonefs 5
#[test]
fn a_write_that_fails_leaves_what_the_table_says() {
    let (two, three) = (2 * BLOCK, 3 * BLOCK);
    let read_only = Some(ZoneState::ReadOnly);
    let offline = Some(ZoneState::Offline);
    let gone = (0, false, false);
    for (errors, state, file, others, perm) in [
        (
            OnError::RemountReadOnly,
            None,
            (two, true, false),
            false,
            0o640,
        ),
        (
            OnError::RemountReadOnly,
            read_only,
            (two, true, false),
            false,
            0o440,
        ),
        (OnError::RemountReadOnly, offline, gone, false, 0),
        (OnError::ZoneReadOnly, None, (two, true, false), true, 0o440),
        (
            OnError::ZoneReadOnly,
            read_only,
            (two, true, false),
            true,
            0o440,
        ),
        (OnError::ZoneReadOnly, offline, gone, true, 0),
        (OnError::ZoneOffline, None, gone, true, 0),
        (OnError::ZoneOffline, read_only, gone, true, 0),
        (OnError::ZoneOffline, offline, gone, true, 0),
        (OnError::Repair, None, (three, true, true), true, 0o640),
        (OnError::Repair, read_only, (two, true, false), true, 0o440),
        (OnError::Repair, offline, gone, true, 0),
    ] {
        let (size, reads, writes) = file;
        let expected = (size, reads, writes, others, perm);
        assert_eq!(after(errors, state), expected, "{errors:?} {state:?}");
    }
}

#[test]
fn a_read_that_fails_changes_nothing_while_the_zone_is_good() {
    on(&config(|_| {}), async |sim, device| {
        let port = Failing::new(device);
        let fs = mounted(&sim, &port, &Superblock::default(), Options::default()).await;
        fs.write(seq(0), 0, &text(0, 2), DIRECT).await.unwrap();
        port.reads.set(true);
        assert_eq!(fs.read(seq(0), 0, 1, false).await, Err(Errno::EIO));
        let direct = fs.read(seq(0), 0, 4096, true).await;
        assert_eq!(direct, Err(Errno::ENODATA), "the medium is to blame");
        port.reads.set(false);
        assert_eq!(left(&fs).await, (2 * BLOCK, true, true, true, 0o640));
        port.reads.set(true);
        port.state.set(Some(ZoneState::Offline));
        assert_eq!(fs.read(seq(0), 0, 1, false).await, Err(Errno::EIO));
        assert_eq!(fs.read(seq(0), 0, 1, false).await, Err(Errno::EPERM));
        assert!(fs.is_read_only());
    });
}

#[test]
fn a_flush_that_fails_is_told_and_nothing_is_written_any_more() {
    on(&config(|_| {}), async |sim, device| {
        let port = Failing::new(device);
        let fs = mounted(&sim, &port, &Superblock::default(), Options::default()).await;
        fs.write(seq(0), 0, &text(0, 2), DIRECT).await.unwrap();
        port.writes.set(true);
        assert_eq!(fs.fsync(seq(0)).await, Err(Errno::ENODATA));
        port.writes.set(false);
        assert_eq!(
            fs.write(seq(0), 2 * BLOCK, &text(0, 1), DIRECT).await,
            Err(Errno::EROFS)
        );
        assert_eq!(fs.truncate(seq(1), 0).await, Err(Errno::EROFS));
    });
}

#[test]
fn a_conventional_file_keeps_its_size_whatever_fails() {
    let config = config(|zones| zones.conventional = 2);
    for (errors, reads, writes) in [
        (OnError::RemountReadOnly, true, false),
        (OnError::ZoneReadOnly, true, false),
        (OnError::ZoneOffline, false, false),
        (OnError::Repair, true, true),
    ] {
        on(&config, async move |sim, device| {
            let port = Failing::new(device);
            let options = Options {
                errors,
                ..Options::default()
            };
            let fs = mounted(&sim, &port, &Superblock::default(), options).await;
            let most = fs.attributes(cnv(0)).unwrap().size;
            port.writes.set(true);
            // Through the cache the error of the medium is lost.
            let failed = fs.write(cnv(0), 0, &text(0, 2), CACHED).await;
            assert_eq!(failed, Err(Errno::EIO));
            port.writes.set(false);
            let expected = if errors == OnError::ZoneOffline {
                0
            } else {
                most
            };
            assert_eq!(fs.attributes(cnv(0)).unwrap().size, expected);
            assert_eq!(fs.read(cnv(0), 0, 1, false).await.is_ok(), reads);
            let wrote = fs.write(cnv(0), 0, b"x", CACHED).await;
            assert_eq!(wrote.is_ok(), writes, "{errors:?}");
        });
    }
}

#[test]
fn a_drive_that_does_not_say_how_its_zones_are_is_not_written() {
    on(&config(|_| {}), async |sim, device| {
        let port = Failing::new(device);
        let options = Options {
            errors: OnError::Repair,
            ..Options::default()
        };
        let fs = mounted(&sim, &port, &Superblock::default(), options).await;
        port.writes.set(true);
        port.silent.set(true);
        let failed = fs.write(seq(0), 0, &text(0, 2), DIRECT).await;
        assert_eq!(failed, Err(Errno::ENODATA));
        assert!(fs.is_read_only());
        assert_eq!(fs.open(seq(0), true).await, Err(Errno::EROFS));
    });
}

#[test]
fn a_zone_that_cannot_be_closed_ends_all_writes() {
    on(&config(|_| {}), async |sim, device| {
        let port = Failing::new(device);
        let options = Options {
            errors: OnError::Repair,
            explicit_open: true,
            ..Options::default()
        };
        let fs = mounted(&sim, &port, &Superblock::default(), options).await;
        fs.open(seq(0), true).await.unwrap();
        fs.write(seq(0), 0, &text(0, 1), DIRECT).await.unwrap();
        port.writes.set(true);
        fs.release(seq(0), true).await;
        assert!(fs.is_read_only());
    });
}

#[test]
fn what_is_refused_for_two_reasons_names_that_of_linux() {
    on(&config(|_| {}), async |sim, device| {
        let port = Failing::new(device);
        let fs = mounted(&sim, &port, &Superblock::default(), Options::default()).await;
        port.writes.set(true);
        port.state.set(Some(ZoneState::ReadOnly));
        let block = text(0, 1);
        assert_eq!(
            fs.write(seq(0), 0, &block, DIRECT).await,
            Err(Errno::ENODATA)
        );
        // Both the file and the file system are read-only.
        assert_eq!(fs.write(seq(0), 0, &block, DIRECT).await, Err(Errno::EPERM));
        assert_eq!(fs.write(seq(1), 0, &block, DIRECT).await, Err(Errno::EROFS));
        assert_eq!(fs.open(seq(0), true).await, Err(Errno::EROFS));
        assert_eq!(fs.truncate(seq(0), 0).await, Err(Errno::EROFS));
        let changed = fs.set_attributes(seq(0), Some(0), (None, None));
        assert_eq!(changed, Err(Errno::EROFS));
    });
}

#[test]
fn zones_that_have_failed_before_are_found_so() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        on(&config(|_| {}), async move |sim, device| {
            let port = Failing::new(device);
            let fs = mounted(&sim, &port, &Superblock::default(), Options::default()).await;
            fs.write(seq(0), 0, &text(0, 2), DIRECT).await.unwrap();
            port.state.set(Some(state));
            let fs = ZoneFs::mount(&sim, &port, Options::default())
                .await
                .unwrap();
            let now = fs.attributes(seq(0)).unwrap();
            assert_eq!((now.size, now.perm), (0, 0));
            assert_eq!(fs.read(seq(0), 0, 1, false).await, Err(Errno::EPERM));
            assert_eq!(fs.open(seq(0), true).await, Err(Errno::EPERM));
            assert_eq!(fs.truncate(seq(0), 0).await, Err(Errno::EPERM));
            assert_eq!(fs.fsync(seq(0)).await, Err(Errno::EPERM));
        });
    }
}
