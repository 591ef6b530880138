//! filebench's scripts: accepted ones, refused ones, and random text.

use super::model::run_source;
use bolero::TypeGenerator;
use sim::Seed;
use std::io::Write;
use units::Ns;
use workload::files::flow::{Flow, Mode, OpKind, script};
use workload::files::{Amount, FileWorkload};

/// Script with most features of the language.
const SCRIPT: &str = r#"
# A comment
set $dir=/tmp
set $n=40   # after a value
set $all=$n * 2
set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $direct=0
set mode quit firstdone
eventgen rate=100000

define randvar name=$io, type=uniform, min=1k, mean=4k

define fileset name=some,path=$dir,size=$size,entries=$all,
       dirwidth=5,prealloc=50,reuse
define file name=log, path=$dir, size=1m, prealloc

define process name=p,instances=2
{
  thread name=t,memsize=1m,instances=3
  {
    flowop createfile name=c,filesetname=some,fd=1
    flowop writewholefile name=w,fd=1,iosize=$io
    flowop closefile name=d,fd=1
    flowop write name=l,filename=log,random,dsync,directio=$direct,iosize=4k,iters=2
    flowop eventlimit name=limit
    flowop hog name=h,value=100
  }
}
echo "ready, set"
run 30
"#;

#[test]
fn script_is_parsed_into_a_program_that_runs() {
    let program = script::parse("s.f", SCRIPT).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((program.mode, program.rate), (Mode::FirstDone, 100_000));
    assert_eq!(program.until, Some(Ns::secs(30)));
    assert_eq!(
        (program.filesets[0].entries, program.filesets[0].prealloc),
        (80, 50)
    );
    assert_eq!(program.filesets[0].size, Amount::gamma(16_384));
    assert_eq!(
        (program.filesets[1].entries, program.filesets[1].prealloc),
        (1, 100)
    );
    let thread = &program.threads[0];
    assert_eq!(
        (thread.processes, thread.instances, thread.ops.len()),
        (2, 3, 6)
    );
    assert_eq!(
        (thread.ops[1].kind, thread.ops[1].fd),
        (OpKind::WriteWholeFile, 1)
    );
    let log = &thread.ops[3];
    assert!(log.random && log.dsync && !log.direct && log.fileset == Some(1));
    let flow = Flow::new(program, Seed(1)).unwrap();
    let run = run_source(Box::new(flow), 1, &mut |_, _| {});
    assert_eq!(run.model.files(), 81);
    // One event each 10 µs.
    let loops = run.count("pwrite") as u64 / 3;
    assert!(run.time.0 > loops * 3_000, "{:?}", run.time);
}

