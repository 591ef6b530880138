//! Ways out for requests that can never be answered.
//!
//! Invariants: a request that is open has a way out that no other has; it finds a permit there
//! if it was told to leave while it was open, and not otherwise.

use sim::{Semaphore, Sim};
use std::cell::RefCell;
use std::rc::Rc;

/// A way out for each request that is open: a semaphore of its own, which has no permit but for
/// one to leave. They are used again, so that a request neither makes one nor looks for its own
/// among those of others.
#[derive(Default)]
pub(crate) struct Exits {
    all: RefCell<Vec<Semaphore>>,
    free: RefCell<Vec<usize>>,
}

impl Exits {
    /// How many requests are open.
    pub(crate) fn open(&self) -> usize {
        self.all.borrow().len() - self.free.borrow().len()
    }

    /// Tells all of them to leave.
    pub(crate) fn clear(&self) {
        let all = self.all.borrow();
        let mut is_open = vec![true; all.len()];
        for &number in &*self.free.borrow() {
            is_open[number] = false;
        }
        let open = all.iter().zip(is_open).filter(|(_, is_open)| *is_open);
        open.for_each(|(exit, _)| exit.put(1));
    }
}

/// Counts a request as open.
pub(crate) struct Open {
    exits: Rc<Exits>,
    number: usize,
    /// Has a permit once it is to leave.
    pub(crate) exit: Semaphore,
}

impl Open {
    pub(crate) fn new(exits: &Rc<Exits>, sim: &Sim) -> Self {
        let mut all = exits.all.borrow_mut();
        let number = exits.free.borrow_mut().pop().unwrap_or_else(|| {
            all.push(Semaphore::new(sim, 0));
            all.len() - 1
        });
        Self {
            exits: Rc::clone(exits),
            number,
            exit: all[number].clone(),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // It may have been told to leave when it had come to its end.
        let _ = self.exit.try_take(1);
        self.exits.free.borrow_mut().push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Kernel;

    #[test]
    fn who_is_told_to_leave_is_told_once_and_nobody_after_him() {
        let sim = Kernel::new().sim();
        let exits = Rc::<Exits>::default();
        let [first, second] = [(); 2].map(|()| Open::new(&exits, &sim));
        drop(first);
        assert_eq!(exits.open(), 1);
        exits.clear();
        assert_eq!(second.exit.free(), 1);
        drop(second);
        // Both places are used again, without what was said before.
        let again = [(); 3].map(|()| Open::new(&exits, &sim));
        assert_eq!(exits.open(), 3);
        assert_eq!(exits.all.borrow().len(), 3);
        assert!(again.iter().all(|open| open.exit.free() == 0));
    }
}
