//! Errors and permissions of calls with names, as Linux gives them.

use crate::bench::{errno, fill, make, user, with_root};
use vfs::mem::MemFs;
use vfs::model::list_renaming;
use vfs::{At, Attr, Errno, FileKind, OpenFlags, Process, RenameFlags, SetTime, Timestamp, Whence};

const REPLACE: RenameFlags = RenameFlags {
    no_replace: false,
    exchange: false,
};

async fn touch(process: &Process<MemFs>, path: &str, mode: u16) {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    let fd = process.open(path.as_bytes(), flags, mode).await.unwrap();
    process.close(fd).await.unwrap();
}

async fn stat(process: &Process<MemFs>, path: &str) -> Attr {
    process.lstat(path.as_bytes()).await.unwrap()
}

#[test]
fn paths_are_walked_as_linux_walks_them() {
    with_root(|p| async move {
        touch(&p, "/f", 0o644).await;
        p.mkdir(b"/d", 0o755).await.unwrap();
        p.symlink(b"d", b"/to_d").await.unwrap();
        p.symlink(b"loop", b"/loop").await.unwrap();
        p.symlink(b"nowhere", b"/dangling").await.unwrap();
        assert_eq!(errno(p.stat(b"").await), Errno::ENOENT);
        assert_eq!(errno(p.stat(b"/f/").await), Errno::ENOTDIR);
        assert_eq!(errno(p.stat(b"/f/x").await), Errno::ENOTDIR);
        assert_eq!(errno(p.stat(b"/loop").await), Errno::ELOOP);
        assert_eq!(errno(p.stat(b"/loop/x").await), Errno::ELOOP);
        assert_eq!(errno(p.stat(b"/dangling").await), Errno::ENOENT);
        assert_eq!(stat(&p, "/to_d").await.kind, FileKind::Symlink);
        assert_eq!(stat(&p, "/to_d/").await.kind, FileKind::Directory);
        assert_eq!(stat(&p, "//d/.././d/.").await.kind, FileKind::Directory);
        let long = [b"/".as_slice(), &[b'n'; 256]].concat();
        assert_eq!(errno(p.stat(&long).await), Errno::ENAMETOOLONG);
        assert_eq!(errno(p.stat(&long[..256]).await), Errno::ENOENT);
        let deep = b"/d/..".repeat(900);
        assert_eq!(errno(p.stat(&deep).await), Errno::ENAMETOOLONG);
    });
}

#[test]
fn slashes_at_the_end_ask_for_directories() {
    with_root(|p| async move {
        touch(&p, "/f", 0o644).await;
        let create = OpenFlags::WRITE | OpenFlags::CREATE;
        assert_eq!(errno(p.open(b"/new/", create, 0).await), Errno::EISDIR);
        assert_eq!(errno(p.unlink(b"/f/").await), Errno::ENOTDIR);
        assert_eq!(errno(p.symlink(b"x", b"/new/").await), Errno::ENOENT);
        assert_eq!(errno(p.link(b"/f", b"/new/").await), Errno::ENOENT);
        assert_eq!(
            errno(p.rename(b"/f/", b"/g", REPLACE).await),
            Errno::ENOTDIR
        );
        assert_eq!(
            errno(p.rename(b"/f", b"/g/", REPLACE).await),
            Errno::ENOTDIR
        );
        p.mkdir(b"/new/", 0o755).await.unwrap();
        p.rename(b"/new/", b"/newer/", REPLACE).await.unwrap();
        assert_eq!(errno(p.unlink(b"/newer/").await), Errno::EISDIR);
        p.rmdir(b"/newer/").await.unwrap();
    });
}

#[test]
fn dots_are_refused_where_a_name_is_changed() {
    with_root(|p| async move {
        p.mkdir(b"/d", 0o755).await.unwrap();
        assert_eq!(errno(p.rmdir(b"/d/.").await), Errno::EINVAL);
        assert_eq!(errno(p.rmdir(b"/d/..").await), Errno::ENOTEMPTY);
        assert_eq!(errno(p.rmdir(b"/").await), Errno::EBUSY);
        assert_eq!(errno(p.unlink(b"/d/.").await), Errno::EISDIR);
        assert_eq!(errno(p.mkdir(b"/d/.", 0).await), Errno::EEXIST);
        assert_eq!(errno(p.mkdir(b"/", 0).await), Errno::EEXIST);
        assert_eq!(errno(p.rename(b"/d/.", b"/e", REPLACE).await), Errno::EBUSY);
        assert_eq!(
            errno(p.rename(b"/d", b"/d/..", REPLACE).await),
            Errno::EBUSY
        );
    });
}

