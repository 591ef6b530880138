//! Images filled by the kernel, changed here, and read by the kernel again.

use crate::driver::{Driver, NOW, attr, on_image, pattern};
use crate::tools::{self, Mounted};
use std::path::Path;
use std::process::Command;
use vfs::{Body, XattrFlags};

fn kernel_image(dir: &Path, features: &str) -> Option<Vec<u8>> {
    if !tools::has("mke2fs") {
        return None;
    }
    let path = dir.join("kernel");
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-N", "20000"]);
    command.args(["-O", features]).arg(&path).arg("200M");
    let output = tools::run(&mut command);
    assert!(output.status.success(), "{}", tools::text(&output));
    let mounted = Mounted::new(&path, &dir.join("mnt"))?;
    fill(&mounted.dir);
    drop(mounted);
    tools::assert_clean(&path);
    Some(std::fs::read(&path).unwrap())
}

fn fill(root: &Path) {
    std::fs::create_dir(root.join("many")).unwrap();
    for n in 0..6000_u64 {
        let bytes = pattern(n, (n % 50) as usize * 100);
        std::fs::write(root.join(format!("many/file-{n}")), bytes).unwrap();
    }
    std::fs::write(root.join("large"), pattern(1, 20_000_000)).unwrap();
    std::os::unix::fs::symlink("many/file-7", root.join("link")).unwrap();
    std::fs::hard_link(root.join("large"), root.join("again")).unwrap();
    let file = std::fs::File::create(root.join("sparse")).unwrap();
    for n in 0..3000_u64 {
        let at = n * 2 * 4096;
        std::os::unix::fs::FileExt::write_all_at(&file, &pattern(n, 100), at).unwrap();
    }
    let mut command = Command::new("setfattr");
    command
        .args(["-n", "user.key", "-v", "value"])
        .arg(root.join("large"));
    let _ = command.status();
}

async fn read_all(driver: &Driver) {
    let many = driver.walk("many").await.unwrap();
    assert_eq!(driver.list(&many).await.unwrap().len(), 6000);
    for n in (0..6000_u64).step_by(13) {
        let node = driver.walk(&format!("many/file-{n}")).await.unwrap();
        let expected = pattern(n, (n % 50) as usize * 100);
        assert!(driver.read(&node).await.unwrap() == expected, "{n}");
    }
    let large = driver.walk("large").await.unwrap();
    assert_eq!(attr(&large).nlink, 2);
    assert!(driver.read(&large).await.unwrap() == pattern(1, 20_000_000));
    let link = driver.walk("link").await.unwrap();
    assert_eq!(driver.fs.readlink(&link).await.unwrap(), b"many/file-7");
    let sparse = driver.walk("sparse").await.unwrap();
    let bytes = driver.read(&sparse).await.unwrap();
    assert_eq!(bytes[2 * 2998 * 4096..][..100], pattern(2998, 100));
}

async fn extend(driver: &Driver) {
    for n in 0..4000_u64 {
        driver.unlink(&format!("many/file-{n}")).await.unwrap();
    }
    for n in 0..3000_u64 {
        let name = format!("many/ours-{n}");
        driver
            .put(&name, &pattern(n, (n * 3) as usize))
            .await
            .unwrap();
    }
    let sparse = driver.walk("sparse").await.unwrap();
    for n in 0..2000_u64 {
        driver
            .write(&sparse, (n * 2 + 1) * 4096, &pattern(n, 4096))
            .await
            .unwrap();
    }
    let large = driver.walk("large").await.unwrap();
    driver.cut(&large, 5_000_000).await.unwrap();
    let value = pattern(5, 2000);
    driver
        .fs
        .set_xattr(&large, b"user.ours", &value, XattrFlags::Any, NOW)
        .await
        .unwrap();
    driver.mkdir("dir").await.unwrap();
    driver.rename("link", "dir/link", false).await.unwrap();
}

fn exchange_with_kernel(features: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Some(image) = kernel_image(dir.path(), features) else {
        return;
    };
    assert_eq!(extfs::check(&image[..]), []);
    let image = on_image(&image, async move |driver| {
        read_all(&driver).await;
        extend(&driver).await;
        driver
    });
    assert_eq!(extfs::check(&image[..]), []);
    let path = tools::save(dir.path(), "ours", &image);
    tools::assert_clean(&path);
    let mounted = Mounted::new(&path, &dir.path().join("mnt")).unwrap();
    let read = |name: &str| std::fs::read(mounted.dir.join(name)).unwrap();
    for n in (0..3000_u64).step_by(7) {
        assert!(
            read(&format!("many/ours-{n}")) == pattern(n, (n * 3) as usize),
            "{n}"
        );
    }
    assert!(read("large") == pattern(1, 20_000_000)[..5_000_000]);
    assert_eq!(read("sparse")[4096..8192], pattern(0, 4096));
    assert!(std::fs::symlink_metadata(mounted.dir.join("dir/link")).is_ok());
    std::fs::remove_dir_all(mounted.dir.join("many")).unwrap();
    drop(mounted);
    tools::assert_clean(&path);
}

#[test]
fn image_is_shared_with_the_kernel() {
    exchange_with_kernel("^orphan_file");
}

#[test]
fn image_without_checksums_is_shared_with_the_kernel() {
    exchange_with_kernel("^metadata_csum,^metadata_csum_seed,^orphan_file,uninit_bg");
}

#[test]
fn image_with_32_bit_block_numbers_is_shared_with_the_kernel() {
    exchange_with_kernel("^64bit,^flex_bg,metadata_csum");
}

#[test]
fn image_with_an_orphan_file_is_shared_with_the_kernel() {
    exchange_with_kernel("orphan_file,metadata_csum_seed");
}