#[test]
fn a_script_is_a_workload_by_its_path() {
    let mut file = tempfile::Builder::new().suffix(".f").tempfile().unwrap();
    file.write_all(SCRIPT.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let workload = FileWorkload::parse(&format!("{path}:ops=50")).unwrap();
    let run = run_source(workload.open(Seed(1)).unwrap(), 1, &mut |_, _| {});
    assert_eq!(run.made.len(), 50);
    let blocks = workload::Workload::parse(path).unwrap_err().to_string();
    assert!(blocks.contains("is a file workload"), "{blocks}");
}

/// Error of parsing `SCRIPT` with `from` replaced by `to`.
fn says(from: &str, to: &str) -> String {
    let text = SCRIPT.replacen(from, to, 1);
    assert_ne!(text, SCRIPT);
    script::parse("s.f", &text).unwrap_err().to_string()
}

#[test]
fn errors_name_the_line_and_the_expectation() {
    for (from, to, line, expected, found) in [
        ("set $dir", "sett $dir", 3, "set, define", "\"sett\""),
        ("$n * 2", "$m * 2", 5, "a variable that was set", "$m"),
        (
            "cvar-gamma",
            "cvar-beta",
            6,
            "cvar-gamma, cvar-uniform",
            "cvar-beta",
        ),
        ("gamma:1.5", "gamma:1.3", 6, "multiple of 500", "gamma:1.3"),
        ("firstdone", "someday", 8, "quit timeout", "\"someday\""),
        ("prealloc=50", "prealloc=500", 14, "0 to 100", "500"),
        ("reuse", "relax", 14, "an attribute of a fileset", "relax"),
        ("dirwidth=5", "dirwidth=1", 14, "2 to", "1"),
        (
            "createfile",
            "crateflie",
            21,
            "kind of flowop",
            "did you mean createfile",
        ),
        (
            "filesetname=some",
            "filesetname=soem",
            21,
            "defined fileset",
            "did you mean some",
        ),
        ("fd=1\n", "fd=500\n", 21, "0 to 128", "500"),
        ("iosize=4k,", "", 24, "iosize above 0", "none"),
        ("iosize=4k", "iosize=4q", 24, "a whole number", "4q"),
        ("  }\n}", "", 0, "}", "\"echo\""),
        ("run 30", "run soon", 30, "a number from 1", "soon"),
        ("\"ready, set\"", "\"ready", 29, "quotation mark", "ready"),
        (
            "define file ",
            "define flowop ",
            15,
            "fileset, file, process",
            "flowop",
        ),
    ] {
        let said = says(from, to);
        let place = match line {
            0 => "s.f:".to_owned(),
            line => format!("s.f:{line}: expected "),
        };
        assert!(said.starts_with(&place), "{said}");
        assert!(said.contains(expected) && said.contains(found), "{said}");
    }
}

#[test]
fn inconsistent_scripts_are_refused() {
    let whole = |text: &str| script::parse("s.f", text).unwrap_err().to_string();
    assert!(whole("set $a=1").contains("expected 1 to 16384 threads"));
    let target = SCRIPT.replace(
        "flowop hog name=h,value=100",
        "flowop sempost value=1,target=x",
    );
    assert!(whole(&target).contains("expected a flowop called x"));
    let limit = SCRIPT.replace("flowop hog name=h,value=100", "flowop opslimit name=x");
    assert!(whole(&limit).contains("expected eventlimit"));
    assert!(whole("define process name=p {").contains("the end of the file"));
}

/// Pieces of scripts, so that random input passes the first checks.
const PIECES: [&str; 36] = [
    "set ",
    "$a",
    "$b",
    "=",
    "1",
    "16k",
    "define ",
    "fileset ",
    "file ",
    "process ",
    "thread ",
    "flowop ",
    "randvar ",
    "name=",
    "a",
    "b",
    ",",
    "\n",
    "{",
    "}",
    "(",
    ")",
    "entries=",
    "size=",
    "createfile ",
    "write ",
    "iosize=4k",
    "filesetname=a",
    "instances=",
    "cvar(type=cvar-gamma",
    "parameters=mean:10",
    "run ",
    "mode quit ",
    "\"",
    "#",
    "aiowrite ",
];

#[derive(Debug, TypeGenerator)]
struct Text {
    pieces: Vec<u8>,
    tail: Vec<u8>,
}

#[test]
fn random_text_never_panics_the_parser() {
    bolero::check!().with_type::<Text>().for_each(|text| {
        let pieces = text
            .pieces
            .iter()
            .map(|p| PIECES[usize::from(*p) % PIECES.len()]);
        let mut script: String = pieces.collect();
        script += &String::from_utf8_lossy(&text.tail);
        let _ = script::parse("fuzz.f", &script);
        // A valid script with one piece inserted or the rest cut off.
        let at = text.pieces.len() * 7 % SCRIPT.len();
        if SCRIPT.is_char_boundary(at) {
            let _ = script::parse(
                "fuzz.f",
                &format!("{}{script}{}", &SCRIPT[..at], &SCRIPT[at..]),
            );
            let _ = script::parse("fuzz.f", &SCRIPT[..at]);
        }
    });
}
