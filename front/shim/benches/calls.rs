//! Cost of a call hooked by the placing library, compared with the C library's own function, which
//! is called by its address: on a file that no rule names, and on a placed one. One process makes
//! both calls in turn, so that other load on the machine slows both.

use libc::{c_int, c_void, off_t, size_t, ssize_t};
use shim::run::{Keeper, Placer};
use std::ffi::{CStr, CString, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls per measurement, and measurements per row; the minimum counts.
const CALLS: u32 = 1000;
const ROUNDS: u32 = 60;
/// Pause between measurements, in which earlier writes reach their destination.
const PAUSE: Duration = Duration::from_millis(5);
/// Environment variable that makes the process measure, in the folder that it names.
const WHERE: &str = "CALLS_IN";

const RULES: &str = "name = \"calls\"\n[[stream]]\nname = \"logs\"\nlife = \"short\"\n\
                     [[rule]]\npath = \"*.log\"\nstream = \"logs\"\n";

type Write = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
type Pread = unsafe extern "C" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t;

/// Address of the C library's own function of this name.
fn own(name: &CStr) -> *mut c_void {
    // SAFETY: both names end with a zero byte, and the library stays loaded.
    let found = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!found.is_null(), "the C library has it");
    found
}

fn own_write() -> Write {
    // SAFETY: this is the type of the C library's write.
    unsafe { std::mem::transmute::<*mut c_void, Write>(own(c"write")) }
}

fn own_pread() -> Pread {
    // SAFETY: this is the type of the C library's pread.
    unsafe { std::mem::transmute::<*mut c_void, Pread>(own(c"pread")) }
}

/// An open file that is emptied before each measurement.
struct File(c_int);

impl File {
    fn new(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o644) };
        assert!(fd >= 0, "it can be made");
        Self(fd)
    }

    fn empty(&self) {
        // SAFETY: these calls take no memory.
        let done = unsafe { libc::ftruncate(self.0, 0) | libc::lseek(self.0, 0, 0) as c_int };
        assert_eq!(done, 0, "it can be emptied");
    }

    fn write(&self, write: Write, bytes: &[u8]) {
        // SAFETY: the bytes are valid for reads.
        let wrote = unsafe { write(self.0, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(wrote, bytes.len() as ssize_t, "it has room");
    }

    fn read(&self, pread: Pread, bytes: &mut [u8]) {
        // SAFETY: the bytes are valid for writes.
        let read = unsafe { pread(self.0, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        assert_eq!(read, bytes.len() as ssize_t, "so many were written");
    }
}

/// Measures and prints one row: a call of the C library's own function, and the hooked one.
fn row(name: &str, before: &dyn Fn(), calls: [&mut dyn FnMut(); 2]) {
    let mut least = [f64::MAX; 2];
    let [own, with] = calls;
    let mut both = [own, with];
    for _ in 0..ROUNDS {
        for (least, call) in least.iter_mut().zip(&mut both) {
            before();
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            let each = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
            *least = least.min(each);
            std::thread::sleep(PAUSE);
        }
    }
    let [own, with] = least;
    let (more, ratio) = (with - own, with / own);
    println!("{name:30} {own:8.0} {with:8.0} {more:8.0} {ratio:8.2}");
}

fn measure(folder: &Path) {
    let (write, pread) = (own_write(), own_pread());
    assert_ne!(
        write as *const () as usize,
        libc::write as *const () as usize,
        "the library is loaded"
    );
    let (other, placed) = (
        File::new(&folder.join("x.txt")),
        File::new(&folder.join("x.log")),
    );
    let empty = || {
        other.empty();
        placed.empty();
    };
    let writes = |what: &str, with: &File| {
        for len in [100, 4096] {
            let bytes = vec![7; len];
            row(
                &format!("{what}, write of {len}"),
                &empty,
                [&mut || other.write(write, &bytes), &mut || {
                    with.write(libc::write, &bytes);
                }],
            );
        }
    };
    writes("unnamed", &other);
    other.write(write, &[7; 4096]);
    let (mut one, mut two) = ([0; 100], [0; 100]);
    row(
        "unnamed, pread of 100",
        &|| {},
        [&mut || other.read(pread, &mut one), &mut || {
            other.read(libc::pread, &mut two);
        }],
    );
    writes("placed", &placed);
}

/// Makes a folder of 32 emulated zones of 64 MiB.
fn zones(folder: &Path) -> PathBuf {
    let zones = folder.join("zones");
    std::fs::create_dir_all(zones.join("seq")).expect("a folder");
    let says = format!("capacity={}\nopen=14\nactive=14\n", 64 << 20);
    std::fs::write(zones.join("emulated"), says).expect("written");
    for zone in 0..32 {
        std::fs::write(zones.join(format!("seq/{zone}")), "").expect("written");
    }
    zones
}

fn main() {
    if let Some(folder) = std::env::var_os(WHERE) {
        return measure(Path::new(&folder));
    }
    let folder = tempfile::tempdir_in(std::env::var_os("FOLDER").unwrap_or(".".into()));
    let folder = folder.expect("a directory");
    let path = folder.path().canonicalize().expect("it is there");
    let (zones, rules) = (zones(&path), path.join("rules"));
    std::fs::write(&rules, RULES).expect("written");
    let of = zones.clone();
    let keeper = Keeper::new(&zones, move || {
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_placed"));
        daemon.arg("serve").arg(&of);
        daemon
    });
    let keeper = keeper.expect("a daemon of the zones");
    let placer = Placer::new().expect("a library");
    let program = OsString::from(std::env::current_exe().expect("a path"));
    let command = placer.command((&program, &[]), &rules, Some(&zones));
    println!("call                                own ns  with ns     more    ratio");
    let status = command.expect("zones").env(WHERE, &path).status();
    assert!(status.expect("it runs").success(), "calls are made");
    drop(keeper);
    // The daemon holds the lock until all data are in the zones.
    std::fs::File::open(&zones)
        .and_then(|zones| zones.lock())
        .expect("it has ended");
}
