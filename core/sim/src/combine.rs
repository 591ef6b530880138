//! Combinators that wait for several futures within one task.
//!
//! Invariant: every wake polls the parts in the order of the arguments, so their
//! effects at one instant happen in that order.

use crate::Sim;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use units::Ns;

/// A future behind a pointer: its caller neither holds its state nor compiles its code.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The error of a [`timeout`] whose span has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Waits for `future` for at most `span`. A future that completes at the very
/// instant of the deadline still counts.
///
/// # Errors
/// [`Elapsed`] when `span` has passed; the future is dropped.
pub async fn timeout<T>(
    sim: &Sim,
    span: Ns,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    let mut alarm = pin!(sim.sleep(span));
    std::future::poll_fn(|context| {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(result));
        }
        alarm.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Waits for both futures and returns both results.
pub async fn join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(|context| {
        poll_once(&mut left, a.as_mut(), context);
        poll_once(&mut right, b.as_mut(), context);
        match (left.take(), right.take()) {
            (Some(l), Some(r)) => Poll::Ready((l, r)),
            (l, r) => {
                (left, right) = (l, r);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for all futures and returns their results in order. Each wake polls every
/// unfinished future: for more than a handful, spawn tasks.
pub async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut parts: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        for (future, result) in &mut parts {
            poll_once(result, future.as_mut(), context);
        }
        if parts.iter().any(|(_, result)| result.is_none()) {
            return Poll::Pending;
        }
        let results = parts.iter_mut().filter_map(|(_, result)| result.take());
        Poll::Ready(results.collect())
    })
    .await
}

fn poll_once<T>(
    result: &mut Option<T>,
    future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    context: &mut Context<'_>,
) {
    if result.is_none()
        && let Poll::Ready(value) = future.poll(context)
    {
        *result = Some(value);
    }
}
