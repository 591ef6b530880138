//! Limits: full journals, too few spare sectors, too little memory, and damaged bytes.

use crate::support::{
    Known, Left, NODE, Rig, System, change, compare, exchange, hyfim_config, payloads, read, tiny,
};
use host::{BlockPort, PageChange, PmError, PmMedia, SwapPort, Who};
use hostftl::FtlConfig;
use hyfim::{HyFim, HyfimConfig, HyfimError};
use nand::Payload;
use sim::{Kernel, Seed};
use ssd::{Content, IoError};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Extent, KIB, MIB, Ns, Placement};

/// The paper's drive and memory: a table of four-byte entries leaves room for both journals, one of
/// eight-byte entries would not.
//= hyfim 3.4
#[test]
fn paper_memory_fits_the_paper_drive() {
    const MEMORY: u64 = 1024 * MIB;
    let capacity = Bytes(508_000_000_000 / KIB / 4 * 4 * KIB);
    let config = HyfimConfig::new(FtlConfig::new(capacity));
    let sectors = capacity.0 / (4 * KIB);
    let needed = config.memory().0;
    let beside = needed - 2 * config.journal.0;
    assert!(
        (4 * sectors..4 * sectors + MIB).contains(&beside),
        "{beside}"
    );
    assert!(needed <= MEMORY, "{needed}");
    assert!(needed + 4 * sectors > MEMORY, "four bytes more a sector");
}

/// A change of `part` of a node whose bytes are all 1.
fn change_of(first: u64, part: std::ops::Range<usize>) -> PageChange {
    PageChange {
        first,
        contents: payloads(&vec![1; 4096 * NODE as usize]),
        stamp: None,
        parts: vec![part],
        who: Who::default(),
    }
}

#[test]
fn oversized_batches_are_refused_without_effect() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    kernel.block_on(async move {
        let (system, _) = rig.mount().await.expect("a new drive");
        let who = Who::default();
        let many = vec![Payload::Fill(1); 17];
        assert_eq!(system.stage(0, &many, who).await, Ok(None));
        assert_eq!(system.stats().refused, 1);
        let past = system.stage(600, &many[..1], who).await;
        assert!(matches!(past, Err(IoError::OutOfRange { .. })), "{past:?}");
        let past = system.stage(u64::MAX, &many[..1], who).await;
        assert!(matches!(past, Err(IoError::OutOfRange { .. })), "{past:?}");
        let staged = system.stage(0, &many[..16], who).await.expect("in range");
        let staged = staged.expect("as many as there are");
        assert_eq!(system.stage(20, &many[..1], who).await, Ok(None));
        // A publication with an invalid change has no effect.
        for wrong in [
            change_of(320, 0..20_000),
            change_of(320, 16_380..16_385),
            change_of(598, 0..1),
            change_of(u64::MAX, 0..1),
            change_of(320, 0..0),
        ] {
            let refused = system.publish(&[staged], &[wrong]).await;
            assert_eq!(refused, Err(IoError::ReadOnly));
        }
        let large: Vec<PageChange> = (0..3).map(|n| change_of(320 + 4 * n, 0..16_000)).collect();
        assert!(system.publish(&[staged], &large).await.is_err());
        assert!(
            read(&system, 320, 3 * NODE)
                .await
                .iter()
                .all(|&byte| byte == 0)
        );
        system.unstage(staged);
        assert!(read(&system, 0, 16).await.iter().all(|&byte| byte == 0));
        system.publish(&[], &[]).await.expect("there is room");
        assert_eq!(system.spares(), 16);
        system.check();
    });
}

#[test]
fn publication_waits_for_a_full_journal() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    kernel.block_on(async move {
        let (system, _) = rig.mount().await.expect("a new drive");
        // Each change nearly fills the journal.
        for _ in 0..2 {
            let change = change_of(420, 0..7_000);
            system.publish(&[], &[change]).await.expect("there is room");
        }
        assert_eq!(system.stats().waits, 1);
        let known = Rc::new(RefCell::new(Known::default()));
        let on = (rig.sim.clone(), system.clone());
        change(on, known.clone(), Seed(3).stream("change"), 900).await;
        let nodes = known.borrow().nodes.clone();
        for (sector, bytes) in nodes {
            assert!(read(&system, sector, NODE).await == bytes);
        }
        let stats = system.stats();
        assert!(stats.written_back > 20, "{stats:?}");
        assert_eq!(read(&system, 420, 2).await[..7_000], [1; 7_000]);
        assert!(rig.sim.now() > Ns::ZERO);
        system.check();
    });
}

