//! Recovery from arbitrary persistent memory: the mount fails, or yields a system whose invariants
//! hold and whose contents survive another mount. After the loss of a line, an accepted system also
//! has everything that was promised.

use crate::support::{
    Known, Left, Rig, SECTORS, Shared, System, change, compare, exchange, payloads, read, tiny,
};
use bolero::TypeGenerator;
use host::{PageChange, PmMedia, SwapPort, Who};
use hyfim::HyfimError;
use nand::Payload;
use sim::{Cut, Kernel, Seed};
use std::cell::RefCell;
use std::rc::Rc;
use units::Bytes;

/// Start of the table region and of the journals, and slots of a journal.
const TABLE: u64 = 4096;
const JOURNALS: [u64; 2] = [8192, 16384];
const SLOTS: u64 = 8192 / 64 - 1;
/// Bytes of the superblock (`SUPERBLOCK`), and of all memory in use.
const SUPERBLOCK: usize = 24 + 16 * 24 + 8;
const USED: u64 = JOURNALS[1] + 8192;

/// A forged record with a valid checksum.
#[derive(Clone, Debug, TypeGenerator)]
struct Record {
    state: u8,
    body: Body,
    /// Changes of body bytes, before the checksum is computed.
    edits: Vec<(u16, u8)>,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Body {
    Exchange {
        partner: u8,
        quadruples: Vec<(u16, u16, u8, u16)>,
    },
    Changes(Vec<Change>),
}

/// A forged node change: sector, sectors, offset of the generation, generation, and parts (first
/// byte, count).
type Change = (u16, u8, u16, u8, Vec<(u16, u8)>);

impl Record {
    /// Index of the journal for the record, and its encoded body.
    fn body(&self) -> (usize, Vec<u8>) {
        let mut body = Vec::new();
        let word = |body: &mut Vec<u8>, word: u32| body.extend(word.to_le_bytes());
        let journal = match &self.body {
            Body::Exchange {
                partner,
                quadruples,
            } => {
                body.extend(u64::from(partner % 4).to_le_bytes());
                word(&mut body, quadruples.len() as u32);
                for &(sector, old, spare, new) in quadruples {
                    word(&mut body, u32::from(sector) % (SECTORS + 4));
                    word(&mut body, old.into());
                    word(&mut body, SECTORS + u32::from(spare) % 18);
                    word(&mut body, u32::from(new) % 1_700);
                }
                0
            }
            Body::Changes(changes) => {
                word(&mut body, changes.len() as u32);
                for (sector, sectors, at, generation, parts) in changes {
                    word(&mut body, u32::from(*sector) % (SECTORS + 4));
                    word(&mut body, u32::from(*sectors) % 18);
                    let nowhere = at % 3 == 0;
                    word(&mut body, if nowhere { u32::MAX } else { (*at).into() });
                    body.extend(u64::from(*generation).to_le_bytes());
                    word(&mut body, parts.len() as u32);
                    for &(first, count) in parts {
                        word(&mut body, first.into());
                        word(&mut body, count.into());
                        body.extend(vec![count; count.into()]);
                    }
                }
                1
            }
        };
        for &(at, byte) in &self.edits {
            let at = usize::from(at) % body.len();
            body[at] = byte;
        }
        (journal, body)
    }
}

/// Last bytes of state words; the first one is no state.
const STATES: [u64; 5] = [0, 0x17, 0x2b, 0x4d, 0x8e];

fn word(left: &Left, at: u64) -> u64 {
    let mut word = [0; 8];
    left.memory.read(at, &mut word);
    u64::from_le_bytes(word)
}

/// Positions of the oldest record of the journal at `at`, and behind its newest committed one.
fn ends(left: &Left, at: u64) -> [u64; 2] {
    [at, at + 8].map(|at| word(left, at) & ((1 << 48) - 1))
}

/// Address of the record at `position` of the journal at `at`.
fn slot(at: u64, position: u64) -> u64 {
    at + 64 + position % SLOTS * 64
}

/// Sets the committed position of the journal at `at`.
fn commit(left: &mut Left, at: u64, position: u64) {
    let sum = crc32c::crc32c(&position.to_le_bytes()[..6]);
    let word = position | u64::from(sum & 0xffff) << 48;
    left.memory.write(at + 8, &word.to_le_bytes());
}

/// Writes a record with a valid checksum to the journal at `at`; returns the position behind it.
fn put(left: &mut Left, (at, position): (u64, u64), state: u8, body: &[u8]) -> u64 {
    let sum = crc32c::crc32c(&position.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &(body.len() as u64).to_le_bytes());
    let sum = crc32c::crc32c_append(sum, body);
    let state = 0x4859_4649_4d51_5500 | STATES[usize::from(state)];
    let mut bytes = state.to_le_bytes().to_vec();
    bytes.extend(position.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(sum.to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(body);
    for (position, part) in (position..).zip(bytes.chunks(64)) {
        left.memory.write(slot(at, position), part);
    }
    position + bytes.len().div_ceil(64) as u64
}

/// Remains of a system cut while busy, and its promises.
fn busy() -> (Left, [Shared; 2]) {
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
    match kernel.run_to_cut(2_000, || rig.cut(&mut Seed(1).stream("none"))) {
        Cut::Off(left) => (left, known),
        Cut::AtRest => panic!("there is more to do"),
    }
}

/// Contents of every exported sector.
async fn contents(system: &System) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for sector in 0..SECTORS {
        all.push(read(system, sector, 1).await);
    }
    all
}

/// Mounts `left`, uses it, cuts the power and mounts it again; returns whether the first mount
/// succeeded.
fn survive(left: Left) -> bool {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    let on = rig.clone();
    let before = kernel.block_on(async move {
        let Ok((system, _)) = on.mount_left().await else {
            return None;
        };
        system.check();
        let change = PageChange {
            first: 320,
            contents: payloads(&vec![5; 4 * 4096]),
            stamp: None,
            parts: std::iter::once(0..4 * 4096).collect(),
            who: Who::default(),
        };
        // The journal may lack room for a whole node.
        let change = PageChange {
            contents: change.contents[..1].to_vec(),
            parts: std::iter::once(0..4096).collect(),
            ..change
        };
        system.publish(&[], &[change]).await.expect("there is room");
        Some(contents(&system).await)
    });
    let Some(before) = before else { return false };
    let left = rig.cut(&mut Seed(1).stream("none"));
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let (system, _) = rig.mount_left().await.expect("it was mounted before");
        system.check();
        assert!(contents(&system).await == before);
    });
    true
}

