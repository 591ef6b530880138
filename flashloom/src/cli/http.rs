//! As much of HTTP as a page or a few numbers need.
//!
//! Invariants: one who asks gets one answer and is hung up on; who has not said what within two
//! seconds, or says too much, gets none. One is answered after the other: an answer is made
//! of what is in memory.

use super::patience::Until;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// How long one who asks may take to say what, and to hear it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read, in bytes.
const REQUEST_MAX: u64 = 8192;

/// An answer.
pub(crate) struct Reply {
    /// Number and words.
    pub(crate) status: &'static str,
    /// What the body is.
    pub(crate) kind: &'static str,
    /// The body.
    pub(crate) body: String,
    /// What a browser may do with it.
    pub(crate) policy: &'static str,
}

/// A page of ours loads what is ours and asks nobody else for anything.
const OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                    base-uri 'none'; form-action 'none'";

impl Reply {
    /// A text.
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.into(),
            policy: OURS,
        }
    }

    /// What is there, of this kind.
    pub(crate) fn found(kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status: "200 OK",
            kind,
            body: body.into(),
            policy: OURS,
        }
    }
}

/// The path that a request asks for; none if it is not one that only asks.
pub(crate) fn path(request: &str) -> Option<&str> {
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next()?, words.next()?);
    (method == "GET").then_some(path)
}

/// Answers who connects to `listener` by what `reply` makes of the first line, until the
/// process ends.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn serve(
    name: &str,
    listener: TcpListener,
    reply: impl Fn(&str) -> Reply + Send + 'static,
) -> io::Result<()> {
    let body = move || {
        for stream in listener.incoming() {
            match stream {
                // Who does not listen to the answer does not want it.
                Ok(stream) => drop(answer(&stream, &reply)),
                // As if no file is left for a client.
                Err(_) => thread::sleep(PATIENCE),
            }
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(body)?;
    Ok(())
}

fn answer(stream: &TcpStream, reply: &impl Fn(&str) -> Reply) -> io::Result<()> {
    let asking = Until::new(stream, PATIENCE);
    let mut input = BufReader::new(asking.take(REQUEST_MAX));
    let mut request = String::new();
    input.read_line(&mut request)?;
    let mut line = String::new();
    // The rest is of no interest, but who is hung up on before it is read may lose the answer.
    while input.read_line(&mut line)? > 2 {
        line.clear();
    }
    if input.get_ref().limit() == 0 {
        return Ok(());
    }
    let Reply {
        status,
        kind,
        body,
        policy,
    } = reply(&request);
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {policy}; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n\
         {body}",
        body.len()
    );
    Until::new(stream, PATIENCE).write_all(answer.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asks_has_a_path() {
        assert_eq!(path("GET /metrics HTTP/1.1\r\n"), Some("/metrics"));
        for request in ["", "GET", "POST / HTTP/1.1", "\u{1}"] {
            assert_eq!(path(request), None, "{request:?}");
        }
    }

    #[test]
    fn who_says_too_much_gets_no_answer_and_the_next_one_does() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        serve("test", listener, |request| {
            Reply::text("200 OK", path(request).unwrap_or("none"))
        })
        .expect("a thread");
        let said = |question: &[u8]| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            // It may hang up before it has heard all.
            let _ = stream.write_all(question);
            let mut said = String::new();
            let _ = stream.read_to_string(&mut said);
            said
        };
        assert_eq!(said(&[b'x'; 3 * REQUEST_MAX as usize]).find("200 OK"), None);
        let said = said(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n/a"),
            "{said}"
        );
    }
}
