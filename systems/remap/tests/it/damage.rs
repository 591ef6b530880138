//! Damaged blocks, and blocks forged with knowledge of the format.

use crate::memory::{SECTORS, SIZE, disk, layout, options, read, units, write};
use bolero::TypeGenerator;
use host::{Image, RamDisk};
use judges::rounds;
use nand::{Payload, UNIT};
use remap::{OpenError, Options, Remap, Shown, Variant};
use sim::{Kernel, Seed, Sim};
use ssd::IoError;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use units::Ns;

type Left = BTreeMap<u64, Payload>;

/// A layer with a checkpoint and a log behind it, and its contents unit by unit.
fn written() -> &'static (Left, Vec<u64>) {
    static WRITTEN: OnceLock<(Left, Vec<u64>)> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.block_on(async move {
            let disk = RamDisk::new(&sim, SIZE);
            remap::format(&disk, &layout()).await.unwrap();
            let port = remap::open(&sim, &disk, quiet()).await.unwrap();
            let mut rng = Seed(4).stream("writes");
            for number in 0..200 {
                write(&port, rng.below(units(&port)), 1, number + 1, false)
                    .await
                    .unwrap();
            }
            port.close().await.unwrap();
            let port = remap::open(&sim, &disk, quiet()).await.unwrap();
            for number in 200..260 {
                let fua = number % 10 == 9;
                write(&port, rng.below(units(&port)), 1, number + 1, fua)
                    .await
                    .unwrap();
            }
            let mut shown = Vec::new();
            for unit in 0..units(&port) {
                shown.push(read(&port, unit).await.unwrap());
            }
            (disk.after_cut(&mut rng), shown)
        })
    })
}

/// Options without background work or commits by age or size.
fn quiet() -> Options {
    Options {
        memory: None,
        commit_pairs: 1_000,
        commit_interval: Ns::secs(1_000),
        background: false,
        ..options(Variant::Compact)
    }
}

struct AtRest<'a>(&'a Left);

impl Image for AtRest<'_> {
    fn blocks(&self) -> u64 {
        SIZE.0 / UNIT as u64
    }

    fn read(&self, unit: u64, out: &mut [u8; UNIT]) -> bool {
        self.0.get(&unit).unwrap_or(&Payload::Zero).copy_to(0, out)
    }
}

async fn all(sim: &Sim, left: Left) -> Result<Vec<u64>, OpenError> {
    let port: Remap<RamDisk> = remap::open(sim, &disk(sim, left), quiet()).await?;
    port.check().expect("what opens is sound");
    let mut shown = Vec::new();
    for unit in 0..units(&port) {
        shown.push(read(&port, unit).await.unwrap());
    }
    Ok(shown)
}

/// Mounts the layer, and resolves it at rest: both must agree.
fn opened(left: &Left) -> Result<Vec<u64>, OpenError> {
    let at_rest = Shown::new(AtRest(left)).map(|shown| {
        let pattern = |unit| {
            let mut bytes = [0; UNIT];
            assert!(shown.read(unit, &mut bytes));
            bytes
                .first_chunk::<8>()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        (0..shown.units()).map(pattern).collect::<Vec<u64>>()
    });
    let kernel = Kernel::new();
    let (sim, left) = (kernel.sim(), left.clone());
    let mounted = kernel.block_on(async move { all(&sim, left).await });
    match (&at_rest, &mounted) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        other => panic!("at rest and mounted differ: {other:?}"),
    }
    mounted
}

fn bytes(left: &Left, unit: u64) -> [u8; UNIT] {
    left.get(&unit).unwrap_or(&Payload::Zero).to_bytes()
}

fn with(left: &Left, unit: u64, bytes: [u8; UNIT]) -> Left {
    let mut left = left.clone();
    left.insert(unit, Payload::Bytes(Arc::new(bytes)));
    left
}

/// First unit of the data area, from the superblock.
fn data(left: &Left) -> u64 {
    let superblock = bytes(left, 0);
    u64::from(u32::from_le_bytes([
        superblock[68],
        superblock[69],
        superblock[70],
        superblock[71],
    ]))
}

#[test]
fn damaged_block_is_detected_or_not_needed() {
    let (left, shown) = written();
    assert_eq!(opened(left).as_ref(), Ok(shown));
    let mut said = BTreeMap::new();
    for unit in 0..data(left) {
        for at in [0, 9, 2_000, 4_081, 4_093] {
            let mut damaged = bytes(left, unit);
            damaged[at] ^= 0x10;
            match opened(&with(left, unit, damaged)) {
                // The last transaction reads as torn, so it may never have been acknowledged.
                Ok(found) if found != *shown => {
                    let lost = found.iter().zip(shown).filter(|(a, b)| a != b).count();
                    assert!(lost <= 10, "unit {unit}: {lost} units are lost");
                    *said.entry("torn".to_owned()).or_insert(0) += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    let text = error.to_string();
                    let kind = text.split(' ').next().unwrap_or_default();
                    *said.entry(kind.to_owned()).or_insert(0) += 1;
                }
            }
        }
    }
    // Damage of table page, directory, log and last checkpoint is each reported.
    for kind in ["page", "block", "the", "torn"] {
        assert!(said.contains_key(kind), "{said:?}");
    }
}