/// Whether the mount is refused; asserts all promises if it is not.
fn is_refused(left: Left, promised: &[Shared; 2], what: &str) -> bool {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &tiny(), left);
    let promised = promised.each_ref().map(|known| known.borrow().clone());
    let what = what.to_owned();
    kernel.block_on(async move {
        let Ok((system, _)) = rig.mount_left().await else {
            return true;
        };
        system.check();
        for mut known in promised {
            compare(&system, &mut known, &what).await;
        }
        false
    })
}

/// Lines and words of zeros are never taken for new memory, for entries or for the end of a
/// journal.
#[test]
fn lost_line_is_detected_or_was_unused() {
    let (good, promised) = busy();
    let (mut refused, mut sound) = (0, 0);
    for bytes in [64, 8] {
        for at in (0..USED).step_by(bytes) {
            let mut left = good.clone();
            left.memory.write(at, &vec![0; bytes]);
            if left.memory == good.memory {
                continue;
            }
            match is_refused(left, &promised, &format!("{bytes} from {at}")) {
                true => refused += 1,
                false => sound += 1,
            }
        }
    }
    assert!(refused > 300 && sound > 0, "{refused} {sound}");
}

/// Addresses of the records in use of the journal at `at`, oldest first.
fn heads(left: &Left, at: u64) -> Vec<u64> {
    let [mut position, end] = ends(left, at);
    let mut heads = Vec::new();
    while position < end {
        let head = slot(at, position);
        heads.push(head);
        position += 1 + (word(left, head + 16) & 0xffff_ffff).div_ceil(64);
    }
    heads
}

/// Flips all bits of the first lines and of the heads of the oldest and newest records, and a
/// sample of all others.
#[test]
fn flipped_journal_bit_is_detected_or_was_unused() {
    let (good, promised) = busy();
    let mut bits: Vec<u64> = Vec::new();
    let mut records = 0;
    for at in JOURNALS {
        let heads = heads(&good, at);
        records += heads.len();
        let ends = heads.first().into_iter().chain(heads.last());
        for first in ends.copied().chain([at]) {
            bits.extend(first * 8..(first + 24) * 8);
        }
    }
    assert!(records > 2, "{records} records");
    let mut rng = Seed(7).stream("bits");
    bits.extend((0..1_000).map(|_| JOURNALS[0] * 8 + rng.below(2 * 8192 * 8)));
    let (mut refused, mut sound) = (0, 0);
    for bit in bits {
        let (mut left, mut byte) = (good.clone(), [0]);
        left.memory.read(bit / 8, &mut byte);
        left.memory.write(bit / 8, &[byte[0] ^ 1 << (bit % 8)]);
        match is_refused(left, &promised, &format!("bit {bit}")) {
            true => refused += 1,
            false => sound += 1,
        }
    }
    assert!(refused > 300 && sound > 100, "{refused} {sound}");
}

