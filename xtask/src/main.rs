//! The command `cargo xtask`: checks and reports for contributors.

use std::path::Path;
use std::process::ExitCode;
use xtask::rules::{prose, ratchet};
use xtask::tree::cargo;
use xtask::{Tree, bench, check, deny, program, python, release, sources, tools, workspace_root};

const HELP: &str = "\
cargo xtask COMMAND

    check           everything that must hold: tools, format, clippy, docs, house rules,
                    crates of others, tests, Python
    check --quick   format, clippy and house rules
    rules           the house rules alone
    sources         where each section of each source is built and tested
    tools           programs and components that the check runs: installs or names them
    tests           builds all tests and runs them, a program of them a core at a time
    nightly         the tests with every round of the random ones, of which `check` runs the first
    deny            licences and sources of the crates of others, by cargo-deny
    bench [OPTION…] benchmarks: --save NAME, --against NAME, -p CRATE, or a part of their names
    release [-p CRATE]  what a release has to be: its crates, its bytes when built twice
    soak [OPTION…]  power cuts of random stacks until it is interrupted; `soak --help` has more
    python          builds the Python package as a wheel, installs it and runs its tests
    ratchet         lowers the maxima in xtask/ratchet.toml to what is measured
";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let root = workspace_root();
    let outcome = match arguments.as_slice() {
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            Ok(())
        }
        ["check"] => check::run(&root, false),
        ["check", "--quick"] => check::run(&root, true),
        ["rules"] => check::rules(&root),
        ["sources"] => print_sources(&root),
        ["tools"] => tools::provide(),
        ["tests"] => check::test(&root),
        ["nightly"] => check::nightly(&root),
        ["deny"] => deny::check(&root),
        ["bench", options @ ..] => bench::run(&root, options),
        ["release"] => release::run_for(&root, "flashloom"),
        ["release", "-p", package] => release::run_for(&root, package),
        ["soak", options @ ..] => soak(&root, options),
        ["python"] => python::build_and_test(&root),
        ["ratchet"] => tighten(&root),
        other => return usage(&other.join(" ")),
    };
    outcome.map_or_else(|why| fail(&why), |()| ExitCode::SUCCESS)
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn usage(given: &str) -> ExitCode {
    eprintln!("`{given}` is no command of xtask\n\n{HELP}");
    ExitCode::from(2)
}

fn print_sources(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    print!("{}", sources::report(&tree));
    Ok(())
}

/// Builds the soak test in release mode and runs it.
fn soak(root: &Path, options: &[&str]) -> Result<(), String> {
    let words = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "flashloom",
        "--",
        "soak",
    ];
    program::run(cargo().current_dir(root).args(words).args(options))
}

fn tighten(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    let file = tree.source(ratchet::FILE);
    let file = file.ok_or_else(|| format!("{} is missing", ratchet::FILE))?;
    let before = ratchet::parse(&file.text)?;
    let measured = ratchet::measure(&tree.sources);
    let after = before.lowered(measured);
    println!("measured {measured:?}");
    println!("was      {:?}", before.max);
    println!("now      {:?}", after.max);
    let counted = prose::measure(&tree.sources);
    println!("prose    {counted:?}");
    let text = prose::lowered(&ratchet::rewrite(&file.text, after), counted)?;
    std::fs::write(root.join(ratchet::FILE), text).map_err(|error| error.to_string())
}
