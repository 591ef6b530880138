//! Full journals, too few spare sectors, too little memory, and bytes that nobody has written.

use crate::support::{
    Known, Left, NODE, Rig, change, exchange, hyfim_config, payloads, read, tiny,
};
use host::{Pm, PmConfig, PmError, PmMedia, RawDevice, Who};
use hyfim::{Change, HyFim, HyfimError};
use nand::Payload;
use sim::{Kernel, Seed};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, KIB, Ns};

#[test]
fn batches_that_could_never_fit_are_refused_and_change_nothing() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    kernel.block_on(async move {
        let (system, _) = rig.mount().await.expect("a new drive");
        let who = Who::default();
        let batch: Vec<_> = (0..17).map(|sector| (sector, Payload::Fill(1))).collect();
        let refused = system.exchange(&batch, who).await.unwrap_err();
        assert_eq!(refused, HyfimError::Spares { needs: 17, has: 16 });
        let past = system.exchange(&[(600, Payload::Fill(1))], who).await;
        assert_eq!(past, Err(HyfimError::Change(600)));
        system
            .exchange(&batch[..16], who)
            .await
            .expect("as many as there are");
        let node = payloads(&vec![1; 4096 * NODE as usize]);
        let change = |sector, first, len| Change {
            sector,
            sectors: NODE,
            generation: None,
            parts: vec![(first, vec![1; len])],
        };
        let large = system
            .journal(&[(change(320, 0, 5_000), node.clone())], who)
            .await;
        let said = large.unwrap_err().to_string();
        assert!(said.contains("of nodes") && said.contains("4032"), "{said}");
        for wrong in [
            change(320, 16_380, 5),
            change(598, 0, 1),
            change(u32::MAX, 0, 1),
        ] {
            let sector = wrong.sector;
            let refused = system.journal(&[(wrong, node.clone())], who).await;
            assert_eq!(refused, Err(HyfimError::Change(sector)));
        }
        assert!(read(&system, 320, NODE).await.iter().all(|&byte| byte == 0));
        system.check();
    });
}

#[test]
fn a_full_journal_and_a_lack_of_spares_are_waited_for() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    kernel.block_on(async move {
        let (system, _) = rig.mount().await.expect("a new drive");
        // Sixteen spare sectors, and ten batches of up to sixteen at once.
        let workers = (0..10_u32).map(|worker| {
            let system = system.clone();
            rig.sim.spawn(async move {
                for turn in 1..9_u64 {
                    let first = worker * 16;
                    let count = 1 + (worker + turn as u32 * 5) % 16;
                    let all = first..first + count;
                    let batch: Vec<_> = all.map(|s| (s, Payload::Fill(turn))).collect();
                    system
                        .exchange(&batch, Who::default())
                        .await
                        .expect("there is room");
                }
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await;
        }
        assert_eq!(system.spares(), 16);
        // A journal of 4 KiB takes some thirty of these.
        let known = Rc::new(RefCell::new(Known::default()));
        change(system.clone(), known.clone(), Seed(3).stream("change"), 400).await;
        let nodes = known.borrow().nodes.clone();
        for (sector, bytes) in nodes {
            assert!(read(&system, sector, NODE).await == bytes);
        }
        assert!(rig.sim.now() > Ns::ZERO);
        system.check();
    });
}

#[test]
fn memory_that_is_too_small_or_blank_is_refused() {
    let kernel = Kernel::new();
    let small = PmMedia::new(Bytes(12 * KIB));
    let pm = Pm::new(&kernel.sim(), PmConfig::default(), small, None);
    let refused =
        kernel.block_on(async move { HyFim::<RawDevice>::format(&pm, &hyfim_config()).await });
    let said = refused.unwrap_err().to_string();
    assert!(said.starts_with("persistent memory is full"), "{said}");
    let config = tiny();
    let kernel = Kernel::new();
    let left = Left {
        memory: PmMedia::new(Bytes(64 * KIB)),
        ..Left::new(&config)
    };
    let rig = Rig::on(&kernel, &config, left);
    let refused = kernel.block_on(async move { rig.mount().await.map(drop) });
    assert_eq!(refused, Err(HyfimError::Memory(PmError::Blank)));
}

//= hyfim 3.3
#[test]
fn a_node_of_another_generation_is_left_alone() {
    let config = tiny();
    let left = {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::new(&config));
        let on = rig.clone();
        kernel.block_on(async move {
            let (system, _) = on.mount().await.expect("a new drive");
            let mut node = vec![0; 4096 * NODE as usize];
            node[80] = 7;
            node[500] = 9;
            let all = (320..).zip(payloads(&node));
            let all: Vec<_> = all.collect();
            system
                .exchange(&all, Who::default())
                .await
                .expect("there is room");
            for (generation, value) in [(7, 1), (6, 2)] {
                let change = Change {
                    sector: 320,
                    sectors: NODE,
                    generation: Some((80, generation)),
                    parts: vec![(500, vec![value])],
                };
                let batch = [(change, payloads(&node))];
                system
                    .journal(&batch, Who::default())
                    .await
                    .expect("there is room");
            }
        });
        rig.cut(&mut Seed(1).stream("none"))
    };
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let (system, recovered) = rig.mount().await.expect("what was left");
        assert_eq!(recovered.changes, 2);
        assert_eq!(read(&system, 320, NODE).await[500], 1);
    });
}

/// Journals and tables of which bytes were changed: an error, or a system whose invariants
/// hold.
#[test]
fn hostile_memory_is_refused_or_sound() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    let running = rig.clone();
    kernel.sim().spawn_detached(async move {
        let (system, _) = running.mount().await.expect("a new drive");
        let known = || Rc::new(RefCell::new(Known::default()));
        let rng = Seed(1).stream("exchange");
        running
            .sim
            .spawn_detached(exchange(system.clone(), known(), rng, 0, 1_000));
        change(system, known(), Seed(1).stream("change"), 1_000).await;
    });
    let left = kernel.run_to_cut(2_000, || rig.cut(&mut Seed(1).stream("none")));
    let sim::Cut::Off(left) = left else {
        panic!("there is more to do")
    };
    let mut rng = Seed(2).stream("hostile");
    let (mut refused, mut sound) = (0, 0);
    for turn in 0..400 {
        let mut left = left.clone();
        for _ in 0..1 + turn % 7 {
            // Mostly the heads of the journals, and the table.
            let at = match rng.below(3) {
                0 => 4096 + rng.below(4096),
                1 => 8192 + rng.below(8192),
                _ => rng.below(64 * KIB),
            };
            let bytes = rng.next_u64().to_le_bytes();
            let count = 1 + rng.below(8) as usize;
            left.memory.write(at.min(64 * KIB - 8), &bytes[..count]);
        }
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let on = rig.clone();
        let mounted = kernel.block_on(async move { on.mount().await });
        match mounted {
            Ok((system, _)) => {
                system.check();
                sound += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20 && sound > 20, "{refused} {sound}");
}
