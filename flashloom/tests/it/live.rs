//! `serve --ui`: the page of a drive that is served, as a client of the web and a browser see it.

use crate::listeners::{Client, FLUSH, WRITE};
use crate::serve::Served;
use crate::{Bench, number};
use ::browser::{Browser, Key};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// A drive of 16 MiB that is served, and the port of its page.
fn served() -> (Served, u16) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let line = format!("serve d.flash --nbd unix:n.sock --ui {port} --background");
    let served = Served::prepared(Bench::new(), "--size 16MiB --preset plain.toml", &line);
    served.start();
    (served, port)
}

fn write_four_mib(served: &Served) {
    let mut client = Client::connect(served);
    for at in 0..64 {
        client.call(WRITE, at << 16, 1 << 16, &[5; 1 << 16]);
    }
    client.call(FLUSH, 0, 0, b"");
}

/// What a web server at this port says to `GET path`: the head, and the body.
fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let asked = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(asked.as_bytes()).expect("asked");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    let (head, body) = said.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_drive_that_is_served_has_a_page_with_all_of_its_flash() {
    let (served, port) = served();
    let picture = || {
        let (head, body) = get(port, "/live.json");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        serde_json::from_str::<serde_json::Value>(&body).expect("a document")
    };
    let filled = |picture: &serde_json::Value| -> i64 {
        let cells = picture["cells"].as_array().expect("a list");
        cells.iter().filter_map(|cell| cell[1].as_i64()).sum()
    };
    assert_eq!(filled(&picture()), 0);
    write_four_mib(&served);
    let after = picture();
    assert_eq!(number(&after, "/stats/host_write_bytes"), 4 << 20);
    assert_eq!(number(&after, "/stats/programmed_pages/host"), 1_024);
    let lines = after["cells"].as_array().expect("a list").len() as f64;
    let info = served
        .bench
        .json("drive stats d.flash", "flashloom.drive-stats/1");
    assert_eq!(info["free_lines"], after["stats"]["free_lines"]);
    assert!(filled(&after) > 0 && lines > 4.0, "{lines}");
    let (head, page) = get(port, "/");
    assert!(
        head.contains("script-src 'self'") && page.contains("/live.js"),
        "{head}"
    );
    assert!(get(port, "/../d.flash").0.starts_with("HTTP/1.1 404"));
    served.signal("-TERM");
    served.ended();
}

/// What part `id` of the page says.
fn text(id: &str) -> String {
    format!("document.getElementById('{id}').textContent")
}

#[test]
fn its_page_lives_in_a_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (served, port) = served();
    for width in [360, 1280] {
        browser.visit(&format!("http://127.0.0.1:{port}/"), width);
        let there = format!("{}.startsWith('16.0 MiB')", text("state"));
        assert!(
            browser.comes_true(&there),
            "{}",
            browser.value(&text("state"))
        );
        let too_wide =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.value(too_wide), 0, "at {width}");
    }
    write_four_mib(&served);
    let counted = format!("{}.includes('hosts wrote4.0 MiB')", text("life"));
    assert!(
        browser.comes_true(&counted),
        "{}",
        browser.value(&text("life"))
    );
    assert!(browser.comes_true("document.querySelectorAll('#time polygon').length > 0"));
    by_keys(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new());
    served.signal("-TERM");
    served.ended();
    let gone = format!("{} === 'nobody answers any more'", text("state"));
    assert!(
        browser.comes_true(&gone),
        "{}",
        browser.value(&text("state"))
    );
}

/// The map, the pause and the colours are used without a mouse.
fn by_keys(browser: &mut Browser) {
    browser.value("document.getElementById('map').focus()");
    browser.press(Key::Right);
    browser.press(Key::Right);
    let chosen = browser.value(&text("cell"));
    assert!(
        chosen
            .as_str()
            .is_some_and(|cell| cell.starts_with("line 1: ")),
        "{chosen}"
    );
    let theme = "document.documentElement.dataset.theme";
    let before = browser.value(theme);
    browser.press(Key::Letter('t'));
    assert_ne!(browser.value(theme), before);
    let paused = "document.getElementById('pause').getAttribute('aria-pressed')";
    for expected in ["true", "false"] {
        browser.press(Key::Letter('p'));
        assert_eq!(browser.value(paused), expected);
    }
}
