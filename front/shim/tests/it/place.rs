//! Programs with placed files, compared with runs without the library.

use super::Place;
use judges::installed;
use shim::daemon::STANDS;
use shim::run::{Keeper, Placer};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = include_str!("place.c");
const MIB: u64 = 1 << 20;

/// A folder of `count` emulated zones of 8 MiB.
pub(super) fn zones(place: &Place, count: u32) -> PathBuf {
    let folder = place.path("zones");
    std::fs::create_dir_all(folder.join("seq")).unwrap();
    let says = format!("capacity={}\nopen=8\nactive=10\n", 8 * MIB);
    std::fs::write(folder.join("emulated"), says).unwrap();
    for zone in 0..count {
        std::fs::write(folder.join(format!("seq/{zone}")), "").unwrap();
    }
    folder
}

/// Number of bytes in the zones for data; the first two zones hold the log.
pub(super) fn written(zones: &Path) -> u64 {
    let size = |zone: u32| std::fs::metadata(zones.join(format!("seq/{zone}")));
    (2..)
        .map_while(|zone| size(zone).ok())
        .map(|it| it.len())
        .sum()
}

/// A set of one rule, for files with this ending.
pub(super) fn rule(ending: &str) -> String {
    format!(
        "name = \"t\"\n[[stream]]\nname = \"s\"\nlife = \"short\"\n\
         [[rule]]\npath = \"*.{ending}\"\nstream = \"s\"\n"
    )
}

pub(super) fn rules(place: &Place, text: &str) -> PathBuf {
    let path = place.path("rules");
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs a command in a folder of its own.
pub(super) fn run(mut command: Command, folder: &Path) -> Output {
    std::fs::create_dir_all(folder).unwrap();
    command.current_dir(folder).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Guard of a daemon of zones: it serves while this lives, and has ended once this is dropped.
pub(super) struct Served {
    keeper: Option<Keeper>,
    zones: PathBuf,
}

pub(super) fn daemon(zones: &Path) -> Command {
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_placed"));
    daemon.arg("serve").arg(zones);
    daemon
}

pub(super) fn serve(zones: &Path) -> Served {
    let of = zones.to_owned();
    let keeper = Keeper::new(zones, move || daemon(&of));
    Served {
        keeper: Some(keeper.unwrap()),
        zones: zones.to_owned(),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.keeper.take());
        // The daemon holds the lock until all data are in the zones.
        std::fs::File::open(&self.zones).unwrap().lock().unwrap();
    }
}

/// Runs a program without and with the library, checks that both print the same, and returns the
/// second output.
pub(super) fn compare(place: &Place, program: &Path, rules: &Path, zones: Option<&Path>) -> Output {
    let placer = Placer::new().unwrap();
    let plain = run(Command::new(program), &place.path("plain"));
    assert!(plain.status.success());
    let with = placer
        .command((program.as_os_str(), &[]), rules, zones)
        .unwrap();
    let served = zones.map(serve);
    let with = run(with, &place.path("with"));
    drop(served);
    for (number, (with, plain)) in text(&with.stdout)
        .lines()
        .zip(text(&plain.stdout).lines())
        .enumerate()
    {
        assert_eq!(with, plain, "line {}", number + 1);
    }
    assert!(
        with.status.success(),
        "{}: {}",
        with.status,
        text(&with.stderr)
    );
    assert_eq!(with.stdout.len(), plain.stdout.len());
    with
}

#[test]
fn calls_on_unplaced_files_behave_as_without_the_library() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let (rules, zones) = (rules(&place, &rule("sst")), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
    assert_eq!(written(&zones), 0);
}

#[test]
fn calls_on_placed_files_behave_as_without_the_library() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
    assert!(written(&zones) > 200_000, "{}", written(&zones));
}

#[test]
fn interfaces_that_bypass_the_library_are_refused_with_a_message() {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <aio.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static void said(long answer) {
            printf("%ld %d\n", answer, errno);
            errno = 0;
        }
        int main(void) {
            char p[120] = {0};
            said(syscall(SYS_io_uring_setup, 4, p));
            int fd = open("a.log", O_RDWR | O_CREAT, 0600);
            struct aiocb one = {.aio_fildes = fd, .aio_buf = p, .aio_nbytes = 5};
            one.aio_lio_opcode = LIO_WRITE;
            struct aiocb *list[2] = {NULL, &one};
            said(lio_listio(LIO_WAIT, list, 2, NULL));
            said(aio_fsync(O_SYNC, &one));
            return 0;
        }"#;
    let program = place.build(source, "ring");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let said = script(&place, program.to_str().unwrap(), &rules, &zones);
    let refused = format!("-1 {}\n", libc::ENOSYS);
    assert_eq!(text(&said.stdout), refused.repeat(3));
    let error = text(&said.stderr);
    assert!(error.contains("io_uring is not seen"), "{error}");
}

