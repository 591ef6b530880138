//! Builds this crate a second time, as the library that is loaded into
//! programs, so that the ordinary build can carry it.
//!
//! The second build has the configuration `flashloom_preload`, a target folder
//! of its own under `OUT_DIR` (cargo locks the one that is in use), the
//! release profile, and nothing to fetch: its one dependency is a dependency
//! of the ordinary build too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a wrapper of the compiler or a flag for the outer build would spoil.
const OUTER: &[&str] = &[
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "CARGO_PROFILE_RELEASE_PANIC",
    "__CARGO_DEFAULT_LIB_METADATA",
];

fn main() {
    for path in [
        "build.rs",
        "Cargo.toml",
        "src/lib.rs",
        "src/wire.rs",
        "src/preload",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    if env::var_os("CARGO_CFG_FLASHLOOM_PRELOAD").is_some() {
        return;
    }
    let library = match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => Some(build()),
        _ => None,
    };
    let carried = library.map_or("&[]".to_owned(), |path| format!("include_bytes!({path:?})"));
    let out = PathBuf::from(variable("OUT_DIR")).join("library.rs");
    std::fs::write(out, carried).expect("OUT_DIR can be written");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Builds the library and says where it is.
fn build() -> PathBuf {
    let folder = Path::new(&variable("OUT_DIR")).join("preload");
    let target = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["rustc", "--lib", "--release", "--locked", "--quiet"]);
    cargo.args(["--crate-type", "cdylib", "--target", &target]);
    cargo.args(["--config", "profile.release.panic='abort'"]);
    cargo.args(["--config", "profile.release.strip=true"]);
    cargo.arg("--manifest-path");
    cargo.arg(Path::new(&variable("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&folder);
    for name in OUTER {
        cargo.env_remove(name);
    }
    cargo.env("RUSTFLAGS", "--cfg flashloom_preload");
    let status = cargo.status().expect("cargo runs");
    assert!(
        status.success(),
        "the library to preload does not build: {status}"
    );
    folder.join(target).join("release/libshim.so")
}
