//! The book is true: its commands do what it says, and its links have targets.
//!
//! Each page has its own directory, in which a shell runs its blocks in order. `BOOK=write` updates
//! pages that show other output; partly shown output must be updated by hand.

mod likeness;
mod page;
mod report;

use likeness::difference;
use page::{Block, Page, root, source};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest duration of one block.
const PATIENCE: Duration = Duration::from_secs(120);
/// Text in the paragraph before a block that is not run.
const CONFESSION: &str = "Not run by the test";
/// Largest number of lines in the README, which a newcomer reads in ten minutes.
const README: usize = 200;
/// Folders whose files the pages may name.
const FOLDERS: [&str; 10] = [
    "core",
    "baselines",
    "systems",
    "lab",
    "front",
    "flashloom",
    "python",
    "xtask",
    "docs",
    "scripts",
];

/// Output and success of one block.
struct Printed {
    success: bool,
    out: String,
    err: String,
}

/// A shell with its process group, all killed on drop.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status();
        let _ = self.0.wait();
    }
}

/// Runs `script` in `folder`; `flashloom` there is the program under test.
fn run(script: &str, folder: &Path) -> Printed {
    let program = Path::new(env!("CARGO_BIN_EXE_flashloom"));
    let bin = program.parent().expect("it is in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let streams = TempDir::new().expect("a temporary directory");
    let stream = |name: &str| {
        let file = fs::File::create(streams.path().join(name));
        Stdio::from(file.expect("it can be written"))
    };
    let child = Command::new("sh")
        .args(["-euc", script])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env_remove("FLASHLOOM_DB")
        .env("XDG_CACHE_HOME", folder.join(".cache"))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stream("out"))
        .stderr(stream("err"))
        .spawn();
    let mut shell = Shell(child.expect("a shell starts"));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = shell.0.try_wait().expect("it can be waited for") {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "it has not ended: {script}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |name: &str| {
        let text = fs::read(streams.path().join(name)).expect("it was written");
        String::from_utf8_lossy(&text).into_owned()
    };
    Printed {
        success: status.success(),
        out: read("out"),
        err: read("err"),
    }
}

/// Runs the blocks of one page; returns the differences from the output that it shows.
fn lies(page: &Page) -> Vec<String> {
    let folder = TempDir::new().expect("a temporary directory");
    let blocks = page.blocks();
    let mut lies = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let place = format!("{}:{}", page.name, block.line);
        if block.info != "sh" {
            continue;
        }
        let printed = run(&block.text, folder.path());
        if !printed.success {
            lies.push(format!("{place}: {}\n{}", block.text, printed.err));
            break;
        }
        let shown = blocks
            .get(i + 1)
            .filter(|next| next.info == "text" && next.before.is_empty());
        let Some(shown) = shown else { continue };
        if let Some(differs) = difference(&shown.text, &printed.out) {
            lies.push(format!("{place}: {differs}\nprinted was:\n{}", printed.out));
            write(page, shown, &printed.out);
        }
    }
    lies
}

/// Updates the output in the page, if that is requested and the page shows all of it.
fn write(page: &Page, shown: &Block, printed: &str) {
    let asked = std::env::var_os("BOOK").is_some_and(|word| word == "write");
    if !asked || shown.text.lines().any(|line| line == "…") {
        return;
    }
    let path = source().join(&page.name);
    let text = fs::read_to_string(&path).expect("it was read before");
    let block = |contents: &str| format!("```text\n{contents}```");
    let lines = printed.trim_end().lines().map(str::trim_end);
    let printed: String = lines.map(|line| format!("{line}\n")).collect();
    let text = text.replacen(&block(&shown.text), &block(&printed), 1);
    fs::write(&path, text).expect("it can be written");
}

#[test]
fn commands_print_what_the_book_shows() {
    let lies: Vec<_> = Page::all().iter().flat_map(lies).collect();
    assert!(lies.is_empty(), "{}", lies.join("\n"));
}

#[test]
fn a_page_says_which_of_its_commands_are_not_run() {
    let (mut run, mut told) = (0, 0);
    for page in Page::all() {
        for block in page.blocks() {
            let place = format!("{}:{}", page.name, block.line);
            match &*block.info {
                "sh" => run += 1,
                "sh not-run" => {
                    told += 1;
                    assert!(block.before.contains(CONFESSION), "{place}: it is not said");
                }
                info => assert!(
                    ["text", "toml", "rust", "c", "python"].contains(&info),
                    "{place}: {info}"
                ),
            }
        }
    }
    assert!(told * 3 < run, "{told} are not run, and only {run} are");
}

#[test]
fn every_page_is_in_the_contents_once() {
    let contents = Page::open("SUMMARY.md");
    let names: Vec<String> = contents.links().into_iter().map(|link| link.1).collect();
    let listed: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(listed.len(), names.len(), "a page is listed twice");
    let mut there = BTreeSet::new();
    collect(&source(), &mut there);
    there.remove("SUMMARY.md");
    assert_eq!(listed, there);
}

/// Names of the files below `folder`, relative to [`source`].
fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("it can be listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, names);
            continue;
        }
        let below = path.strip_prefix(source()).expect("it is below");
        names.insert(below.to_string_lossy().into_owned());
    }
}

#[test]
fn links_lead_somewhere() {
    for page in Page::all() {
        for (line, link) in page.links() {
            let place = format!("{}:{line}: {link}", page.name);
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let name = match file {
                "" => page.name.clone(),
                file => beside(&page.name, file),
            };
            assert!(source().join(&name).is_file(), "{place}");
            let headings = Page::open(&name).headings();
            assert!(
                heading.is_empty() || headings.iter().any(|h| h == heading),
                "{place}"
            );
        }
    }
}

#[test]
fn the_readme_is_short_and_leads_somewhere() {
    let from_the_book = |name: &str| format!("../../../{name}");
    let readme = Page::open(&from_the_book("README.md"));
    let lines = readme.text.lines().count();
    assert!(
        lines <= README,
        "{lines} lines: what is more belongs into the book"
    );
    for (line, link) in readme.links() {
        if link.starts_with("https://") {
            continue;
        }
        let place = format!("README.md:{line}: {link}");
        let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
        let file = if file.is_empty() { "README.md" } else { file };
        assert!(root().join(file).is_file(), "{place}");
        let headings = Page::open(&from_the_book(file)).headings();
        assert!(
            heading.is_empty() || headings.iter().any(|h| h == heading),
            "{place}"
        );
    }
}

/// The page that `link` on page `name` refers to.
fn beside(name: &str, link: &str) -> String {
    let mut path = PathBuf::from(name);
    path.pop();
    for part in link.split('/') {
        match part {
            ".." => assert!(path.pop(), "{name}: {link} leads out of the book"),
            "." => {}
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

#[test]
fn files_that_are_named_are_there() {
    for page in Page::all() {
        for (line, word) in page.words() {
            let first = word.split('/').next().unwrap_or_default();
            let plain = word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if !word.contains('/') || !FOLDERS.contains(&first) || !plain {
                continue;
            }
            assert!(root().join(word).exists(), "{}:{line}: {word}", page.name);
        }
    }
}
