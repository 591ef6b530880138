//! Advisory locks of whole files and of ranges.

use crate::bench::{errno, make, with_root};
use units::Ns;
use vfs::LockKind::{Exclusive, Shared};
use vfs::{Errno, OpenFlags, RecordLock};

#[test]
fn a_whole_file_is_locked_by_one_open_file_or_shared() {
    with_root(|p| async move {
        let (one, two) = (make(&p, "/f").await, make(&p, "/f").await);
        p.flock(one, Some(Shared), false).await.unwrap();
        p.flock(two, Some(Shared), false).await.unwrap();
        assert_eq!(
            errno(p.flock(one, Some(Exclusive), false).await),
            Errno::EAGAIN
        );
        p.flock(two, None, false).await.unwrap();
        p.flock(one, Some(Exclusive), false).await.unwrap();
        assert_eq!(
            errno(p.flock(two, Some(Shared), false).await),
            Errno::EAGAIN
        );
        p.close(one).await.unwrap();
        p.flock(two, Some(Exclusive), false).await.unwrap();
    });
}

#[test]
fn copies_of_a_descriptor_share_its_lock() {
    with_root(|p| async move {
        let one = make(&p, "/f").await;
        p.flock(one, Some(Exclusive), false).await.unwrap();
        let child = p.fork();
        p.close(one).await.unwrap();
        let two = make(&p, "/f").await;
        assert_eq!(
            errno(p.flock(two, Some(Shared), false).await),
            Errno::EAGAIN
        );
        child.close(one).await.unwrap();
        p.flock(two, Some(Shared), false).await.unwrap();
    });
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_free() {
    with_root(|p| async move {
        let sim = p.vfs().sim().clone();
        let child = p.fork();
        let fd = make(&p, "/f").await;
        let other = make(&child, "/f").await;
        p.lock(fd, Some(Exclusive), 10, 10, false).await.unwrap();
        assert_eq!(
            errno(child.lock(other, Some(Shared), 19, 5, false).await),
            Errno::EAGAIN
        );
        child
            .lock(other, Some(Exclusive), 20, 5, false)
            .await
            .unwrap();
        let (task, start) = (sim.clone(), sim.now());
        let waiter = sim.spawn(async move {
            child.lock(other, Some(Shared), 0, 0, true).await.unwrap();
            task.now()
        });
        sim.sleep(Ns::us(5)).await;
        p.lock(fd, None, 10, 10, false).await.unwrap();
        assert_eq!(waiter.await.since(start), Ns::us(5));
    });
}

#[test]
fn a_circle_of_waiters_is_refused() {
    with_root(|p| async move {
        let sim = p.vfs().sim().clone();
        let child = p.fork();
        let (fd, other) = (make(&p, "/f").await, make(&child, "/g").await);
        let (fg, of) = (make(&p, "/g").await, make(&child, "/f").await);
        p.lock(fd, Some(Exclusive), 0, 1, true).await.unwrap();
        child
            .lock(other, Some(Exclusive), 0, 1, true)
            .await
            .unwrap();
        let waiter = sim.spawn(async move {
            let waited = child.lock(of, Some(Exclusive), 0, 1, true).await;
            child.exit().await;
            waited
        });
        sim.sleep(Ns::us(1)).await;
        let refused = p.lock(fg, Some(Exclusive), 0, 1, true).await;
        assert_eq!(errno(refused), Errno::EDEADLK);
        p.lock(fd, None, 0, 1, true).await.unwrap();
        assert_eq!(waiter.await, Ok(()));
        p.lock(fg, Some(Exclusive), 0, 1, false).await.unwrap();
    });
}

#[test]
fn closing_any_descriptor_of_a_file_lets_go_of_all_ranges() {
    with_root(|p| async move {
        let child = p.fork();
        let (one, two) = (make(&p, "/f").await, make(&p, "/f").await);
        p.lock(one, Some(Exclusive), 0, 0, false).await.unwrap();
        let other = make(&child, "/f").await;
        let handle = child.handle(other).unwrap();
        let wanted = RecordLock {
            kind: Shared,
            start: 5,
            last: 5,
            owner: child.id(),
        };
        let holder = p.vfs().get_lock(&handle, &wanted).unwrap();
        assert_eq!(holder.map(|lock| lock.owner), Some(p.id()));
        p.close(two).await.unwrap();
        assert_eq!(p.vfs().get_lock(&handle, &wanted), Ok(None));
    });
}

#[test]
fn a_range_is_locked_as_the_file_was_opened() {
    with_root(|p| async move {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = p.open(b"/f", flags, 0o600).await.unwrap();
        assert_eq!(
            errno(p.lock(fd, Some(Shared), 0, 1, false).await),
            Errno::EBADF
        );
        p.lock(fd, Some(Exclusive), 0, 1, false).await.unwrap();
    });
}