/// Prints the number of allocations before `main`, including those of libraries.
const ALLOCATES: &str = r#"
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
static long count;
void *malloc(size_t size) { count++; return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { count++; return __libc_calloc(n, size); }
int main(void) {
    long before = count;
    char line[30];
    int len = snprintf(line, sizeof line, "%ld\n", before);
    return write(1, line, len) != len;
}
"#;

#[test]
fn library_allocates_nothing_before_main() {
    let place = Place::new();
    let program = place.build(ALLOCATES, "allocates");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    compare(&place, &program, &rules, Some(&zones));
}

#[test]
fn lifetime_hints_do_not_change_results_of_calls() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let rules = rules(&place, &rule("log"));
    let with = compare(&place, &program, &rules, None);
    assert_eq!(text(&with.stderr), "");
}

/// Runs a shell script with files placed, and returns its output.
pub(super) fn script(place: &Place, script: &str, rules: &Path, zones: &Path) -> Output {
    let _served = serve(zones);
    let placer = Placer::new().unwrap();
    let words = [OsString::from("-c"), script.into()];
    let what = ("/bin/sh".as_ref(), &words[..]);
    run(
        placer.command(what, rules, Some(zones)).unwrap(),
        &place.path("work"),
    )
}

#[test]
fn tools_under_the_library_read_files_placed_by_others() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let make = "head -c 3000000 /dev/urandom > x; cat x > a.log; cmp x a.log && cp a.log b.log \
                && cmp x b.log && mv a.log c.log && cmp x c.log && wc -c < c.log && rm b.log && ls";
    let said = script(&place, make, &rules, &zones);
    assert_eq!(
        text(&said.stdout),
        "3000000\nc.log\nx\n",
        "{}",
        text(&said.stderr)
    );
    assert!(written(&zones) >= 3_000_000);
    assert_eq!(bare(&place.path("work/c.log")), 3_000_000);
}

/// Length of a placed file's stand-in; checks that it holds the sentence and zeros only.
#[track_caller]
pub(super) fn bare(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let (text, rest) = bytes.split_at(STANDS.len().min(bytes.len()));
    assert_eq!(text, &STANDS[..text.len()]);
    assert!(rest.iter().all(|byte| *byte == 0));
    bytes.len()
}

#[test]
fn copy_of_a_placed_file_made_without_the_library_is_refused_with_it_and_no_zeros_without() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let make = "mkdir d; head -c 9000 /dev/urandom > d/a.log; echo ab > d/b.log; \
                LD_PRELOAD= cp -a d e; for f in e/*; do cat $f; echo $?; done";
    let said = script(&place, make, &rules, &zones);
    assert_eq!(text(&said.stdout), "1\n1\n");
    let error = text(&said.stderr);
    assert!(
        error.contains("a copy of a placed file, made without its bytes"),
        "{error}"
    );
    for (name, len) in [("a", 9000), ("b", 3)] {
        for folder in ["d", "e"] {
            assert_eq!(bare(&place.path(&format!("work/{folder}/{name}.log"))), len);
        }
    }
}

#[test]
fn file_that_is_cut_written_and_never_closed_shows_its_length() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
            if (write(fd, calloc(1, 12345), 12345) != 12345) return 1;
            if (argc > 2) kill(getpid(), SIGKILL);
            _exit(0);
        }"#;
    let program = place.build(source, "leaves").display().to_string();
    let make =
        format!("echo before > a.log; cp a.log b.log; {program} a.log; {program} b.log kill");
    script(&place, &make, &rules, &zones);
    for name in ["a", "b"] {
        assert_eq!(bare(&place.path(&format!("work/{name}.log"))), 12_345);
    }
}

#[test]
fn fallocate_leaves_a_file_in_its_zones() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let source = r#"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/stat.h>
        #include <unistd.h>
        int main(void) {
            struct stat of;
            int fd = open("a.log", O_CREAT | O_RDWR, 0644);
            printf("%d ", fallocate(fd, 0, 0, 1 << 20));
            printf("%d ", posix_fallocate(fd, 4096, 1 << 20));
            printf("%d ", posix_fallocate(fd, 1, 0x7fffffffffffffff) == EFBIG);
            printf("%zd ", write(fd, "appended", 8));
            printf("%d ", fstat(fd, &of));
            printf("%d\n", (int)of.st_size);
            return 0;
        }"#;
    let program = place.build(source, "asks").display().to_string();
    let said = script(&place, &format!("{program}; cat a.log"), &rules, &zones);
    assert_eq!(text(&said.stdout), "0 0 1 8 0 8\nappended");
    assert_eq!(bare(&place.path("work/a.log")), 8, "it is placed");
}