/// Other data at the former place of a node are not overwritten by redo.
#[test]
fn data_written_over_a_node_survive_recovery() {
    let config = tiny();
    let left = {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::new(&config));
        let on = rig.clone();
        kernel.block_on(async move {
            let (system, _) = on.mount().await.expect("a new drive");
            let change = PageChange {
                stamp: Some((80, 0)),
                ..change_of(320, 500..501)
            };
            system.publish(&[], &[change]).await.expect("there is room");
            // The data match a node's generation, as those of a program may.
            let mut bytes = vec![1; 4096 * NODE as usize];
            bytes[80..88].fill(0);
            bytes[500] = 9;
            overwrite(&system, 320, &bytes).await;
            assert_eq!(read(&system, 320, 1).await[500], 9);
        });
        rig.cut(&mut Seed(1).stream("none"))
    };
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let (system, _) = rig.mount().await.expect("what was left");
        assert_eq!(read(&system, 320, 1).await[500], 9);
    });
}

/// Writes `bytes` over the place of a node as plain data, with force.
async fn overwrite(system: &System, sector: u64, bytes: &[u8]) {
    let contents = payloads(bytes);
    let content = Content::Sectors(&contents);
    let extent = Extent::new(sector * 8, NODE * 8);
    let write = system.write(extent, content, Placement(0), Who::default(), true);
    write.await.expect("there is room");
}

#[test]
fn too_small_or_blank_memory_is_refused() {
    let config = tiny();
    let on = |memory: PmMedia, mounts: bool| {
        let kernel = Kernel::new();
        let left = Left {
            memory,
            ..Left::new(&config)
        };
        let rig = Rig::on(&kernel, &config, left);
        kernel.block_on(async move {
            let (port, pm, config) = (rig.port(), &rig.pm, hyfim_config());
            match mounts {
                true => HyFim::mount(&rig.sim, port, pm, config).await.map(drop),
                false => HyFim::adopt(&rig.sim, port, pm, config).await.map(drop),
            }
        })
    };
    let refused = on(PmMedia::new(Bytes(12 * KIB)), false);
    let said = refused.unwrap_err().to_string();
    assert!(said.starts_with("persistent memory is full"), "{said}");
    let refused = on(PmMedia::new(Bytes(64 * KIB)), true);
    assert_eq!(refused, Err(HyfimError::Memory(PmError::Blank)));
}

//= hyfim 3.3
#[test]
fn redo_skips_a_node_of_another_generation() {
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
            overwrite(&system, 320, &node).await;
            for (generation, value) in [(7, 1), (6, 2)] {
                node[500] = value;
                let change = PageChange {
                    contents: payloads(&node),
                    stamp: Some((80, generation)),
                    ..change_of(320, 500..501)
                };
                system.publish(&[], &[change]).await.expect("there is room");
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

/// Journals and tables with random changes: the mount fails, or yields a system whose invariants
/// hold and that has what was promised. Entries of the table alone have no checksum.
#[test]
fn hostile_memory_is_refused_or_mounts_soundly() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    let known = [(); 2].map(|()| Rc::new(RefCell::new(Known::default())));
    let (running, [sectors, nodes]) = (rig.clone(), known.clone());
    kernel.sim().spawn_detached(async move {
        let (system, _) = running.mount().await.expect("a new drive");
        let on = (running.sim.clone(), system);
        let rng = Seed(1).stream("exchange");
        running
            .sim
            .spawn_detached(exchange(on.clone(), sectors, rng, 0, 1_000));
        change(on, nodes, Seed(1).stream("change"), 1_000).await;
    });
    let left = kernel.run_to_cut(2_000, || rig.cut(&mut Seed(1).stream("none")));
    let sim::Cut::Off(left) = left else {
        panic!("there is more to do")
    };
    let mut rng = Seed(2).stream("hostile");
    let (mut refused, mut sound, mut compared) = (0, 0, 0);
    for turn in 0..400 {
        let mut left = left.clone();
        let mut has_sums = true;
        for _ in 0..1 + turn % 7 {
            // Mostly the journals and the table.
            let at = match rng.below(3) {
                0 => 4096 + rng.below(4096),
                1 => 8192 + rng.below(8192),
                _ => rng.below(64 * KIB),
            };
            let bytes = rng.next_u64().to_le_bytes();
            let count = 1 + rng.below(8) as usize;
            has_sums &= !(4096 + 64 - 7..8192).contains(&at);
            left.memory.write(at.min(64 * KIB - 8), &bytes[..count]);
        }
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let on = rig.clone();
        let promised = known.each_ref().map(|known| known.borrow().clone());
        let is_sound = kernel.block_on(async move {
            let Ok((system, _)) = on.mount_left().await else {
                return false;
            };
            system.check();
            for mut known in promised.into_iter().filter(|_| has_sums) {
                compare(&system, &mut known, &format!("turn {turn}")).await;
            }
            true
        });
        sound += u32::from(is_sound);
        refused += u32::from(!is_sound);
        compared += u32::from(is_sound && has_sums);
    }
    assert!(
        refused > 20 && sound > 20 && compared > 10,
        "{refused} {sound} {compared}"
    );
}
