//! Builds this crate twice more, as the libraries that are loaded into
//! programs, so that the ordinary build can carry them.
//!
//! These builds have the configurations `flashloom_preload` and `flashloom_place`, a
//! target folder each under `OUT_DIR` (cargo locks the one that is in use), the
//! release profile, and nothing to fetch: what they depend on is a dependency
//! of the ordinary build too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a wrapper of the compiler or a flag for the outer build would spoil.
const OUTER: &[&str] = &[
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "CARGO_PROFILE_RELEASE_PANIC",
    "__CARGO_DEFAULT_LIB_METADATA",
];

/// Between flags where cargo hands them over.
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
        // Named from where this stands: what a file says of its folder is in the sums of the
        // debugger, so that a build elsewhere would not be the same.
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

/// What the compiler is told: the configuration, and what the outer build calls its paths.
fn flags(name: &str) -> String {
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let kept = outer
        .split(SEPARATOR)
        .filter(|flag| flag.starts_with("--remap-path-prefix="));
    let own = ["--cfg".to_owned(), format!("flashloom_{name}")];
    let flags: Vec<_> = own.into_iter().chain(kept.map(str::to_owned)).collect();
    flags.join(&SEPARATOR.to_string())
}

/// Builds a library and says where it is.
fn build(name: &str) -> PathBuf {
    let folder = Path::new(&variable("OUT_DIR")).join(name);
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
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(name));
    let status = cargo.status().expect("cargo runs");
    assert!(
        status.success(),
        "the library to preload does not build: {status}"
    );
    folder.join(target).join("release/libshim.so")
}