#[test]
fn renames_are_refused_in_the_order_of_linux() {
    with_root(|p| async move {
        p.mkdir(b"/d", 0o755).await.unwrap();
        p.mkdir(b"/d/e", 0o755).await.unwrap();
        p.mkdir(b"/empty", 0o755).await.unwrap();
        touch(&p, "/f", 0o644).await;
        assert_eq!(
            errno(p.rename(b"/d", b"/d/e/x", REPLACE).await),
            Errno::EINVAL
        );
        assert_eq!(
            errno(p.rename(b"/d", b"/d/x", REPLACE).await),
            Errno::EINVAL
        );
        assert_eq!(
            errno(p.rename(b"/d/e", b"/d", REPLACE).await),
            Errno::ENOTEMPTY
        );
        assert_eq!(
            errno(p.rename(b"/empty", b"/d", REPLACE).await),
            Errno::ENOTEMPTY
        );
        assert_eq!(errno(p.rename(b"/d", b"/f", REPLACE).await), Errno::ENOTDIR);
        assert_eq!(errno(p.rename(b"/f", b"/d", REPLACE).await), Errno::EISDIR);
        assert_eq!(errno(p.rename(b"/x", b"/y", REPLACE).await), Errno::ENOENT);
        let exchange = RenameFlags {
            exchange: true,
            ..REPLACE
        };
        assert_eq!(errno(p.rename(b"/f", b"/y", exchange).await), Errno::ENOENT);
        assert_eq!(
            errno(p.rename(b"/d/e", b"/d", exchange).await),
            Errno::EINVAL
        );
        let keep = RenameFlags {
            no_replace: true,
            ..REPLACE
        };
        assert_eq!(errno(p.rename(b"/f", b"/d", keep).await), Errno::EEXIST);
        p.rename(b"/d/e", b"/empty", REPLACE).await.unwrap();
        assert_eq!(stat(&p, "/d").await.nlink, 2);
        p.rename(b"/f", b"/d", exchange).await.unwrap();
        assert_eq!(stat(&p, "/f").await.kind, FileKind::Directory);
        assert_eq!(stat(&p, "/d").await.kind, FileKind::Regular);
    });
}

#[test]
fn opening_is_refused_as_linux_refuses() {
    with_root(|p| async move {
        let (read, write) = (OpenFlags::READ, OpenFlags::WRITE);
        let create = write | OpenFlags::CREATE;
        touch(&p, "/f", 0o644).await;
        p.mkdir(b"/d", 0o755).await.unwrap();
        p.symlink(b"f", b"/l").await.unwrap();
        p.symlink(b"made", b"/dangling").await.unwrap();
        p.mknod(b"/fifo", FileKind::Fifo, 0o644, 0).await.unwrap();
        assert_eq!(errno(p.open(b"/d", write, 0).await), Errno::EISDIR);
        assert_eq!(errno(p.open(b"/d", create, 0).await), Errno::EISDIR);
        assert_eq!(
            errno(p.open(b"/f", create | OpenFlags::EXCLUSIVE, 0).await),
            Errno::EEXIST
        );
        let exclusive = create | OpenFlags::EXCLUSIVE;
        assert_eq!(
            errno(p.open(b"/dangling", exclusive, 0).await),
            Errno::EEXIST
        );
        assert_eq!(
            errno(p.open(b"/l", read | OpenFlags::NO_FOLLOW, 0).await),
            Errno::ELOOP
        );
        assert_eq!(
            errno(p.open(b"/f", read | OpenFlags::DIRECTORY, 0).await),
            Errno::ENOTDIR
        );
        assert_eq!(errno(p.open(b"/fifo", write, 0).await), Errno::ENXIO);
        p.open(b"/dangling", create, 0o600).await.unwrap();
        assert_eq!(stat(&p, "/made").await.mode, 0o600);
    });
}