/// Loses a whole page of records, as a failing part would: the newest ones too.
#[test]
fn lost_journal_lines_are_detected_or_were_unused() {
    let (good, promised) = busy();
    let mut refused = 0;
    for at in JOURNALS {
        for lines in [2, 16, 64] {
            for first in (0..128 - lines + 1).step_by(lines / 2) {
                let mut left = good.clone();
                let from = at + 64 * first as u64;
                left.memory.write(from, &vec![0; 64 * lines]);
                let what = format!("{lines} lines from {from}");
                refused += u32::from(is_refused(left, &promised, &what));
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn random_memory_bytes_are_refused_or_mount_soundly() {
    let (good, _) = busy();
    bolero::check!()
        .with_type::<Vec<(u8, u16, u8)>>()
        .with_iterations(200)
        .for_each(|edits| {
            let mut left = good.clone();
            for &(region, at, byte) in edits {
                let at = match region % 4 {
                    0 => u64::from(at) % 512,
                    1 => TABLE + u64::from(at) % 3_000,
                    journal => JOURNALS[usize::from(journal) - 2] + u64::from(at) % 8_192,
                };
                left.memory.write(at, &[byte]);
            }
            survive(left);
        });
}

#[test]
fn forged_records_are_refused_or_redone() {
    let (good, _) = busy();
    bolero::check!()
        .with_type::<Vec<Record>>()
        .with_iterations(200)
        .for_each(|records| {
            let mut left = good.clone();
            let mut next = JOURNALS.map(|at| Some(ends(&left, at)[0]));
            for record in records {
                let (journal, body) = record.body();
                let at = JOURNALS[journal];
                let fits = (body.len() as u64).div_ceil(64) < SLOTS;
                let Some(position) = next[journal].filter(|_| fits) else {
                    continue;
                };
                let state = record.state % 5;
                let end = put(&mut left, (at, position), state, &body);
                // A record without a state ends the journal.
                next[journal] = (state > 0).then_some(end);
                commit(&mut left, at, if state > 0 { end } else { position });
            }
            survive(left);
        });
}

/// Memory of any size, as the file of a drive may have, even ending within a line.
#[test]
fn any_memory_size_is_refused_or_mounts_soundly() {
    let (good, _) = busy();
    let mut sound = 0;
    for size in (24_500..24_700).chain(12_280..12_300).chain(0..70) {
        let mut left = good.clone();
        left.memory = PmMedia::new(Bytes(size));
        for at in 0..size {
            let mut byte = [0];
            good.memory.read(at, &mut byte);
            left.memory.write(at, &byte);
        }
        if size >= SUPERBLOCK as u64 {
            // The superblock is made for this size, and the last region ends with the memory.
            let last = 24 + 2 * 24;
            let mut word = [0; 8];
            left.memory.read(last + 8, &mut word);
            let bytes = size.saturating_sub(u64::from_le_bytes(word));
            left.memory.write(8, &size.to_le_bytes());
            left.memory.write(last + 16, &bytes.to_le_bytes());
            seal(&mut left);
        }
        sound += u32::from(survive(left));
    }
    assert!(sound > 0, "some of it is large enough");
}

/// Makes the checksum of the superblock valid.
fn seal(left: &mut Left) {
    let mut head = [0; SUPERBLOCK];
    left.memory.read(0, &mut head);
    head[20..24].fill(0);
    let sum = crc32c::crc32c(&head[8..]);
    left.memory.write(20, &sum.to_le_bytes());
}

/// Regions that overlap, reach past the end, or are too small for their contents.
#[test]
fn forged_regions_are_refused_or_mount_soundly() {
    let (good, _) = busy();
    bolero::check!()
        .with_type::<Vec<(u8, u8, bool, u16)>>()
        .with_iterations(200)
        .for_each(|edits| {
            let mut left = good.clone();
            for &(region, field, pages, number) in edits {
                let at = 24 + 24 * u64::from(region % 3) + 8 * u64::from(field % 3);
                let each = if pages { 4096 } else { 1 };
                // Up to about twice the size of the memory.
                let number = u64::from(number) % (2 * 65_536 / each) * each;
                left.memory.write(at, &number.to_le_bytes());
            }
            seal(&mut left);
            survive(left);
        });
}

/// A short record that would read and write the same sectors hundreds of times.
#[test]
fn record_of_many_empty_changes_is_refused() {
    let (mut left, _) = busy();
    let mut body = 200_u32.to_le_bytes().to_vec();
    for _ in 0..200 {
        for word in [320, 16, u32::MAX, 0, 0, 0] {
            body.extend(word.to_le_bytes());
        }
    }
    let [tail, _] = ends(&left, JOURNALS[1]);
    let end = put(&mut left, (JOURNALS[1], tail), 3, &body);
    commit(&mut left, JOURNALS[1], end);
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &tiny(), left);
    let mounted = kernel.block_on(async move { rig.mount_left().await.map(drop) });
    assert_eq!(mounted, Err(HyfimError::Damaged("of nodes")));
}

/// Records with blocks that do not exist, or that two sectors would own: nothing of such a record
/// is redone, and the table stays as it was.
#[test]
fn inconsistent_record_of_blocks_changes_nothing() {
    let (good, _) = busy();
    let number = |at: u64| {
        let mut word = [0; 4];
        good.memory.read(at, &mut word);
        u32::from_le_bytes(word)
    };
    let entry = |sector: u32| !number(TABLE + 64 + 4 * u64::from(sector));
    let written = (0..300).filter(|&sector| entry(sector) != 0);
    let [one, two, other] = written.collect::<Vec<u32>>()[..3] else {
        panic!("more was written")
    };
    let wrong = [
        [(one, entry(one)), (two, 1_700)],
        [(one, u32::MAX), (two, entry(two))],
        [(one, entry(two)), (two, entry(two))],
        [(one, entry(two)), (two, entry(other))],
    ];
    let right = [(one, entry(two)), (two, entry(one))];
    for (all, makes_sense) in wrong.into_iter().map(|w| (w, false)).chain([(right, true)]) {
        does_or_refuses(&good, &all, makes_sense);
    }
}

/// Slot numbers start behind the 1,664 blocks of the drive; the buffer has 24 slots.
#[test]
fn inconsistent_record_of_slots_changes_nothing() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::buffered(&config));
    let on = rig.clone();
    kernel.block_on(async move {
        let (system, _) = on.mount().await.expect("a new drive");
        // Three sectors are less than a unit, so they stay in slots 0 to 2, in this order.
        let all = [0, 1, 2].map(|sector| (sector, Payload::Fill(9)));
        let written = system.ftl().write_sectors(&all, Who::default()).await;
        written.expect("there is room");
    });
    let good = rig.cut(&mut Seed(1).stream("none"));
    let slot = |slot: u32| 1_664 + slot + 1;
    for wrong in [
        vec![(0, slot(3))],
        vec![(0, slot(1))],
        vec![(0, slot(24))],
        vec![(0, slot(0)), (1, slot(0))],
    ] {
        does_or_refuses(&good, &wrong, false);
    }
    does_or_refuses(&good, &[(0, slot(0)), (1, slot(1))], true);
    let other = Left {
        lasting: false,
        ..good
    };
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, other);
    let mounted = kernel.block_on(async move { rig.mount_left().await.map(drop) });
    assert!(
        matches!(mounted, Err(HyfimError::Mapping(_))),
        "{mounted:?}"
    );
}

/// Mounts `good` with a checkpointing record that puts sectors at places (plus one); asserts that a
/// refused mount changes nothing.
fn does_or_refuses(good: &Left, all: &[(u32, u32)], makes_sense: bool) {
    let mut body = 0_u64.to_le_bytes().to_vec();
    body.extend((all.len() as u32).to_le_bytes());
    for (spare, &(sector, new)) in (SECTORS..).zip(all) {
        for word in [sector, 0, spare, new] {
            body.extend(word.to_le_bytes());
        }
    }
    let mut left = good.clone();
    let [tail, _] = ends(&left, JOURNALS[0]);
    let end = put(&mut left, (JOURNALS[0], tail), 3, &body);
    commit(&mut left, JOURNALS[0], end);
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left.clone());
    let on = rig.clone();
    let mounted = kernel.block_on(async move { on.mount().await.map(drop) });
    assert_eq!(mounted.is_ok(), makes_sense, "{all:?}: {mounted:?}");
    if !makes_sense {
        assert_eq!(mounted, Err(HyfimError::Damaged("of sectors")));
        assert!(rig.cut(&mut Seed(1).stream("none")).memory == left.memory);
    }
}
