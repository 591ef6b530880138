//! Distribution of independent work over several threads.
//!
//! Invariant: results are in the order of the pieces, whatever the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work` for each number below `count`, computed on up to `threads` threads.
///
/// # Panics
/// If `work` panics.
pub fn each<T: Send>(count: usize, threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::default()).collect();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(index) else {
                break;
            };
            let made = work(index);
            *slot.lock().expect("nothing panics while it stores") = Some(made);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    let taken = results
        .into_iter()
        .map(|slot| slot.into_inner().expect("as above"));
    taken
        .map(|slot| slot.expect("every piece was made"))
        .collect()
}