#[test]
fn damage_report_names_what_can_be_read() {
    let (left, _) = written();
    let zeros = |unit| with(left, unit, [0; UNIT]);
    let says = |left: &Left| opened(left).unwrap_err().to_string();
    let neither = with(&zeros(0), 1, [0; UNIT]);
    assert!(says(&neither).starts_with("no remapping layer is here, or both copies"));
    // One valid copy of the superblock is enough.
    assert!(opened(&zeros(0)).is_ok() && opened(&zeros(1)).is_ok());
    let neither = with(&zeros(2), 3, [0; UNIT]);
    assert!(says(&neither).starts_with("both checkpoints are damaged"));
    let newest = [2, 3].map(|unit| says_or_nothing(&zeros(unit)));
    let said = newest
        .iter()
        .flatten()
        .next()
        .expect("the log goes on from one of them");
    assert!(
        said.starts_with("the last checkpoint is damaged: transaction"),
        "{said}"
    );
    let directories = [4, 5].map(|unit| says_or_nothing(&zeros(unit)));
    let said = directories
        .iter()
        .flatten()
        .next()
        .expect("one of them is the last");
    assert!(said.contains("of the directory of checkpoint"), "{said}");
    assert!(said.ends_with("all others can"), "{said}");
    let all = (6..data(left)).filter_map(|unit| says_or_nothing(&zeros(unit)));
    let (log, pages): (Vec<_>, Vec<_>) = all.partition(|said| said.starts_with("block"));
    assert!(
        !log.is_empty() && log[0].contains("of the log is damaged"),
        "{log:?}"
    );
    assert!(
        !pages.is_empty() && pages[0].ends_with("all others can be read"),
        "{pages:?}"
    );
}

fn says_or_nothing(left: &Left) -> Option<String> {
    opened(left).err().map(|error| error.to_string())
}

/// A forged change of a block: a value is set, and the checksum possibly made valid again.
#[derive(Clone, Debug, TypeGenerator)]
struct Change {
    /// Block to change, modulo the blocks before the data area.
    block: u16,
    /// Offset within the block, in words of 4 bytes.
    at: u16,
    value: u32,
    /// Whether `value` is reduced below 64.
    small: bool,
    /// Whether the checksum is made valid again.
    seals: bool,
}

