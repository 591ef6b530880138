//! Cancellation of requests that can never be answered.
//!
//! Invariants: each open request owns one exit semaphore; the semaphore has a permit if the request
//! was cancelled while open, and none otherwise.

use sim::{Semaphore, Sim};
use std::cell::RefCell;
use std::rc::Rc;

/// Exit semaphores, one for each open request; a permit cancels the request. Semaphores are reused,
/// so that opening and closing a request neither allocates nor searches.
#[derive(Default)]
pub(crate) struct Exits {
    all: RefCell<Vec<Semaphore>>,
    free: RefCell<Vec<usize>>,
}

impl Exits {
    /// Number of open requests.
    pub(crate) fn open(&self) -> usize {
        self.all.borrow().len() - self.free.borrow().len()
    }

    /// Cancels every open request.
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

/// An open request, counted in its [`Exits`] until it is dropped.
pub(crate) struct Open {
    exits: Rc<Exits>,
    number: usize,
    /// Has a permit once the request is cancelled.
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
        // The request may have been cancelled after its work was complete.
        let _ = self.exit.try_take(1);
        self.exits.free.borrow_mut().push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Kernel;

    #[test]
    fn cancelled_exit_is_reused_without_its_permit() {
        let sim = Kernel::new().sim();
        let exits = Rc::<Exits>::default();
        let [first, second] = [(); 2].map(|()| Open::new(&exits, &sim));
        drop(first);
        assert_eq!(exits.open(), 1);
        exits.clear();
        assert_eq!(second.exit.free(), 1);
        drop(second);
        // Both semaphores are reused, without the permit of the earlier cancellation.
        let again = [(); 3].map(|()| Open::new(&exits, &sim));
        assert_eq!(exits.open(), 3);
        assert_eq!(exits.all.borrow().len(), 3);
        assert!(again.iter().all(|open| open.exit.free() == 0));
    }
}
