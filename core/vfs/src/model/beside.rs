//! Random programs that run on a file system and on the model side by side.

use super::{Model, Op, Tree, check, perform};
use crate::body::Body;
use crate::config::{CacheConfig, CallCosts};
use crate::process::Process;
use crate::types::PAGE;
use crate::vfs::Vfs;
use sim::Rng;
use units::{Bytes, MIB, Ns};

/// A cache configuration without costs; a tiny one evicts pages, inodes and names soon.
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

/// A cache configuration without costs that writes back so early that a short run exercises it.
#[must_use]
pub fn eager() -> CacheConfig {
    CacheConfig {
        expire: Ns::us(300),
        writeback_interval: Ns::us(100),
        ..cache(false)
    }
}

/// Makes `calls` calls drawn by `draw`, each by a random one of `processes` (all of user 0), on the
/// file system and on `model`, which has as many processes. Caches are dropped now and then. At the
/// end everything is synced, and the trees are compared.
///
/// # Panics
/// If a result or the final tree differs from the model.
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