#[test]
fn streams_and_shells_write_to_zones() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let words = "(echo first; ls -d /; echo third) > c.log; cat c.log; exec 3> d.log; \
                 echo one >&3; (exec echo two) >&3; echo three >&3; cat d.log; \
                 echo one > a.log; echo two >> a.log; (echo three; ls -d /) >> a.log; \
                 cat a.log; sort -r < a.log > b.log; wc -l < b.log; sed -i s/t/T/ b.log; cat b.log";
    let said = script(&place, words, &rules, &zones);
    let expected = "first\n/\nthird\none\ntwo\nthree\none\ntwo\nthree\n/\n4\nTwo\nThree\none\n/\n";
    assert_eq!(text(&said.stdout), expected, "{}", text(&said.stderr));
    assert_eq!(bare(&place.path("work/a.log")), 16);
}

#[test]
fn synced_writes_survive_a_kill() {
    let place = Place::new();
    let program = place.build(include_str!("forced.c"), "forced");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let placer = Placer::new().unwrap();
    let work = place.path("work");
    std::fs::create_dir(&work).unwrap();
    let mut least = 0;
    for round in 1..=4 {
        let served = serve(&zones);
        let what = (program.as_os_str(), &[][..]);
        let mut command = placer.command(what, &rules, Some(&zones)).unwrap();
        let mut child = command
            .current_dir(&work)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        // The program is killed while it works on, after its 10th (20th, ...) line.
        for _ in 0..10 * round {
            said.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        least += 10 * round + said.count();
        drop(served);
        let read = script(&place, "cat wal.log", &rules, &zones).stdout;
        let records: Vec<_> = read.chunks(600).collect();
        assert!(records.len() >= least, "{} of {least}", records.len());
        assert!(
            records
                .iter()
                .all(|it| it.len() == 600 && it[8..].iter().all(|b| *b == it[8]))
        );
        least = records.len();
    }
}

/// Writes with the open flags of its argument, prints a line, and waits.
const DURABLE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char bytes[5000];
    memset(bytes, argv[1][0], sizeof bytes);
    int flags = argv[1][0] == 's' ? O_SYNC : argv[1][0] == 'd' ? O_DSYNC : 0;
    int fd = open("a.log", O_CREAT | O_WRONLY | O_TRUNC | flags, 0644);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes) return 1;
    puts("written");
    fflush(stdout);
    return getchar() != EOF;
}
"#;

#[test]
fn synchronous_writes_are_in_zones_when_they_return() {
    let place = Place::new();
    let program = place.build(DURABLE, "durable");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let _served = serve(&zones);
    let placer = Placer::new().unwrap();
    for (how, durable) in [("none", false), ("dsync", true), ("sync", true)] {
        let words = [OsString::from(how)];
        let what = (program.as_os_str(), &words[..]);
        let mut command = placer.command(what, &rules, Some(&zones)).unwrap();
        command.current_dir(place.folder.path());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "written");
        let run = how.as_bytes()[..1].repeat(5000);
        let holds = |zone: u32| {
            let bytes = std::fs::read(zones.join(format!("seq/{zone}"))).unwrap();
            bytes.chunks(4096).any(|block| block == &run[..4096])
        };
        assert_eq!((2..16).any(holds), durable, "{how}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn zones_locked_by_another_process_are_refused() {
    let place = Place::new();
    let zones = zones(&place, 8);
    let held = std::fs::File::open(&zones).unwrap();
    held.lock().unwrap();
    let of = zones.clone();
    let why = Keeper::new(&zones, move || daemon(&of)).err().unwrap();
    assert_eq!(why, "another process has it");
}

#[test]
fn program_without_a_daemon_reports_it_and_goes_on() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let said = script(&place, "echo kept > a.log", &rules, &zones);
    assert!(said.status.success());
    let placer = Placer::new().unwrap();
    let words = [
        "-c",
        "echo plain > b.log; read x < b.log; echo $x; read x < a.log",
    ];
    let words = words.map(OsString::from);
    let what = ("/bin/sh".as_ref(), &words[..]);
    let said = run(
        placer.command(what, &rules, Some(&zones)).unwrap(),
        &place.path("work"),
    );
    assert_eq!(text(&said.stdout), "plain\n");
    let error = text(&said.stderr);
    assert!(error.contains("no daemon has them"), "{error}");
    assert!(
        error.contains("a.log"),
        "a placed file is not read as zeros: {error}"
    );
}

#[test]
fn full_zones_are_reported_with_their_holders() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let fill = "dd if=/dev/zero of=a.log bs=1M count=100 2>&1; rm a.log; \
                dd if=/dev/zero of=b.log bs=1M count=30 2>/dev/null; wc -c < b.log";
    let said = script(&place, fill, &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(
        out.contains("No space left") && out.ends_with("31457280\n"),
        "{out}{error}"
    );
    assert!(
        out.contains("blocks of zones") && out.contains("held by"),
        "{out}"
    );
}

