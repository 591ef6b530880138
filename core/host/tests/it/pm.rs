//! Tests of persistent memory: the results of loads, and the contents after power cuts.

use host::{Pm, PmConfig, PmError, PmMedia, Regions};
use sim::{Cut, Kernel, Seed, Sim, join_all};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use units::{Bytes, KIB, Ns};

const SIZE: Bytes = Bytes(16 * KIB);

fn blank(sim: &Sim) -> Pm {
    Pm::new(sim, PmConfig::default(), PmMedia::new(SIZE), None)
}

/// Creates regions without initializing them.
async fn create(pm: &Pm, wanted: &[(u64, u64)]) -> Result<Regions, PmError> {
    Regions::create(pm, wanted, async |regions| Ok(regions.clone())).await
}

/// Runs `work` on new memory; returns the memory afterwards.
fn after<F: Future<Output = ()> + 'static>(work: impl FnOnce(Pm) -> F) -> Pm {
    let kernel = Kernel::new();
    let pm = blank(&kernel.sim());
    kernel.block_on(work(pm.clone()));
    pm.check();
    pm
}

/// Distinct contents of the bytes at the addresses `words` after many cuts.
fn cuts<const N: usize>(pm: &Pm, words: [u64; N]) -> BTreeSet<[u8; N]> {
    let mut rng = Seed(1).stream("cuts");
    let cut = |_| {
        let media = pm.at_power_cut(&mut rng);
        words.map(|at| {
            let mut byte = [0];
            media.read(at, &mut byte);
            byte[0]
        })
    };
    (0..400).map(cut).collect()
}

#[test]
fn cut_keeps_lines_independently_and_stores_of_a_line_in_order() {
    let pm = after(|pm| async move {
        for (at, value) in [(0, 1), (8, 1), (64, 1), (0, 2)] {
            pm.store(at, &[value; 8]).await;
        }
        let mut seen = [0; 2];
        pm.load(0, &mut seen[..1]).await;
        pm.load(64, &mut seen[1..]).await;
        assert_eq!(seen, [2, 1], "a load sees what is not durable");
    });
    assert!(pm.has_unflushed());
    let line = [[0, 0], [1, 0], [1, 1], [2, 1]];
    let all = line
        .iter()
        .flat_map(|&[a, b]| [[a, b, 0], [a, b, 1]])
        .collect();
    assert_eq!(cuts(&pm, [0, 8, 64]), all);
}

#[test]
fn store_is_durable_only_after_flush_and_fence_of_its_task() {
    let pm = after(|pm| async move {
        pm.store(0, &[1; 8]).await;
        pm.fence().await;
        pm.store(64, &[1; 8]).await;
        pm.flush(64, 8).await;
        pm.persist(128, &[1; 8]).await;
        // A second store after the flush of the first one.
        pm.store(192, &[1; 8]).await;
        pm.flush(192, 8).await;
        pm.store(192, &[2; 8]).await;
        pm.fence().await;
    });
    let expected = [0, 1]
        .into_iter()
        .flat_map(|a| [[a, 1, 1, 1], [a, 1, 1, 2]]);
    assert_eq!(cuts(&pm, [0, 64, 128, 192]), expected.collect());
}

#[test]
fn fence_of_another_task_makes_nothing_durable() {
    let kernel = Kernel::new();
    let (sim, pm) = (kernel.sim(), blank(&kernel.sim()));
    let (storing, fencing) = (pm.clone(), pm.clone());
    let clock = sim.clone();
    sim.spawn_detached(async move {
        storing.store(0, &[1; 8]).await;
        storing.flush(0, 8).await;
        clock.sleep(Ns::us(2)).await;
        storing.fence().await;
    });
    let clock = sim.clone();
    sim.spawn_detached(async move {
        clock.sleep(Ns::us(1)).await;
        fencing.fence().await;
    });
    kernel.run_until(Ns(1_500));
    assert_eq!(cuts(&pm, [0]), [[0], [1]].into());
    kernel.run();
    assert_eq!(cuts(&pm, [0]), [[1]].into());
}