/// Makes the checksum of a block valid, for the kind of block at `unit`: superblock, checkpoint,
/// directory, table page or log.
fn seal(block: &mut [u8; UNIT], uuid: &[u8], unit: u64) {
    let kind: u8 = match unit {
        0 | 1 => 1,
        2 | 3 => 2,
        4 | 5 => 3,
        6..22 => 5,
        _ => 4,
    };
    let seeded = crc32c::crc32c_append(crc32c::crc32c(uuid), &[kind]);
    let sum = crc32c::crc32c_append(seeded, &block[..4092]);
    block[4092..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn mount_of_forged_blocks_does_not_panic() {
    changed_blocks(|changed| drop(opened(changed)));
}

/// Runs `look` on layers with randomly changed blocks.
fn changed_blocks(look: impl Fn(&Left) + std::panic::RefUnwindSafe) {
    let (left, _) = written();
    let data = data(left);
    let uuid = bytes(left, 0)[16..32].to_vec();
    bolero::check!()
        .with_type::<Vec<Change>>()
        .with_iterations(rounds(400, 2_000) as usize)
        .for_each(|changes| {
            let mut changed = left.clone();
            for change in changes.iter().take(8) {
                let unit = u64::from(change.block) % data;
                let mut block = bytes(&changed, unit);
                let at = usize::from(change.at) % (UNIT / 4) * 4;
                let value = if change.small {
                    change.value % 64
                } else {
                    change.value
                };
                block[at..at + 4].copy_from_slice(&value.to_le_bytes());
                if change.seals {
                    seal(&mut block, &uuid, unit);
                }
                changed.insert(unit, Payload::Bytes(Arc::new(block)));
            }
            look(&changed);
        });
}

#[test]
fn unreadable_log_block_is_told_from_a_torn_one() {
    let (left, shown) = written();
    let lost = |unit| {
        let mut left = left.clone();
        left.insert(unit, Payload::Lost);
        left
    };
    // In the log, the used blocks and the block where it continues matter.
    let said: Vec<String> = (6..22)
        .filter_map(|unit| says_or_nothing(&lost(unit)))
        .collect();
    assert!(said.len() > 6, "{said:?}");
    assert!(
        said.iter()
            .all(|said| said.contains("of the log cannot be read"))
    );
    // One valid copy of the superblock is enough.
    assert_eq!(opened(&lost(0)).as_ref(), Ok(shown));
    assert_eq!(opened(&lost(1)).as_ref(), Ok(shown));
}

/// Salvages a layer: contents by unit (`None` if lost), and the damage in sentences.
fn salvaged(left: &Left) -> Result<(Vec<Option<u64>>, Vec<String>), OpenError> {
    let kernel = Kernel::new();
    let (sim, left) = (kernel.sim(), left.clone());
    kernel.block_on(async move {
        let (port, damage) = remap::salvage(&sim, &disk(&sim, left), quiet()).await?;
        let refused = write(&port, 0, 1, 1, false).await;
        assert_eq!(refused, Err(IoError::ReadOnly));
        let mut shown = Vec::new();
        for unit in 0..units(&port) {
            shown.push(match read(&port, unit).await {
                Ok(pattern) => Some(pattern),
                Err(error) => {
                    assert_eq!(error, IoError::Media(unit * SECTORS));
                    None
                }
            });
        }
        Ok((shown, damage.iter().map(ToString::to_string).collect()))
    })
}

/// Asserts that salvage loses at most `lost` units, shows all others as they were, and reports
/// `says`.
#[track_caller]
fn shows_the_rest(left: &Left, shown: &[u64], lost: usize, says: &str) {
    let (found, said) = salvaged(left).expect("something is left");
    let all = found.iter().zip(shown);
    let gone = found.iter().filter(|found| found.is_none()).count();
    assert!(
        all.clone()
            .all(|(found, shown)| found.is_none_or(|found| found == *shown))
    );
    assert!(gone <= lost, "{gone} units of {} are lost", shown.len());
    assert!(said.iter().any(|said| said.contains(says)), "{said:?}");
}

#[test]
fn salvage_reads_undamaged_units_as_they_were() {
    let (left, shown) = written();
    let whole = shown.iter().copied().map(Some).collect();
    assert_eq!(salvaged(left), Ok((whole, Vec::new())));
    let zeros = |unit| with(left, unit, [0; UNIT]);
    let damaged: Vec<u64> = (6..data(left))
        .filter(|&unit| opened(&zeros(unit)).is_err())
        .collect();
    let (log, pages): (Vec<u64>, Vec<u64>) = damaged.iter().partition(|unit| **unit < 22);
    for unit in pages {
        // A table of 64 KiB is one page.
        shows_the_rest(&zeros(unit), shown, 16, "of the tables is damaged");
    }
    for unit in log {
        // A transaction of this test has at most ten addresses, which read as before it.
        let (found, said) = salvaged(&zeros(unit)).expect("something is left");
        let other = found.iter().zip(shown).filter(|(a, b)| **a != Some(**b));
        assert!(other.count() <= 10, "unit {unit}");
        assert!(
            said.iter()
                .any(|said| said.contains("of the log is damaged")),
            "{said:?}"
        );
    }
    // One of the checkpoints is not needed, and the other is rebuilt from its directory and the
    // log.
    for unit in [2, 3]
        .into_iter()
        .filter(|unit| opened(&zeros(*unit)).is_err())
    {
        shows_the_rest(&zeros(unit), shown, 0, "the last checkpoint is damaged");
    }
    let neither = with(&zeros(2), 3, [0; UNIT]);
    shows_the_rest(&neither, shown, 0, "both checkpoints are damaged");
    for unit in [4, 5]
        .into_iter()
        .filter(|unit| opened(&zeros(*unit)).is_err())
    {
        // One directory block covers all tables; only addresses in the log remain.
        shows_the_rest(
            &zeros(unit),
            shown,
            shown.len(),
            "of the directory of checkpoint",
        );
    }
    let neither = with(&zeros(0), 1, [0; UNIT]);
    assert_eq!(salvaged(&neither), Err(OpenError::NoSuperblock));
}

#[test]
fn salvage_of_forged_blocks_does_not_panic() {
    let (left, _) = written();
    changed_blocks(|changed| drop(salvaged(changed)));
    assert!(salvaged(left).is_ok());
}

/// Blocks of random bytes anywhere in the metadata.
#[test]
fn random_metadata_does_not_panic() {
    bolero::check!()
        .with_type::<Vec<(u16, Vec<u8>)>>()
        .with_iterations(rounds(400, 2_000) as usize)
        .for_each(|blocks| {
            let (left, _) = written();
            let mut changed = left.clone();
            for (unit, bytes) in blocks.iter().take(8) {
                let mut block = [0; UNIT];
                for (to, from) in block.iter_mut().zip(bytes) {
                    *to = *from;
                }
                changed = with(&changed, u64::from(*unit) % data(left), block);
            }
            let (_, _) = (opened(&changed), salvaged(&changed));
        });
}
