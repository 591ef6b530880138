//! Sharing of files between clients: leases for writes by a ring, moves to the ordinary file
//! system, and write errors.
//!
//! Invariants:
//! - At most one client has the lease of a file.
//! - Every other way to change a file revokes the lease and drains the lease holder's ring first.
//! - While a client moves a file away, no other client accesses it.
//! - A stand-in is not resized once it has become the file itself.

use super::clients::Client;
use super::stands;
use super::volume::{Fault, Volume};
use crate::place::Mark;
use crate::share::memory::{LeaseId, Record};
use crate::sys::{self, Errno};
use core::ffi::c_int;
use shimmer::{FileId, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that a client may spend in a write to its ring. A client that was stopped inside a
/// write is cut off after that, so that others can go on.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of bytes that a client may write to its ring before it requests more credit.
const CREDIT_MAX: u64 = 64 << 20;

/// Maximum number of renewed numbers that are remembered; a client requests one right after it
/// found the old number unknown.
const RENEWED_MAX: usize = 1 << 16;

/// Leases, and files that are being moved, resized or renewed.
#[derive(Default)]
struct Table {
    leases: BTreeMap<FileId, u64>,
    /// Files that a client is moving to the ordinary file system.
    moving: BTreeMap<FileId, Mover>,
    /// Files that were moved away and that clients still have open.
    moved: BTreeSet<FileId>,
    /// Files whose stand-in is being resized.
    standing: BTreeSet<FileId>,
    /// File numbers that the log did not know, and their replacements.
    renewed: BTreeMap<FileId, FileId>,
}

/// The client that moves a file away, by its token, and a descriptor of the file's stand-in.
struct Mover {
    token: u64,
    stand: OwnedFd,
}

/// The volume, and the state of its files that clients share.
pub(super) struct Sharing {
    pub(super) volume: Volume,
    table: Mutex<Table>,
    settled: Condvar,
    /// The first error of writes by a ring that failed, by file. These writes were already
    /// acknowledged, so every later call that can fail reports the error, until a sync has reported
    /// it.
    failed: Mutex<BTreeMap<FileId, Errno>>,
}

/// Exclusive access to a file: no other client changes it while this lives.
pub(super) struct Alone<'a> {
    table: MutexGuard<'a, Table>,
}

impl Sharing {
    pub(super) fn new(volume: Volume) -> Self {
        Self {
            volume,
            table: Mutex::default(),
            settled: Condvar::new(),
            failed: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies all records that a client has put in its ring up to now. Cuts off a client that
    /// stays inside a write for longer than [`PATIENCE`].
    pub(super) fn drain(&'static self, client: &Client) {
        let _one = client.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let end = client.memory.tail();
        let begun = Instant::now();
        loop {
            let each = |record: Record<'_>| self.write_record(client, &record);
            let came = client.memory.take(end, client.is_gone(), each);
            match came {
                Some(at) if at >= end => return,
                Some(_) if client.is_gone() => return,
                Some(_) if begun.elapsed() < PATIENCE => sys::yields(),
                _ => return client.cut_off(),
            }
        }
    }

    fn write_record(&'static self, client: &Client, record: &Record<'_>) {
        let id = FileId(record.file);
        if !client.held().opens.contains_key(&id) {
            return;
        }
        let errno = match self.volume.write(id, Some(record.at), record.data) {
            Ok((_, done)) if done == record.data.len() => return,
            Err(Fault::Gone) => return,
            Ok(_) => libc::ENOSPC,
            Err(Fault::Errno(errno)) => errno,
            Err(Fault::Demote) => libc::EIO,
        };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        // Writes behind a gap are refused because of the gap; the first error is the cause.
        failed.entry(id).or_insert(errno);
    }

    /// The pending write error of a file, if there is one.
    pub(super) fn sound(&self, id: FileId) -> Result<(), Fault> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed
            .get(&id)
            .map_or(Ok(()), |errno| Err(Fault::Errno(*errno)))
    }

    /// Reports a pending write error to a sync, and clears it. Also revokes the lease, as the lease
    /// holder would go on writing at an end that the file does not have.
    pub(super) fn report(&'static self, id: FileId) -> Result<(), Fault> {
        let told = self.sound(id);
        if told.is_err() {
            let mut table = self.table();
            self.revoke(&mut table, id);
            self.forgive(id);
        }
        told
    }

    fn forgive(&self, id: FileId) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.remove(&id);
    }

