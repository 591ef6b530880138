//! Builds this crate twice more, as the two libraries that are preloaded into programs, so that the
//! ordinary build can embed them.
//!
//! These builds set the configurations `flashloom_preload` and `flashloom_place`. Each has a target
//! folder of its own under `OUT_DIR` (cargo locks the one that is in use), uses the profile `preload`
//! and fetches nothing: its dependencies are dependencies of the ordinary build too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of the outer build (wrappers, flags, target folders) that would spoil an inner one.
const OUTER: &[&str] = &[
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "__CARGO_DEFAULT_LIB_METADATA",
];

/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: char = '\u{1f}';

fn main() {
    for path in [
        "build.rs",
        "Cargo.toml",
        "src/lib.rs",
        "src/wire.rs",
        "src/preload",
        "src/place",
        "src/share",
        "src/sys.rs",
        "src/sys",
        "../../systems/parakeet/src",
        "../../systems/shimmer/src",
        "../../Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    let inner = ["CARGO_CFG_FLASHLOOM_PRELOAD", "CARGO_CFG_FLASHLOOM_PLACE"];
    if inner.iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    for name in ["preload", "place"] {
        let library = match env::var("CARGO_CFG_TARGET_OS").as_deref() {
            Ok("linux") => Some(build(name)),
            _ => None,
        };
        let out = PathBuf::from(variable("OUT_DIR"));
        // The path is relative to `OUT_DIR`: an absolute one would enter the checksums of the debug
        // information, and a build in another folder would differ.
        let near = |path: PathBuf| {
            path.strip_prefix(&out)
                .map(Path::to_owned)
                .expect("below it")
        };
        let carried = library.map_or("&[]".to_owned(), |path| {
            format!("include_bytes!({:?})", near(path))
        });
        std::fs::write(out.join(format!("{name}.rs")), carried).expect("OUT_DIR can be written");
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Flags of the compiler: the library's configuration, and the outer build's path remappings.
fn flags(name: &str) -> String {
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let kept = outer
        .split(SEPARATOR)
        .filter(|flag| flag.starts_with("--remap-path-prefix="));
    let own = ["--cfg".to_owned(), format!("flashloom_{name}")];
    let flags: Vec<_> = own.into_iter().chain(kept.map(str::to_owned)).collect();
    flags.join(&SEPARATOR.to_string())
}

/// Builds the library `name` and returns the path of its file.
fn build(name: &str) -> PathBuf {
    let folder = Path::new(&variable("OUT_DIR")).join(name);
    let target = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["rustc", "--lib", "--locked", "--quiet"]);
    cargo.args(["--profile", "preload"]);
    cargo.args(["--crate-type", "cdylib", "--target", &target]);
    cargo.arg("--manifest-path");
    cargo.arg(Path::new(&variable("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&folder);
    for name in OUTER {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(name));
    let status = cargo.status().expect("cargo runs");
    assert!(
        status.success(),
        "the library to preload does not build: {status}"
    );
    folder.join(target).join("preload/libshim.so")
}
