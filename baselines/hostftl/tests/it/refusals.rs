//! Drives that cannot be mounted, and damaged or foreign tables.

use crate::support::{Left, Model, Rig, SECTORS, ftl_config, sectors, tiny, work};
use host::{BlockPort, Who};
use hostftl::{FtlConfig, FtlError};
use sim::{Kernel, Seed};
use ssd::{Content, IoError, RawConfig, Unwritten};
use units::{Bytes, Placement};

fn mount(config: &ssd::DriveConfig, ftl: FtlConfig, left: Left) -> Result<(), FtlError> {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    kernel.block_on(async move {
        let mounted = rig.mount(ftl).await?;
        mounted.check();
        Ok(())
    })
}

#[test]
fn too_small_or_cached_drive_is_refused() {
    let mut config = tiny();
    let new = || Left::new(&config, false);
    // 26 lines of 64 blocks, five of them reserved.
    let fits = FtlConfig {
        capacity: Bytes(21 * 64 * 4096),
        ..ftl_config(&config)
    };
    assert_eq!(mount(&config, fits, new()), Ok(()));
    let none = FtlConfig { reserve: 0, ..fits };
    assert_eq!(mount(&config, none, new()), Err(FtlError::Reserve));
    let larger = FtlConfig { hidden: 1, ..fits };
    let error = mount(&config, larger, new()).unwrap_err().to_string();
    assert!(
        error.contains("lines: 27 asked for, 26 of 26 free"),
        "{error}"
    );
    let error = mount(&config, ftl_config(&config), Left::new(&config, true));
    assert_eq!(error, Ok(()));
    let hidden = FtlConfig {
        hidden: 2_000,
        ..ftl_config(&config)
    };
    let error = mount(&config, hidden, new()).unwrap_err().to_string();
    assert!(error.contains("sectors: 2700 asked for"), "{error}");
    config.raw = Some(RawConfig {
        cached: 4,
        read_unwritten: Unwritten::Error,
    });
    let left = Left::new(&config, false);
    assert_eq!(
        mount(&config, ftl_config(&config), left),
        Err(FtlError::Cached(4))
    );
}

#[test]
fn requests_past_the_end_are_refused() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let past = sectors(SECTORS - 1, 2);
        let write = ftl.write(past, Content::Fill(1), Placement(0), Who::default(), false);
        let write = write.await.expect_err("it reaches past the end");
        assert!(matches!(write, IoError::OutOfRange { .. }));
        assert!(ftl.read(past, &mut (), Who::default()).await.is_err());
        assert!(ftl.trim(past).await.is_err());
        assert!(
            ftl.read(sectors(SECTORS - 1, 1), &mut (), Who::default())
                .await
                .is_ok()
        );
    });
}

/// Tables with random entries, or one changed entry: the mount fails, or yields a mapping whose
/// invariants hold.
#[test]
fn hostile_tables_are_refused_or_mount_soundly() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    let (running, on) = (rig.clone(), config.clone());
    kernel.block_on(async move {
        let ftl = running.mount(ftl_config(&on)).await.expect("a new drive");
        let rng = Seed(1).stream("work");
        work(ftl.clone(), Model::shared(), rng, (0, 1), 600).await;
        ftl.flush().await.expect("there is room");
    });
    let good = rig.cut(&mut Seed(1).stream("none"));
    let mut rng = Seed(2).stream("hostile");
    let (mut refused, mut sound) = (0, 0);
    for turn in 0..400 {
        let mut left = good.clone();
        let memory = left.memory.as_mut().expect("it has some");
        let changes = if turn % 4 == 0 { 200 } else { 1 };
        for _ in 0..changes {
            let entry = match rng.below(3) {
                0 => rng.next_u64() as u32,
                1 => !(rng.below(1_700) as u32),
                _ => u32::MAX,
            };
            let at = 4096 + 64 + 4 * rng.below(u64::from(SECTORS));
            memory.write(at, &entry.to_le_bytes());
        }
        match mount(&config, ftl_config(&config), left) {
            Ok(()) => sound += 1,
            Err(FtlError::Table(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 100 && sound > 20, "{refused} {sound}");
}

/// Zeros are not valid entries: sectors of a lost line do not read as deallocated.
#[test]
fn lost_line_of_the_table_is_detected() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    let (running, on) = (rig.clone(), config.clone());
    kernel.block_on(async move {
        running.mount(ftl_config(&on)).await.expect("a new drive");
    });
    let good = rig.cut(&mut Seed(1).stream("none"));
    let mut left = good.clone();
    let memory = left.memory.as_mut().expect("it has some");
    memory.write(4096 + 64 + 64, &[0; 64]);
    let said = mount(&config, ftl_config(&config), left).expect_err("it is lost");
    assert!(
        said.to_string().contains("sector 16 leads to block"),
        "{said}"
    );
}

/// A table of another drive, of another size, or uninitialized.
#[test]
fn table_of_another_drive_or_size_is_refused() {
    let config = tiny();
    let refused = |config: &ssd::DriveConfig, ftl, left| {
        let refused = mount(config, ftl, left);
        refused.expect_err("it does not fit").to_string()
    };
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    let (running, on) = (rig.clone(), config.clone());
    kernel.block_on(async move {
        running.mount(ftl_config(&on)).await.expect("a new drive");
    });
    let good = rig.cut(&mut Seed(1).stream("none"));
    assert_eq!(mount(&config, ftl_config(&config), good.clone()), Ok(()));
    // Both drives are empty, so each entry alone would fit.
    let mut other = tiny();
    other.geometry.pages_per_block = 16;
    let left = Left {
        memory: good.memory.clone(),
        ..Left::new(&other, false)
    };
    let said = refused(&other, ftl_config(&other), left);
    assert!(said.contains("of a drive of another shape"), "{said}");
    for hidden in [1, 400] {
        let larger = FtlConfig {
            hidden,
            ..ftl_config(&config)
        };
        let said = refused(&config, larger, good.clone());
        let expected = format!("for 700 sectors, not for {}", 700 + hidden);
        assert!(said.contains(&expected), "{said}");
    }
    let mut blank = good;
    let memory = blank.memory.as_mut().expect("it has some");
    memory.write(4096, &[0; 8]);
    let said = refused(&config, ftl_config(&config), blank);
    assert!(said.contains("nobody has made it"), "{said}");
}