    /// Cuts or extends a file to `size` bytes. This clears a pending write error, as the caller has
    /// decided where the file ends.
    pub(super) fn truncate(&'static self, id: FileId, size: u64) -> Result<(), Fault> {
        let mut table = self.still(id, None)?;
        self.revoke(&mut table, id);
        self.volume.truncate(id, size)?;
        self.forgive(id);
        self.volume.clients.zones_change();
        Ok(())
    }

    /// Waits until no other client is moving the file away, then drains the lease holder's ring.
    /// Returns [`Fault::Gone`] if the file was moved.
    pub(super) fn settle(&'static self, id: FileId, who: &Client) -> Result<(), Fault> {
        let table = self.still(id, Some(who))?;
        let writer = table.leases.get(&id).copied();
        drop(table);
        if let Some(client) = writer.and_then(|token| self.volume.clients.get(token)) {
            self.drain(&client);
        }
        Ok(())
    }

    /// Waits until no client is moving the file away. The client `who` only reads and does not
    /// wait for its own move; with `None` this also waits until the stand-in is resized.
    fn still(&self, id: FileId, who: Option<&Client>) -> Result<MutexGuard<'_, Table>, Fault> {
        let own = who.map(|who| who.token);
        let mut table = self.table();
        let waits = |table: &Table| {
            let moves = table.moving.get(&id);
            let stands = who.is_none() && table.standing.contains(&id);
            stands || moves.is_some_and(|mover| Some(mover.token) != own)
        };
        while waits(&table) {
            let waited = self.settled.wait(table);
            table = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if table.moved.contains(&id) {
            return Err(Fault::Gone);
        }
        Ok(table)
    }