#[test]
fn file_removed_without_the_library_is_dropped_and_a_moved_one_is_kept() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let work = place.path("work");
    let fill = "echo kept > d/b.log; dd if=/dev/zero of=a.log bs=1M count=30 2>&1 && sync; \
                cat d/b.log e/b.log 2>/dev/null; wc -c < a.log";
    // SAFETY: the call takes no memory.
    let root = unsafe { libc::geteuid() } == 0;
    std::fs::create_dir_all(work.join("d")).unwrap();
    for round in 0..3 {
        let said = script(&place, fill, &rules, &zones);
        let out = text(&said.stdout);
        if round == 0 || root {
            assert!(out.ends_with("31457280\n"), "{round}: {out}");
        }
        let kept = if round == 0 { "kept\n" } else { "kept\nkept\n" };
        assert!(out.contains(kept), "{round}: {out}");
        std::fs::remove_file(work.join("a.log")).unwrap();
        let _ = std::fs::remove_dir_all(work.join("e"));
        std::fs::rename(work.join("d"), work.join("e")).unwrap();
        std::fs::create_dir(work.join("d")).unwrap();
    }
    // A file is also dropped while the daemon runs, once another file is created at its path.
    let twice = "dd if=/dev/zero of=c.log bs=1M count=30 2>&1 && env -u LD_PRELOAD rm c.log; \
                 dd if=/dev/zero of=c.log bs=1M count=29 2>&1; wc -c < c.log";
    let out = text(&script(&place, twice, &rules, &zones).stdout);
    assert!(!root || out.ends_with("30408704\n"), "{out}");
}

/// The daemon's reason for refusing the zones.
fn refusal(zones: &Path) -> String {
    let of = zones.to_owned();
    let why = Keeper::new(zones, move || daemon(&of));
    why.err().expect("the zones are no good")
}

#[test]
fn invalid_zones_are_refused_with_the_reason() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    script(&place, "echo kept > b.log; sync", &rules, &zones);
    let emulated = zones.join("emulated");
    let says = std::fs::read_to_string(&emulated).unwrap();
    for (limits, expected) in [
        (
            "open=1\nactive=2",
            "open zones: 1 and active zones: 2 are too few",
        ),
        ("open=0\nactive=2", "active zones: 2 are too few"),
    ] {
        let few = format!("capacity={}\n{limits}\n", 8 * MIB);
        std::fs::write(&emulated, few).unwrap();
        let why = refusal(&zones);
        assert!(why.contains(expected), "{why}");
    }
    std::fs::write(&emulated, says).unwrap();
    for zone in ["seq/0", "seq/1"] {
        let path = zones.join(zone);
        let mut bytes = std::fs::read(&path).unwrap();
        let heads = bytes.iter_mut().skip(100).step_by(4096).take(1);
        heads.for_each(|byte| *byte ^= 1);
        std::fs::write(path, bytes).unwrap();
    }
    let why = refusal(&zones);
    assert!(why.contains("the log in zone 0 is damaged"), "{why}");
    for zone in 3..8 {
        std::fs::remove_file(zones.join(format!("seq/{zone}"))).unwrap();
    }
    let why = refusal(&zones);
    assert!(why.contains("3 zones are too few"), "{why}");
    std::fs::remove_dir_all(zones.join("seq")).unwrap();
    let why = refusal(&zones);
    assert!(why.contains("it has no zones"), "{why}");
}

const BENCH: &str = "--num=60000 --value_size=400 --write_buffer_size=2097152 --threads=2 \
                     --compression_type=none --target_file_size_base=2097152";

#[test]
fn database_reads_back_its_placed_files() {
    let Some(program) = installed("db_bench") else {
        return;
    };
    let place = Place::new();
    let (rules, zones) = (Path::new("rocksdb"), zones(&place, 64));
    let program = program.display();
    let fill =
        format!("{program} --benchmarks=fillrandom,overwrite,readrandom --db=db {BENCH} 2>&1");
    let said = script(&place, &fill, rules, &zones);
    assert!(
        said.status.success(),
        "{}{}",
        text(&said.stdout),
        text(&said.stderr)
    );
    assert!(written(&zones) > 8 * MIB);
    let again = format!(
        "{program} --use_existing_db=1 --benchmarks=readseq,verifychecksum,readwhilewriting --db=db {BENCH} 2>&1"
    );
    let said = script(&place, &again, rules, &zones);
    assert!(
        said.status.success(),
        "{}{}",
        text(&said.stdout),
        text(&said.stderr)
    );
    let out = text(&said.stdout);
    assert!(!out.contains("orrupt") && !out.contains("rror"), "{out}");
}
