//! Playing touches nothing outside its directory.

use crate::script::Script;
use play::{Failure, Place};
use std::fs;
use std::os::unix::fs::symlink;

/// A directory beside a file and a directory that must stay as they are.
fn beside() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), "as it was").unwrap();
    fs::create_dir(outer.path().join("other")).unwrap();
    let dir = outer.path().join("dir");
    fs::create_dir(&dir).unwrap();
    symlink("../secret", dir.join("file")).unwrap();
    symlink(outer.path().join("other"), dir.join("way")).unwrap();
    (outer, dir)
}

#[test]
fn paths_that_lead_out_are_refused() {
    let (outer, dir) = beside();
    let mut script = Script::new(
        "unlink path=../secret -> EXDEV
         rmdir path=way/.. -> EXDEV
         rename from=../secret to=new how=replace -> EXDEV
         rename from=file to=../new how=replace -> EXDEV
         link of=link path=../secret to=new -> EXDEV",
    );
    let absolute = outer.path().join("secret");
    for path in ["file", "../secret", "way/new", absolute.to_str().unwrap()] {
        let of = format!("of=path path={path}");
        script.say(&format!(
            "open fd=0 path={path} flags=write|create mode=644 -> EXDEV"
        ));
        script.say(&format!("truncate {of} len=0 -> EXDEV"));
        script.say(&format!("chmod {of} mode=0 -> EXDEV"));
        script.say(&format!("setxattr {of} name=user.a len=1 how=set -> EXDEV"));
    }
    for path in ["way/new", "../new"] {
        script.say(&format!("mkdir path={path} mode=755 -> EXDEV"));
        script.say(&format!("symlink target=x path={path} -> EXDEV"));
        script.say(&format!("mknod path={path} kind=file mode=644 -> EXDEV"));
    }
    script.play_well(&dir);
    let secret = fs::read_to_string(outer.path().join("secret"));
    assert_eq!(secret.unwrap(), "as it was");
    assert_eq!(fs::read_dir(outer.path().join("other")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 3);
}

#[test]
fn a_tree_does_not_lead_out_either() {
    let (_outer, dir) = beside();
    let script = Script::default().file("way/new", 1);
    let place = Place::new(&dir).unwrap();
    let error = play::prepare(&place, &script.setup, &script.names).unwrap_err();
    assert!(matches!(error, Failure::Setup { .. }));
    assert!(error.to_string().contains("\"way/new\""), "{error}");
}

#[test]
fn only_an_empty_directory_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(dir.path()).unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    assert!(place.is_empty().unwrap());
    fs::write(dir.path().join("x"), "").unwrap();
    assert!(!place.is_empty().unwrap());
    let error = Place::new(&dir.path().join("x")).unwrap_err().to_string();
    assert!(error.contains("expected a directory"), "{error}");
}