#[test]
fn flush_during_a_fence_counts_for_the_next_fence() {
    let fence_beside = async |pm: &Pm, again: bool| {
        let first = async {
            pm.store(0, &[1; 8]).await;
            pm.flush(0, 8).await;
            pm.fence().await;
        };
        let second = async {
            pm.store(64, &[1; 8]).await;
            pm.flush(64, 8).await;
        };
        let branches: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] =
            [Box::pin(first), Box::pin(second)];
        join_all(branches.into()).await;
        if again {
            pm.fence().await;
        }
    };
    let once = after(async move |pm| fence_beside(&pm, false).await);
    assert_eq!(cuts(&once, [0, 64]), [[1, 0], [1, 1]].into());
    let twice = after(async move |pm| fence_beside(&pm, true).await);
    assert_eq!(cuts(&twice, [0, 64]), [[1, 1]].into());
}

#[test]
fn skipped_fences_make_nothing_durable() {
    let pm = after(|pm| async move {
        pm.persist(0, &[1; 8]).await;
        pm.skip_fences();
        pm.persist(64, &[1; 8]).await;
    });
    assert_eq!(cuts(&pm, [0, 64]), [[1, 0], [1, 1]].into());
}

#[test]
fn eight_aligned_bytes_are_never_torn() {
    let pm = after(|pm| async move {
        pm.persist(0, &[1; 24]).await;
        pm.store(4, &[2; 16]).await;
    });
    let mut rng = Seed(2).stream("cuts");
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let mut bytes = [0; 24];
        pm.at_power_cut(&mut rng).read(0, &mut bytes);
        for word in bytes.chunks_exact(8) {
            assert!(word[..4].iter().all(|&b| b == word[0]), "{bytes:?}");
            assert!(word[4..].iter().all(|&b| b == word[4]), "{bytes:?}");
        }
        seen.insert([bytes[4], bytes[8], bytes[16]]);
    }
    assert_eq!(seen, [[1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]].into());
}

/// Two copies of a counter are persisted in order: after any cut the second copy equals the
/// first one or is one step behind.
#[test]
fn cut_at_any_event_keeps_the_order_of_fences() {
    let mut met = 0;
    for event in 0.. {
        let kernel = Kernel::new();
        let pm = blank(&kernel.sim());
        let at = Rc::new(RefCell::new(0_u64));
        let (counting, reached) = (pm.clone(), Rc::clone(&at));
        kernel.sim().spawn_detached(async move {
            for number in 1..20_u64 {
                counting.persist(0, &number.to_le_bytes()).await;
                counting.persist(4096, &number.to_le_bytes()).await;
                *reached.borrow_mut() = number;
            }
        });
        let mut rng = Seed(event).stream("cut");
        let Cut::Off(media) = kernel.run_to_cut(event, || pm.at_power_cut(&mut rng)) else {
            break;
        };
        let number = |at| {
            let mut bytes = [0; 8];
            media.read(at, &mut bytes);
            u64::from_le_bytes(bytes)
        };
        let (first, second, reached) = (number(0), number(4096), *at.borrow());
        assert!(second <= first && first <= second + 1, "{first} {second}");
        assert!(second >= reached, "{second} of {reached}");
        met += 1;
    }
    assert!(met > 50, "{met} cuts");
}

#[test]
fn many_stores_to_one_line_are_written_back_early_and_in_order() {
    let pm = after(|pm| async move {
        for number in 0..500_u64 {
            pm.store(0, &number.to_le_bytes()).await;
        }
    });
    let mut rng = Seed(3).stream("cuts");
    for _ in 0..50 {
        let mut bytes = [0; 8];
        pm.at_power_cut(&mut rng).read(0, &mut bytes);
        assert!((400..500).contains(&u64::from_le_bytes(bytes)));
    }
}

#[test]
fn accesses_take_the_configured_times() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let config = PmConfig::default().optane();
    let pm = Pm::new(&sim, config, PmMedia::new(SIZE), None);
    kernel.block_on(async move {
        pm.load(60, &mut [0; 8]).await;
        assert_eq!(sim.now(), Ns(600), "two lines");
        pm.persist(0, &[0; 64]).await;
        assert_eq!(sim.now(), Ns(700));
    });
}

