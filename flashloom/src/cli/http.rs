//! A minimal HTTP server, for a page or a few numbers.
//!
//! Invariants: each connection gets one answer and is closed. A client that has not sent its
//! request within two seconds, or sends too much, gets none. Clients are served one after the
//! other: an answer is made from memory only.

use super::patience::Until;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longest time for a client to send its request and receive the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read, in bytes.
const REQUEST_MAX: u64 = 8192;

/// An answer to a request.
pub(crate) struct Reply {
    /// Status code and phrase.
    pub(crate) status: &'static str,
    /// MIME type of the body.
    pub(crate) kind: &'static str,
    /// Text of the body.
    pub(crate) body: String,
    /// Content security policy for the browser.
    pub(crate) policy: &'static str,
}

/// The policy of our pages: resources from this server only.
const OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                    base-uri 'none'; form-action 'none'";

impl Reply {
    /// A plain text with this status.
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.into(),
            policy: OURS,
        }
    }

    /// A found resource of the MIME type `kind`.
    pub(crate) fn found(kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status: "200 OK",
            kind,
            body: body.into(),
            policy: OURS,
        }
    }
}

/// The path of a GET request; `None` for any other request.
pub(crate) fn path(request: &str) -> Option<&str> {
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next()?, words.next()?);
    (method == "GET").then_some(path)
}

/// Answers each connection to `listener` with the `reply` to its first line, until the process
/// ends.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn serve(
    name: &str,
    listener: TcpListener,
    reply: impl Fn(&str) -> Reply + Send + 'static,
) -> io::Result<()> {
    let body = move || {
        for stream in listener.incoming() {
            match stream {
                // A client that does not read the answer does not need it.
                Ok(stream) => drop(answer(&stream, &reply)),
                // For example without a free file descriptor for a client.
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
    // The headers are ignored, but closing the connection before they are read could lose the
    // answer.
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
    fn only_a_get_request_has_a_path() {
        assert_eq!(path("GET /metrics HTTP/1.1\r\n"), Some("/metrics"));
        for request in ["", "GET", "POST / HTTP/1.1", "\u{1}"] {
            assert_eq!(path(request), None, "{request:?}");
        }
    }

    #[test]
    fn oversized_request_gets_no_answer_and_the_next_client_does() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        serve("test", listener, |request| {
            Reply::text("200 OK", path(request).unwrap_or("none"))
        })
        .expect("a thread");
        let said = |question: &[u8]| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            // The server may close the connection before it has read everything.
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
