//! Other implementations as clients over TLS: libnbd with GnuTLS, and QEMU. The test reports a
//! missing program and skips its part.

use crate::memory::Place;
use crate::tls::Authority;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Output of a program, or `None` if it is not installed.
fn run(name: &str, arguments: &[&str]) -> Option<Output> {
    let ran = Command::new(name).args(arguments).output();
    if let Err(error) = &ran {
        judges::skip(&format!("{name}: {error}"));
    }
    ran.ok()
}

/// Folder of a client: the authority that it trusts, and its certificate signed by `signer`.
fn folder(trusts: &Authority, signer: Option<&Authority>) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let put = |name: &str, text: String| {
        fs::write(folder.path().join(name), text).expect("written");
    };
    // QEMU needs the authority of its own certificate as well.
    let known = signer.map_or("", |signer| &signer.pem);
    put("ca-cert.pem", [&trusts.pem, known].concat());
    if let Some(signer) = signer {
        let (own, key) = signer.signs("client");
        put("client-cert.pem", own.pem());
        put("client-key.pem", key.serialize_pem());
    }
    folder
}

/// URI of a server for libnbd; without certificates it selects plain text.
fn uri(place: &Place, certificates: Option<&Path>) -> String {
    let socket = place.path().display();
    match certificates {
        None => format!("nbd+unix:///?socket={socket}"),
        Some(folder) => format!(
            "nbds+unix:///?socket={socket}&tls-certificates={}",
            folder.display()
        ),
    }
}

/// Runs a command of `qemu-io` on a server; `None` if the program is not installed.
fn qemu_io(place: &Place, certificates: Option<&Path>, command: &str) -> Option<Output> {
    let mut drive = format!(
        "driver=nbd,server.type=unix,server.path={}",
        place.path().display()
    );
    let mut arguments = Vec::new();
    if let Some(folder) = certificates {
        drive += ",tls-creds=tls,tls-hostname=localhost";
        arguments.push("--object".to_owned());
        arguments.push(format!(
            "tls-creds-x509,id=tls,endpoint=client,dir={}",
            folder.display()
        ));
    }
    arguments.extend(["--image-opts".to_owned(), drive]);
    arguments.extend(["-c".to_owned(), command.to_owned()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run("qemu-io", &arguments)
}

fn is_right(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success() && !said.contains("failed")
}

#[test]
fn programs_of_others_copy_and_compare_over_tls_and_are_refused_without() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let place = Place::over(4 << 20, Some(&servers.tls(Some(&clients))));
    let known = folder(&servers, Some(&clients));
    let strangers = [
        Some(folder(&servers, None)),
        Some(folder(&servers, Some(&others))),
        None,
    ];
    if let Some(said) = run("nbdinfo", &["--json", &uri(&place, Some(known.path()))]) {
        assert!(said.status.success(), "{said:?}");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("\"TLS\": true"), "{said}");
        assert!(said.contains("\"export-size\": 4194304"), "{said}");
        copies(&place, known.path());
    }
    for stranger in &strangers {
        let uri = uri(&place, stranger.as_ref().map(TempDir::path));
        if let Some(said) = run("nbdinfo", &[&uri]) {
            assert!(!said.status.success(), "{uri}: {said:?}");
        }
    }
    let writes = "write -P 0x5a 64k 1M";
    let Some(said) = qemu_io(&place, Some(known.path()), writes) else {
        return;
    };
    assert!(is_right(&said), "{said:?}");
    // The written pattern verifies, and another one does not.
    for (command, right) in [
        ("read -P 0x5a 64k 1M", true),
        ("read -P 0x5b 64k 1M", false),
    ] {
        let said = qemu_io(&place, Some(known.path()), command).expect("it was here");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(
            !said.contains("Pattern verification failed"),
            right,
            "{said}"
        );
    }
    for stranger in &strangers {
        let said = qemu_io(&place, stranger.as_ref().map(TempDir::path), "read 0 512");
        assert!(
            !is_right(&said.expect("it was here")),
            "a stranger is let in"
        );
    }
    // A client that trusts another authority rejects this server. (libnbd checks that only for
    // URIs with a host name, and a Unix socket has none.)
    let other = folder(&others, Some(&clients));
    let said = qemu_io(&place, Some(other.path()), "read 0 512");
    assert!(
        !is_right(&said.expect("it was here")),
        "anybody is a server"
    );
}

/// Copies data to the server and back over several connections.
fn copies(place: &Place, certificates: &Path) {
    let folder = TempDir::new().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|n| (n ^ n >> 9) as u8).collect();
    fs::write(&from, &bytes).expect("written");
    let (from, uri) = (from.display().to_string(), uri(place, Some(certificates)));
    for arguments in [[&from, &uri], [&uri, &to.display().to_string()]] {
        let [from, to] = arguments;
        let Some(said) = run("nbdcopy", &["--connections=4", from, to]) else {
            return;
        };
        assert!(said.status.success(), "{said:?}");
    }
    assert!(fs::read(&to).expect("copied") == bytes, "other bytes");
}
