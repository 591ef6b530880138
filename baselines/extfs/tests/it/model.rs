//! Random operations, compared with a small model: a map of names to contents.

use crate::driver::{Driver, NOW, new_image, on_image, pattern};
use extfs::{MkfsOptions, Persist};
use std::collections::BTreeMap;
use vfs::{Access, Body, Errno, FallocateMode};

pub(crate) type Model = BTreeMap<String, Vec<u8>>;

/// A random path out of 120, of a file or free.
fn name(rng: &mut sim::Rng) -> String {
    let n = rng.below(120);
    format!(
        "d{}/{}",
        n % 4,
        "n".repeat(1 + (n as usize * 7) % 200) + &n.to_string()
    )
}

fn resize(bytes: &mut Vec<u8>, size: usize) {
    bytes.resize(size, 0);
}

async fn change_file<P: Persist>(
    driver: &Driver<P>,
    path: &str,
    bytes: &mut Vec<u8>,
    rng: &mut sim::Rng,
) {
    let node = driver.walk(path).await.unwrap();
    let offset = rng.below(300_000);
    let len = 1 + rng.below(40_000);
    let range = offset..offset + len;
    match rng.below(5) {
        0 | 1 => {
            let new = pattern(offset, len as usize);
            driver.write(&node, offset, &new).await.unwrap();
            resize(bytes, bytes.len().max(range.end as usize));
            bytes[offset as usize..range.end as usize].copy_from_slice(&new);
        }
        2 => {
            driver.cut(&node, offset).await.unwrap();
            resize(bytes, offset as usize);
        }
        kind => {
            let mode = match kind {
                3 => FallocateMode::Punch,
                _ => FallocateMode::Zero { keep_size: false },
            };
            driver
                .fs
                .fallocate(&Access::root(), &node, mode, range.clone(), NOW)
                .await
                .unwrap();
            if kind == 4 {
                resize(bytes, bytes.len().max(range.end as usize));
            }
            let size = bytes.len();
            bytes[size.min(range.start as usize)..size.min(range.end as usize)].fill(0);
        }
    }
}

pub(crate) async fn step<P: Persist>(driver: &Driver<P>, model: &mut Model, rng: &mut sim::Rng) {
    let path = name(rng);
    let other = name(rng);
    match (rng.below(6), model.contains_key(&path)) {
        (0 | 1, false) => {
            let bytes = pattern(rng.next_u64(), rng.below(30_000) as usize);
            driver.put(&path, &bytes).await.unwrap();
            model.insert(path, bytes);
        }
        (0, true) => {
            driver.unlink(&path).await.unwrap();
            model.remove(&path);
        }
        (1, true) if path != other => {
            driver.rename(&path, &other, false).await.unwrap();
            let bytes = model.remove(&path).unwrap();
            model.insert(other, bytes);
        }
        (_, true) => {
            let bytes = model.get_mut(&path).unwrap();
            change_file(driver, &path, bytes, rng).await;
        }
        (_, false) => assert_eq!(driver.walk(&path).await.err(), Some(Errno::ENOENT)),
    }
}

pub(crate) async fn compare<P: Persist>(driver: &Driver<P>, model: &Model) {
    let mut found = 0;
    for dir in 0..4 {
        let node = driver.walk(&format!("d{dir}")).await.unwrap();
        found += driver.list(&node).await.unwrap().len();
    }
    assert_eq!(found, model.len());
    for (path, bytes) in model {
        let node = driver.walk(path).await.unwrap();
        assert!(driver.read(&node).await.unwrap() == *bytes, "{path}");
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    for seed in 0..12_u64 {
        println!("seed {seed}");
        let options = MkfsOptions {
            inode_size: if seed % 2 == 0 { 256 } else { 128 },
            ..MkfsOptions::new(64 * 256)
        };
        let image = on_image(&new_image(&options), async move |driver| {
            let mut rng = sim::Seed(seed).stream("operations");
            let mut model = Model::new();
            for dir in 0..4 {
                driver.mkdir(&format!("d{dir}")).await.unwrap();
            }
            for _ in 0..1500 {
                step(&driver, &mut model, &mut rng).await;
            }
            compare(&driver, &model).await;
            driver
        });
        assert_eq!(extfs::check(&image[..]), []);
    }
}
