//! Flash failures under a mapping.

use crate::support::{Left, Model, Rig, SECTORS, ftl_config, read, sectors, tiny, value, work};
use host::{BlockPort, Who};
use sim::{Kernel, Seed};
use ssd::{Content, DriveMedia, IoError};
use units::Placement;

#[test]
fn failed_programs_and_erases_lose_nothing() {
    let mut config = tiny();
    config.faults.program_failures = 4_000;
    config.faults.erase_failures = 4_000;
    config.faults.factory_bad_blocks = 20_000;
    let kernel = Kernel::new();
    let media = DriveMedia::new(&config, Seed(5)).expect("it can be built");
    let left = Left {
        media,
        memory: None,
    };
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let ftl = rig
            .mount(ftl_config(&config))
            .await
            .expect("enough good chunks");
        let model = Model::shared();
        let rng = Seed(5).stream("work");
        work(ftl.clone(), model.clone(), rng, (0, 1), 4_000).await;
        ftl.flush().await.expect("there is room");
        ftl.check();
        assert!(
            ftl.stats().failed > 0 && rig.drive.wear().1 > 2,
            "{:?}",
            ftl.stats()
        );
        let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
        for (sector, payload) in (0..).zip(&held) {
            assert_eq!(value(payload), Some(model.borrow().newest(sector)));
        }
    });
}

#[test]
fn worn_out_drive_refuses_writes_and_is_readable() {
    let mut config = tiny();
    config.faults.erase_failures = 250_000;
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let who = Who::default();
        let mut refused = None;
        let mut last = vec![0; SECTORS as usize];
        for turn in 1..20_000_u64 {
            let sector = (turn * 7 % u64::from(SECTORS)) as u32;
            let write = ftl.write(
                sectors(sector, 1),
                Content::Fill(turn),
                Placement(0),
                who,
                true,
            );
            match write.await {
                Ok(()) => last[sector as usize] = turn,
                Err(error) => {
                    refused = Some((error, sector));
                    break;
                }
            }
        }
        let (error, under_way) = refused.expect("its lines go");
        assert_eq!(error, IoError::ReadOnly);
        let why = ftl.refusals();
        let why = why
            .met()
            .first()
            .expect("a limit was met")
            .first
            .to_string();
        assert!(why.starts_with("lines: 1 asked for"), "{why}");
        assert_eq!(ftl.flush().await, Err(IoError::ReadOnly));
        for sector in (0..SECTORS).filter(|&sector| sector != under_way) {
            let held = read(&ftl, sector, 1).await.expect("it is read on");
            assert_eq!(
                value(&held[0]),
                Some(last[sector as usize]),
                "sector {sector}"
            );
        }
    });
}

/// Programs fail during cleaning until no line is left for moved sectors.
#[test]
fn failed_programs_that_use_up_lines_end_in_errors() {
    for seed in 0..30 {
        let mut config = tiny();
        config.faults.program_failures = 100_000;
        let kernel = Kernel::new();
        let left = Left {
            media: DriveMedia::new(&config, Seed(seed)).expect("it can be built"),
            memory: None,
        };
        let rig = Rig::on(&kernel, &config, left);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
            let mut refused = None;
            for turn in 1..20_000_u64 {
                let sector = (turn * 11 % u64::from(SECTORS)) as u32;
                let content = Content::Fill(turn);
                let at = sectors(sector, 1);
                let write = ftl.write(at, content, Placement(0), Who::default(), turn % 8 == 0);
                refused = write.await.err();
                if refused.is_some() {
                    break;
                }
            }
            assert_eq!(refused, Some(IoError::ReadOnly), "{:?}", ftl.stats());
            assert_eq!(ftl.refusals().met().len(), 1);
            ftl.check();
        });
    }
}

#[test]
fn unreadable_sector_returns_an_error() {
    let mut config = tiny();
    config.faults.read_retries = 1_000_000;
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let who = Who::default();
        let write = ftl.write(sectors(5, 4), Content::Fill(1), Placement(0), who, true);
        write.await.expect("there is room");
        let error = read(&ftl, 4, 3).await.expect_err("nothing can be read");
        assert_eq!(error, IoError::Media(5 * 8));
    });
}