#[test]
fn permissions_are_checked() {
    with_root(|p| async move {
        p.mkdir(b"/d", 0o755).await.unwrap();
        p.mkdir(b"/closed", 0o700).await.unwrap();
        touch(&p, "/d/f", 0o600).await;
        touch(&p, "/closed/f", 0o666).await;
        let other = user(&p, 1000, 1000);
        let create = OpenFlags::WRITE | OpenFlags::CREATE;
        assert_eq!(errno(other.stat(b"/closed/f").await), Errno::EACCES);
        assert_eq!(
            errno(other.open(b"/d/f", OpenFlags::READ, 0).await),
            Errno::EACCES
        );
        assert_eq!(
            errno(other.open(b"/d/new", create, 0o600).await),
            Errno::EACCES
        );
        assert_eq!(errno(other.unlink(b"/d/f").await), Errno::EACCES);
        assert_eq!(errno(other.mkdir(b"/d/x", 0).await), Errno::EACCES);
        assert_eq!(errno(other.truncate(b"/d/f", 0).await), Errno::EACCES);
        assert_eq!(errno(other.chmod(b"/d/f", 0).await), Errno::EPERM);
        assert_eq!(
            errno(other.chown(b"/d/f", Some(1000), None, true).await),
            Errno::EPERM
        );
        assert_eq!(errno(other.chdir(b"/closed").await), Errno::EACCES);
        let device = FileKind::CharDevice;
        p.chmod(b"/d", 0o777).await.unwrap();
        assert_eq!(
            errno(other.mknod(b"/d/dev", device, 0, 7).await),
            Errno::EPERM
        );
        assert_eq!(other.may(b"/d/f", 4).await, Err(Errno::EACCES));
    });
}

#[test]
fn only_owners_remove_names_from_sticky_directories() {
    with_root(|p| async move {
        p.mkdir(b"/tmp", 0o1777).await.unwrap();
        let (one, two) = (user(&p, 1, 1), user(&p, 2, 2));
        touch(&one, "/tmp/one", 0o666).await;
        touch(&two, "/tmp/two", 0o666).await;
        assert_eq!(errno(two.unlink(b"/tmp/one").await), Errno::EPERM);
        assert_eq!(
            errno(two.rename(b"/tmp/one", b"/tmp/x", REPLACE).await),
            Errno::EPERM
        );
        assert_eq!(
            errno(two.rename(b"/tmp/two", b"/tmp/one", REPLACE).await),
            Errno::EPERM
        );
        one.unlink(b"/tmp/one").await.unwrap();
    });
}

#[test]
fn a_directory_to_be_moved_must_be_writable() {
    with_root(|p| async move {
        p.mkdir(b"/a", 0o777).await.unwrap();
        p.mkdir(b"/b", 0o777).await.unwrap();
        p.mkdir(b"/a/d", 0o555).await.unwrap();
        let other = user(&p, 1, 1);
        assert_eq!(
            errno(other.rename(b"/a/d", b"/b/d", REPLACE).await),
            Errno::EACCES
        );
        other.rename(b"/a/d", b"/a/e", REPLACE).await.unwrap();
    });
}

#[test]
fn set_id_bits_are_cleared_by_write_truncate_and_chown() {
    with_root(|p| async move {
        let one = user(&p, 1, 1);
        p.chmod(b"/", 0o777).await.unwrap();
        let fd = make(&one, "/f").await;
        one.chmod(b"/f", 0o6777).await.unwrap();
        fill(&one, fd, 0, 1).await;
        assert_eq!(stat(&p, "/f").await.mode, 0o777);
        one.chmod(b"/f", 0o6777).await.unwrap();
        one.ftruncate(fd, 0).await.unwrap();
        assert_eq!(stat(&p, "/f").await.mode, 0o777);
        one.chmod(b"/f", 0o6767).await.unwrap();
        p.chown(b"/f", Some(2), None, true).await.unwrap();
        assert_eq!(
            stat(&p, "/f").await.mode,
            0o2767,
            "without group execution it stays"
        );
        p.chmod(b"/f", 0o6777).await.unwrap();
        let root = p.open(b"/f", OpenFlags::WRITE, 0).await.unwrap();
        fill(&p, root, 0, 1).await;
        assert_eq!(stat(&p, "/f").await.mode, 0o6777, "user 0 keeps them");
    });
}