#[test]
fn regions_are_found_again_and_do_not_overlap() {
    let kernel = Kernel::new();
    let pm = blank(&kernel.sim());
    let again = pm.clone();
    kernel.block_on(async move {
        assert_eq!(Regions::open(&pm).await, Err(PmError::Blank));
        let made = create(&pm, &[(7, 5_000), (9, 100)]).await.unwrap();
        let (a, b) = (made.get(7).unwrap(), made.get(9).unwrap());
        assert_eq!((a.at, a.bytes, b.at, b.bytes), (4096, 5_000, 12_288, 100));
        assert!(made.get(8).is_err());
        assert_eq!(Regions::open(&pm).await, Ok(made));
        let full = create(&pm, &[(1, 4096), (2, 12_288)]).await.unwrap_err();
        assert!(
            full.to_string().contains("3 asked for, 2 of 3 free"),
            "{full}"
        );
        let many = vec![(1, 1); 17];
        assert!(matches!(create(&pm, &many).await, Err(PmError::Full(_))));
    });
    hostile_superblocks(&again.shutdown());
}

/// Asserts that a changed byte, a lost word and a lost line of a superblock are reported as
/// damage, and not as new memory.
fn hostile_superblocks(good: &PmMedia) {
    const BYTES: u64 = 24 + 16 * 24 + 8;
    let is_damaged = |at: u64, bytes: &[u8]| {
        let mut media = good.clone();
        media.write(at, bytes);
        let kernel = Kernel::new();
        let pm = Pm::new(&kernel.sim(), PmConfig::default(), media, None);
        let opened = kernel.block_on(async move { Regions::open(&pm).await });
        matches!(opened, Err(PmError::Damaged(_)))
    };
    for at in 0..BYTES {
        let mut byte = [0];
        good.read(at, &mut byte);
        assert!(is_damaged(at, &[byte[0] ^ 0x81]), "byte {at}");
    }
    for (first, zeros) in [(0, 8), (0, 64), (64, 64), (384, 64), (0, 128), (0, 384)] {
        assert!(is_damaged(first, &vec![0; zeros]), "{zeros} from {first}");
    }
}

#[test]
fn superblock_is_valid_as_a_whole_or_not_at_all_after_a_cut() {
    for event in 0.. {
        let kernel = Kernel::new();
        let pm = blank(&kernel.sim());
        let making = pm.clone();
        kernel.sim().spawn_detached(async move {
            create(&making, &[(1, 4096)]).await.unwrap();
            create(&making, &[(2, 8192)]).await.unwrap();
        });
        let mut rng = Seed(event).stream("cut");
        let Cut::Off(media) = kernel.run_to_cut(event, || pm.at_power_cut(&mut rng)) else {
            break;
        };
        let kernel = Kernel::new();
        let pm = Pm::new(&kernel.sim(), PmConfig::default(), media, None);
        match kernel.block_on(async move { Regions::open(&pm).await }) {
            Ok(regions) => assert!(regions.get(1).is_ok() != regions.get(2).is_ok()),
            Err(error) => assert_eq!(error, PmError::Blank, "event {event}"),
        }
    }
}

/// A drive's file may give memory of any size, also a partial last word, line or page: the
/// last bytes behave like all others.
#[test]
fn memory_may_end_within_a_line() {
    for size in (1..300).chain(4_090..4_110).chain(8_190..8_200) {
        let kernel = Kernel::new();
        let kept = PmMedia::new(Bytes(size)).kept();
        let pm = Pm::new(&kernel.sim(), PmConfig::default(), PmMedia::of(kept), None);
        let (on, watch) = (pm.clone(), pm.watch());
        kernel.block_on(async move {
            let first = size.saturating_sub(70);
            let bytes: Vec<u8> = (first..size).map(|at| at as u8 | 1).collect();
            on.store(first, &bytes).await;
            on.check();
            let mut seen = vec![0; bytes.len()];
            on.load(first, &mut seen).await;
            assert_eq!(seen, bytes);
            let left = on.at_power_cut(&mut Seed(size).stream("cut"));
            assert_eq!(left.bytes(), size);
            on.persist(first, &bytes).await;
            on.durable().read(first, &mut seen);
            assert_eq!(seen, bytes, "{size}");
            let made = create(&on, &[(1, 1)]).await;
            assert_eq!(made.is_ok(), size >= 8_192, "{size}");
            let opened = Regions::open(&on).await;
            assert_eq!(opened.ok(), made.ok());
        });
        pm.check();
        let (line, held) = pm.changed(&watch).pop().expect("it has changed");
        let within = size as usize - line as usize * 64;
        assert!(within <= 64 && held[within..].iter().all(|&byte| byte == 0));
    }
}
