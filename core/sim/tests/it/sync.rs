//! Tests of permits, locks, signals and channels.

use sim::{Kernel, Lock, RwLock, Semaphore, Signal, channel, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use units::Ns;

#[test]
fn permits_are_granted_in_order_of_arrival() {
    let kernel = Kernel::new();
    let permits = Semaphore::new(&kernel.sim(), 3);
    let order = Rc::new(RefCell::new(Vec::new()));
    // The big request waits and must not be passed by the small ones behind it.
    for (name, want) in [(0, 2), (1, 3), (2, 1), (3, 1)] {
        let (sim, permits, order) = (kernel.sim(), permits.clone(), Rc::clone(&order));
        kernel.sim().spawn_detached(async move {
            let held = permits.acquire(want).await;
            order.borrow_mut().push((name, sim.now().0));
            sim.sleep(Ns(10)).await;
            drop(held);
        });
    }
    kernel.run();
    assert_eq!(*order.borrow(), [(0, 0), (1, 10), (2, 20), (3, 20)]);
    assert_eq!(permits.free(), 3);
}

#[test]
fn dropped_waiter_does_not_block_later_ones() {
    let kernel = Kernel::new();
    let permits = Semaphore::new(&kernel.sim(), 1);
    let (sim, held) = (kernel.sim(), permits.clone());
    kernel.sim().spawn_detached(async move {
        let _held = held.acquire(1).await;
        sim.sleep(Ns(100)).await;
    });
    let (sim, big) = (kernel.sim(), permits.clone());
    let gave_up = kernel.sim().spawn(async move {
        let gave_up = timeout(&sim, Ns(10), big.acquire(2)).await.is_err();
        (gave_up, sim.now().0)
    });
    let (sim, small) = (kernel.sim(), permits.clone());
    let served = kernel.sim().spawn(async move {
        let _held = small.acquire(1).await;
        sim.now().0
    });
    let ends = kernel.block_on(async move { (gave_up.await, served.await) });
    assert_eq!(ends, ((true, 10), 100));
    assert_eq!(permits.free(), 1);
}

#[test]
fn a_lock_is_held_across_waits() {
    let kernel = Kernel::new();
    let lock = Rc::new(Lock::new(&kernel.sim(), Vec::new()));
    for name in 0..3 {
        let (sim, lock) = (kernel.sim(), Rc::clone(&lock));
        kernel.sim().spawn_detached(async move {
            let mut held = lock.lock().await;
            held.push((name, "in"));
            sim.sleep(Ns(5)).await;
            held.push((name, "out"));
        });
    }
    kernel.run();
    let held = kernel.block_on(async move { lock.lock().await.clone() });
    let turns: Vec<_> = held.chunks(2).map(|turn| turn[0].0 == turn[1].0).collect();
    assert_eq!(turns, [true; 3]);
}

#[test]
fn signal_wakes_all_waiters_once() {
    let kernel = Kernel::new();
    let signal = Rc::new(Signal::default());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (sim, signal) = (kernel.sim(), Rc::clone(&signal));
            kernel.sim().spawn(async move {
                signal.wait(&sim).await;
                sim.now().0
            })
        })
        .collect();
    let sim = kernel.sim();
    let times = kernel.block_on(async move {
        sim.sleep(Ns(40)).await;
        signal.notify(&sim);
        sim::join_all(waiters).await
    });
    assert_eq!(times, [40; 3]);
}

#[test]
fn a_channel_keeps_order_and_ends_with_its_senders() {
    let kernel = Kernel::new();
    let (sender, mut receiver) = channel(&kernel.sim());
    let sim = kernel.sim();
    kernel.sim().spawn_detached(async move {
        for item in 0..3 {
            sim.sleep(Ns(2)).await;
            sender.send(item);
        }
    });
    let items = kernel.block_on(async move {
        let mut items = Vec::new();
        while let Some(item) = receiver.recv().await {
            items.push(item);
        }
        items
    });
    assert_eq!(items, [0, 1, 2]);
}

#[test]
fn readers_share_and_a_writer_waits_its_turn_alone() {
    let kernel = Kernel::new();
    let lock = Rc::new(RwLock::new(&kernel.sim()));
    let order = Rc::new(RefCell::new(Vec::new()));
    for (name, writes) in [(0, false), (1, false), (2, true), (3, false), (4, true)] {
        let (sim, lock, order) = (kernel.sim(), Rc::clone(&lock), Rc::clone(&order));
        kernel.sim().spawn_detached(async move {
            let _held = match writes {
                true => lock.write().await,
                false => lock.read().await,
            };
            order.borrow_mut().push((name, sim.now().0));
            sim.sleep(Ns(10)).await;
        });
    }
    kernel.run();
    assert_eq!(*order.borrow(), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 30)]);
}

#[test]
fn a_free_lock_is_taken_without_an_event() {
    let kernel = Kernel::new();
    let lock = RwLock::new(&kernel.sim());
    kernel.block_on(async move {
        drop(lock.write().await);
        let (_one, _two) = (lock.read().await, lock.read().await);
    });
    assert_eq!(kernel.sim().events(), 1, "the start of the task");
}