#[test]
fn groups_are_inherited_and_the_bit_is_kept_from_strangers() {
    with_root(|p| async move {
        p.mkdir(b"/g", 0o777).await.unwrap();
        p.chown(b"/g", None, Some(50), true).await.unwrap();
        p.chmod(b"/g", 0o2777).await.unwrap();
        let one = user(&p, 1, 1);
        one.mkdir(b"/g/d", 0o755).await.unwrap();
        let dir = stat(&p, "/g/d").await;
        assert_eq!((dir.gid, dir.mode), (50, 0o2755));
        touch(&one, "/g/f", 0o2755).await;
        let file = stat(&p, "/g/f").await;
        assert_eq!((file.uid, file.gid, file.mode), (1, 50, 0o755));
        one.chmod(b"/g/f", 0o2755).await.unwrap();
        assert_eq!(stat(&p, "/g/f").await.mode, 0o755);
    });
}

#[test]
fn owners_may_give_files_to_their_groups() {
    with_root(|p| async move {
        p.chmod(b"/", 0o777).await.unwrap();
        let mut who = user(&p, 1, 1).access().clone();
        who.groups = vec![7];
        let one = Process::new(p.vfs(), who);
        touch(&one, "/f", 0o600).await;
        one.chown(b"/f", Some(1), Some(7), true).await.unwrap();
        assert_eq!(stat(&p, "/f").await.gid, 7);
        assert_eq!(
            errno(one.chown(b"/f", None, Some(8), true).await),
            Errno::EPERM
        );
        assert_eq!(
            errno(one.chown(b"/f", Some(2), None, true).await),
            Errno::EPERM
        );
    });
}

#[test]
fn links_lead_to_files_and_not_to_directories() {
    with_root(|p| async move {
        touch(&p, "/f", 0o644).await;
        p.mkdir(b"/d", 0o755).await.unwrap();
        assert_eq!(errno(p.link(b"/d", b"/e").await), Errno::EPERM);
        assert_eq!(errno(p.link(b"/f", b"/d").await), Errno::EEXIST);
        p.link(b"/f", b"/g").await.unwrap();
        assert_eq!(stat(&p, "/f").await.nlink, 2);
        let fd = p.open(b"/g", OpenFlags::READ, 0).await.unwrap();
        p.unlink(b"/f").await.unwrap();
        p.unlink(b"/g").await.unwrap();
        assert_eq!(p.fstat(fd).await.unwrap().nlink, 0);
        assert_eq!(errno(p.link_fd(fd, b"/again").await), Errno::ENOENT);
    });
}

#[test]
fn a_file_without_a_name_may_be_given_one() {
    with_root(|p| async move {
        let flags = OpenFlags::BOTH | OpenFlags::TMPFILE;
        let fd = p.open(b"/", flags, 0o600).await.unwrap();
        fill(&p, fd, 0, 10).await;
        assert_eq!(p.fstat(fd).await.unwrap().nlink, 0);
        p.link_fd(fd, b"/named").await.unwrap();
        assert_eq!(stat(&p, "/named").await.size, 10);
        let lost = p
            .open(b"/", flags | OpenFlags::EXCLUSIVE, 0o600)
            .await
            .unwrap();
        assert_eq!(errno(p.link_fd(lost, b"/x").await), Errno::ENOENT);
    });
}

#[test]
fn a_removed_directory_takes_no_names() {
    with_root(|p| async move {
        p.mkdir(b"/d", 0o755).await.unwrap();
        p.chdir(b"/d").await.unwrap();
        let fd = p
            .open(b".", OpenFlags::READ | OpenFlags::DIRECTORY, 0)
            .await
            .unwrap();
        p.rmdir(b"/d").await.unwrap();
        assert_eq!(errno(p.mkdir(b"x", 0o755).await), Errno::ENOENT);
        assert_eq!(
            errno(p.stat_at(At::Fd(fd), b"x", true).await),
            Errno::ENOENT
        );
        assert_eq!(errno(p.stat(b"..").await), Errno::ENOENT);
        assert_eq!(p.read_dir(fd, 10).await.unwrap(), []);
    });
}

#[test]
fn cookies_stay_while_a_directory_changes() {
    with_root(|p| async move {
        for name in ["/a", "/b", "/c", "/d"] {
            touch(&p, name, 0o644).await;
        }
        let fd = p
            .open(b"/", OpenFlags::READ | OpenFlags::DIRECTORY, 0)
            .await
            .unwrap();
        let first = p.read_dir(fd, 4).await.unwrap();
        let names: Vec<_> = first.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(
            names,
            [b".".to_vec(), b"..".to_vec(), b"a".to_vec(), b"b".to_vec()]
        );
        p.unlink(b"/b").await.unwrap();
        p.unlink(b"/c").await.unwrap();
        let rest = p.read_dir(fd, 4).await.unwrap();
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].name, b"d");
        p.lseek(fd, Whence::Start(first[2].cookie)).await.unwrap();
        assert_eq!(p.read_dir(fd, 4).await.unwrap(), rest);
    });
}