    /// Revokes the lease of a file, and keeps other clients from changing it while the result
    /// lives.
    pub(super) fn alone(&'static self, id: FileId) -> Result<Alone<'static>, Fault> {
        let mut table = self.still(id, None)?;
        self.sound(id)?;
        self.revoke(&mut table, id);
        Ok(Alone { table })
    }

    fn revoke(&'static self, table: &mut Table, id: FileId) {
        let Some(token) = table.leases.remove(&id) else {
            return;
        };
        let Some(client) = self.volume.clients.get(token) else {
            return;
        };
        let lease = client.held().leases.get(&id).copied();
        let Some(lease) = lease else { return };
        let begun = Instant::now();
        while !client.memory.revoke(lease) && !client.is_gone() {
            if begun.elapsed() > PATIENCE {
                client.cut_off();
            }
            sys::yields();
        }
        client.held().leases.remove(&id);
        self.drain(&client);
    }

    /// Grants a client the lease of a file, unless another client has it. Returns the file's length
    /// at this time, too.
    pub(super) fn lease(
        &'static self,
        id: FileId,
        who: &Arc<Client>,
    ) -> Result<(u64, Option<LeaseId>), Fault> {
        let mut table = self.still(id, None)?;
        self.sound(id)?;
        self.fill_purse(who);
        let free = match table.leases.get(&id) {
            Some(_) => None,
            None => who.held().new_lease(),
        };
        let size = self.volume.status(id).ok_or(Fault::Gone)?.size;
        if let Some(lease) = free {
            table.leases.insert(id, who.token);
            who.held().leases.insert(id, lease);
            who.memory.grant(lease);
        }
        Ok((size, free))
    }

    /// Sets the number of bytes that a client may write to its ring. Credit and undrained bytes of
    /// other clients are subtracted from the room first, so that no room is promised twice.
    pub(super) fn fill_purse(&'static self, who: &Client) {
        let mut spoken = 0;
        for client in self.volume.clients.every() {
            let credit = client.memory.credit().max(0) as u64;
            let own = client.token == who.token;
            let credit = if own { 0 } else { credit.min(CREDIT_MAX) };
            spoken += credit + 2 * client.memory.waiting().min(CREDIT_MAX);
        }
        let room = self.volume.lock().core.room().saturating_sub(spoken);
        who.memory.grant_credit((room / 2).min(CREDIT_MAX) as i64);
    }

    /// Closes a file once for a client; its last close gives the lease up.
    pub(super) fn closed(&'static self, id: FileId, who: &Client) {
        let mut table = self.table();
        let last = {
            let mut held = who.held();
            let Some(count) = held.opens.get_mut(&id) else {
                return;
            };
            *count -= 1;
            *count == 0
        };
        if last {
            if table.leases.get(&id) == Some(&who.token) {
                self.revoke(&mut table, id);
            }
            who.held().opens.remove(&id);
        }
        self.volume.closed(id);
        self.forget(&mut table, id);
    }

    fn forget(&'static self, table: &mut Table, id: FileId) {
        if self.volume.status(id).is_none() {
            table.moved.remove(&id);
            self.forgive(id);
        }
    }

    /// Resizes the stand-in `fd` of a file to the file's length.
    pub(super) fn stands(&'static self, id: FileId, fd: c_int) -> Result<(), Fault> {
        let mut table = self.still(id, None)?;
        table.standing.insert(id);
        drop(table);
        // The stand-in may be on a slow file system: other clients need not wait for it.
        if let Some(status) = self.volume.status(id)
            && let Ok(stat) = sys::stat(fd)
            && stat.st_size as u64 != status.size
        {
            stands::resize(fd, stat.st_size as u64, status.size);
        }
        self.table().standing.remove(&id);
        self.settled.notify_all();
        Ok(())
    }

    /// Resizes the stand-in of a file whose writer died, found by its path.
    fn stands_by_path(&'static self, id: FileId) {
        let path = self.volume.lock().core.path(id).map(<[u8]>::to_vec);
        let own = Mark {
            volume: self.volume.number,
            id,
        };
        if let Some(stand) = path.and_then(|path| stands::at(&path, own)) {
            let _ = self.stands(id, stand.as_raw_fd());
        }
    }

    /// Assigns a new number to a file whose number the log does not know because it was never
    /// synced. All clients that request a replacement for `old` get the same one.
    pub(super) fn renew(
        &'static self,
        old: FileId,
        (path, tag): (&[u8], &[u8]),
    ) -> Result<FileId, Fault> {
        let mut table = self.table();
        if let Some(id) = table.renewed.get(&old) {
            return Ok(*id);
        }
        let id = self.volume.create(path, Placement::default(), tag)?;
        // `create` counts an open; the client that requested the number opens the file itself.
        self.volume.closed(id);
        if table.renewed.len() >= RENEWED_MAX {
            table.renewed.pop_first();
        }
        table.renewed.insert(old, id);
        Ok(id)
    }

    /// Reserves a file for a client that moves it into its stand-in `stand`.
    pub(super) fn move_begins(
        &'static self,
        id: FileId,
        who: &Client,
        stand: c_int,
    ) -> Result<(), Fault> {
        let stand = sys::copy(stand)?;
        // SAFETY: the descriptor was just made, and is owned by nothing else.
        let stand = unsafe { OwnedFd::from_raw_fd(stand) };
        let mut alone = self.alone(id)?;
        let token = who.token;
        alone.table.moving.insert(id, Mover { token, stand });
        Ok(())
    }

    /// Ends a move; if it is `done`, the stand-in is the file from now on.
    pub(super) fn move_ends(&'static self, id: FileId, who: &Client, done: bool) {
        let mut table = self.table();
        let own = |mover: &Mover| mover.token == who.token;
        if table.moving.get(&id).is_some_and(own) {
            table.moving.remove(&id);
            if done {
                self.has_moved(&mut table, id);
            }
            self.settled.notify_all();
        }
    }

    fn has_moved(&'static self, table: &mut Table, id: FileId) {
        table.moved.insert(id);
        self.volume.unlinked(id, b"");
        self.volume.clients.zones_change();
        self.forget(table, id);
    }

    /// Drains the ring of a client that has disconnected, and releases all that it held.
    pub(super) fn gone(&'static self, who: &Client) {
        who.goes();
        self.drain(who);
        let mut table = self.table();
        let moving: Vec<_> = table
            .moving
            .extract_if(.., |_, mover| mover.token == who.token)
            .collect();
        for (id, mover) in moving {
            if self.was_moved(id, &mover) {
                self.has_moved(&mut table, id);
            }
        }
        table.leases.retain(|_, token| *token != who.token);
        self.settled.notify_all();
        let held = std::mem::take(&mut *who.held());
        drop(table);
        for (id, count) in held.opens {
            self.stands_by_path(id);
            let mut table = self.table();
            for _ in 0..count {
                self.volume.closed(id);
            }
            self.forget(&mut table, id);
        }
        for parts in held.pins.into_values() {
            self.volume.release(&parts);
        }
        self.volume.clients.remove(who.token);
    }

    /// Whether a client that died while moving a file had finished: the stand-in then no longer has
    /// the file's mark. Its path is no evidence: by now another file may have it.
    fn was_moved(&self, id: FileId, mover: &Mover) -> bool {
        let own = Mark {
            volume: self.volume.number,
            id,
        };
        Mark::read(mover.stand.as_raw_fd()).is_ok_and(|mark| mark != Some(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Instead;
    use crate::share::memory::Lease;
    use std::ffi::CString;

    /// A volume of eight emulated zones, and a client of it.
    fn sharing() -> (tempfile::TempDir, &'static Sharing, Arc<Client>) {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("seq")).unwrap();
        for zone in 0..8 {
            std::fs::write(at(&format!("seq/{zone}")), "").unwrap();
        }
        std::fs::write(at("emulated"), "capacity=1048576\nopen=5\nactive=6\n").unwrap();
        let name = CString::new(folder.path().as_os_str().as_encoded_bytes()).unwrap();
        let sharing = Box::leak(Box::new(Sharing::new(Volume::open(&name).unwrap())));
        (folder, sharing, client(sharing, 1))
    }

    fn client(sharing: &'static Sharing, token: u64) -> Arc<Client> {
        let (client, fd) = Client::new(token, 99).unwrap();
        sys::close(fd);
        let client = Arc::new(client);
        assert!(sharing.volume.clients.insert(Arc::clone(&client)));
        client
    }

    /// A file of `len` bytes that a client has open.
    fn file(sharing: &'static Sharing, client: &Client, path: &[u8], len: usize) -> FileId {
        let id = sharing
            .volume
            .create(path, Placement::default(), b"")
            .unwrap();
        client.held().opens.insert(id, 1);
        sharing.volume.write(id, None, &vec![7; len]).unwrap();
        id
    }

    #[test]
    fn stand_in_is_not_resized_once_it_is_the_file() {
        let (_folder, sharing, client) = sharing();
        let id = file(sharing, &client, b"/a", 100);
        let stand = tempfile::tempfile().unwrap();
        let len = || stand.metadata().unwrap().len();
        sharing.stands(id, stand.as_raw_fd()).unwrap();
        assert_eq!(len(), 100);
        sharing.move_begins(id, &client, stand.as_raw_fd()).unwrap();
        std::thread::scope(|scope| {
            let late = scope.spawn(|| sharing.stands(id, stand.as_raw_fd()));
            stand.set_len(300).unwrap();
            sharing.move_ends(id, &client, true);
            assert_eq!(late.join().unwrap(), Err(Fault::Gone));
        });
        assert_eq!(len(), 300);
    }

    #[test]
    fn move_of_a_dead_client_is_done_if_the_stand_in_lost_its_mark() {
        let (folder, sharing, keeper) = sharing();
        for (token, marked) in [(5, true), (6, false)] {
            let client = client(sharing, token);
            let path = folder.path().join(format!("{token}.log"));
            let stand = std::fs::File::create(&path).unwrap();
            // The path that the log knows leads to another file, which has no mark.
            let other = folder.path().join(format!("{token}.txt"));
            std::fs::write(&other, "other").unwrap();
            let name = other.as_os_str().as_encoded_bytes();
            let id = file(sharing, &client, name, 100);
            keeper.held().opens.insert(id, 1);
            sharing.volume.opened(id).unwrap();
            let mark = Mark {
                volume: sharing.volume.number,
                id,
            };
            mark.set(stand.as_raw_fd(), Instead::OfNone).unwrap();
            sharing.move_begins(id, &client, stand.as_raw_fd()).unwrap();
            if !marked {
                mark.remove(stand.as_raw_fd()).unwrap();
            }
            sharing.gone(&client);
            let kept = sharing.settle(id, &keeper).is_ok();
            assert_eq!(kept, marked);
        }
    }

    #[test]
    fn write_error_is_reported_by_every_call_until_a_sync_has_reported_it() {
        let (_folder, sharing, client) = sharing();
        let end = |id| sharing.volume.status(id).unwrap().size;
        let fails = |id: FileId| {
            let (size, lease) = sharing.lease(id, &client).unwrap();
            assert!(client.memory.holds(lease.unwrap()));
            // Data behind a gap are refused.
            assert!(client.memory.put(id.0, size + 500, b"lost"));
            sharing.settle(id, &client).unwrap();
            assert_eq!(sharing.lease(id, &client), Err(Fault::Errno(libc::EIO)));
            assert!(sharing.alone(id).is_err());
            lease.unwrap()
        };
        let id = file(sharing, &client, b"/a", 100);
        let lease = fails(id);
        assert_eq!(sharing.report(id), Err(Fault::Errno(libc::EIO)));
        assert!(!client.memory.holds(lease), "its end was not the file's");
        assert_eq!(sharing.report(id), Ok(()));
        assert_eq!(sharing.lease(id, &client).unwrap().0, 100);
        let other = file(sharing, &client, b"/c", 100);
        fails(other);
        assert_eq!(sharing.truncate(other, 200), Err(Fault::Demote));
        assert!(sharing.report(other).is_err());
        fails(other);
        sharing.truncate(other, 40).unwrap();
        assert_eq!((sharing.report(other), end(other)), (Ok(()), 40));
    }

    #[test]
    fn client_cut_off_inside_a_write_can_write_to_no_file() {
        let (_folder, sharing, keeper) = sharing();
        let client = client(sharing, 7);
        let [first, other] = [b"/a", b"/b"].map(|path| {
            let id = file(sharing, &client, path, 100);
            (id, sharing.lease(id, &client).unwrap().1.unwrap())
        });
        assert!(client.memory.enter(first.1) == Lease::Taken && client.memory.spend(1));
        assert!(client.memory.put(other.0.0, 100, b"answered"));
        // The client was stopped inside a write, and another client needs the file's length.
        keeper.held().opens.insert(other.0, 1);
        sharing.volume.opened(other.0).unwrap();
        client.cut_off();
        assert!(client.memory.put(first.0.0, 100, b"too late"));
        assert!(!client.memory.leave(first.1));
        assert!(client.memory.enter(other.1) == Lease::Gone && !client.memory.spend(1));
        sharing.gone(&client);
        assert_eq!(sharing.volume.status(other.0).unwrap().size, 108);
    }

    #[test]
    fn renewals_of_one_unknown_number_get_the_same_new_number() {
        let (_folder, sharing, client) = sharing();
        let known = file(sharing, &client, b"/a", 100);
        let old = FileId(known.0 + 1000);
        let new = sharing.renew(old, (b"/b", b"")).unwrap();
        assert_eq!(sharing.renew(old, (b"/b", b"")).unwrap(), new);
        assert_ne!(sharing.renew(FileId(old.0 + 1), (b"/c", b"")).unwrap(), new);
        let status = sharing.volume.status(new).unwrap();
        assert_eq!((status.size, status.opens), (0, 0));
    }
}
