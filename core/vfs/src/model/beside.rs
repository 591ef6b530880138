//! Programs on a file system beside the model.

use super::{Model, Op, Tree, check, perform};
use crate::body::Body;
use crate::config::{CacheConfig, CallCosts};
use crate::process::Process;
use crate::types::PAGE;
use crate::vfs::Vfs;
use sim::Rng;
use units::{Bytes, MIB, Ns};

/// A cache that costs nothing; a tiny one pushes pages, inodes and names out soon.
#[must_use]
pub fn cache(tiny: bool) -> CacheConfig {
    let large = CacheConfig {
        memory: Bytes(16 * MIB),
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    };
    if !tiny {
        return large;
    }
    CacheConfig {
        memory: Bytes(64 * PAGE),
        inodes: 3,
        names: 4,
        batch: 3,
        ..large
    }
}

/// A cache that costs nothing and writes back so eagerly that a short run sees all of it.
#[must_use]
pub fn eager() -> CacheConfig {
    CacheConfig {
        expire: Ns::us(300),
        writeback_interval: Ns::us(100),
        ..cache(false)
    }
}

/// Has `processes`, all of user 0, make `calls` calls that `draw` draws, of a model that
/// knows as many; caches are dropped now and then. At last all is synced, and the tree is
/// compared.
///
/// # Panics
/// Where the file system answers or holds anything else than the model.
pub async fn run_beside<B: Body, const N: usize>(
    vfs: &Vfs<B>,
    processes: [Process<B>; N],
    model: &mut Model,
    rng: &mut Rng,
    (draw, calls): (impl Fn(&mut Rng) -> Op, u32),
) {
    for number in 0..calls {
        let op = draw(rng);
        let process = rng.below(N as u64) as usize;
        let expected = model.perform(process, &op);
        let got = perform(&processes[process], &op).await;
        assert_eq!(got, expected, "call {number}: {op:?}");
        if rng.below(60) == 0 {
            vfs.drop_caches().await.expect("caches can be dropped");
        }
    }
    model.perform(0, &Op::Sync).expect("a model can be synced");
    let tree = Tree::read(&processes[0]).await;
    assert_eq!(check(model, &tree.expect("it can be read")), []);
    for process in processes {
        process.exit().await;
    }
}