/// New names have the last cookies here, so a program that renames every listed entry could list
/// for ever.
#[test]
fn listing_ends_although_every_entry_is_renamed() {
    with_root(|p| async move {
        assert_eq!(list_renaming(&p, 3).await, Ok(2 + 3));
        let fd = p.open(b"/", OpenFlags::READ, 0).await.unwrap();
        assert_eq!(p.read_dir(fd, 4).await.unwrap().len(), 4);
        touch(&p, "/late", 0o644).await;
        assert_eq!(p.read_dir(fd, 9).await.unwrap().len(), 1);
        p.lseek(fd, Whence::Start(0)).await.unwrap();
        assert_eq!(p.read_dir(fd, 9).await.unwrap().len(), 2 + 4, "anew");
    });
}

#[test]
fn times_are_set_by_those_who_may() {
    with_root(|p| async move {
        p.chmod(b"/", 0o777).await.unwrap();
        touch(&p, "/f", 0o666).await;
        touch(&p, "/closed", 0o600).await;
        let one = user(&p, 1, 1);
        let at = SetTime::At(Timestamp { secs: -5, nanos: 7 });
        let now = Some(SetTime::Now);
        assert_eq!(
            errno(one.utimens(b"/f", Some(at), None, true).await),
            Errno::EPERM
        );
        assert_eq!(
            errno(one.utimens(b"/f", now, None, true).await),
            Errno::EPERM
        );
        assert_eq!(
            errno(one.utimens(b"/closed", now, now, true).await),
            Errno::EACCES
        );
        one.utimens(b"/f", now, now, true).await.unwrap();
        one.utimens(b"/closed", None, None, true).await.unwrap();
        p.utimens(b"/f", Some(at), None, true).await.unwrap();
        let attr = stat(&p, "/f").await;
        assert_eq!((attr.atime.secs, attr.atime.nanos), (-5, 7));
    });
}

#[test]
fn times_move_with_what_changes() {
    with_root(|p| async move {
        let sim = p.vfs().sim().clone();
        let step = async || sim.sleep(units::Ns::secs(1)).await;
        let fd = make(&p, "/f").await;
        let made = stat(&p, "/f").await;
        step().await;
        fill(&p, fd, 0, 10).await;
        let written = stat(&p, "/f").await;
        assert!(written.mtime > made.mtime && written.ctime > made.ctime);
        assert_eq!(written.atime, made.atime);
        step().await;
        p.read_bytes(fd, 0, 1).await.unwrap();
        let read = stat(&p, "/f").await;
        assert!(read.atime > written.mtime);
        step().await;
        p.read_bytes(fd, 0, 1).await.unwrap();
        assert_eq!(
            stat(&p, "/f").await.atime,
            read.atime,
            "newer than the write already"
        );
        p.chmod(b"/f", 0o600).await.unwrap();
        let changed = stat(&p, "/f").await;
        assert!(changed.ctime > read.ctime);
        assert_eq!(changed.mtime, written.mtime);
        step().await;
        p.truncate(b"/f", 10).await.unwrap();
        assert!(
            stat(&p, "/f").await.mtime > changed.mtime,
            "even to the same size"
        );
        let root = stat(&p, "/").await;
        step().await;
        p.link(b"/f", b"/g").await.unwrap();
        assert!(stat(&p, "/").await.mtime > root.mtime);
        assert!(stat(&p, "/f").await.ctime > changed.ctime);
    });
}

#[test]
fn a_time_out_of_all_bounds_is_old() {
    with_root(|p| async move {
        let fd = make(&p, "/f").await;
        fill(&p, fd, 0, 10).await;
        for secs in [i64::MIN, i64::MAX] {
            let time = Timestamp { secs, nanos: 0 };
            let set = p.utimens(b"/f", Some(SetTime::At(time)), None, true);
            set.await.unwrap();
            p.read_bytes(fd, 0, 1).await.unwrap();
        }
    });
}
