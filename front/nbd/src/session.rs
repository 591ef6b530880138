//! One client: the handshake, and then its requests.
//!
//! Invariants: requests are taken in one after the other and answered in any order; whoever
//! does not read his answers has no more taken in once [`BUDGET`] is used up.

mod handshake;
mod replies;

use crate::export::{Done, Export, Job};
use crate::server::Stream;
use crate::wire::{Code, Command, REQUEST_BYTES, Request, flag};
use handshake::Agreed;
use replies::{Reply, write_replies};
use std::io::{self, BufReader, Read};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that the requests of one connection and their answers may hold at a time; a
/// single larger one is let through alone.
pub const BUDGET: u64 = 64 << 20;
/// Bytes that a request counts for beside its data.
const REQUEST_COST: u64 = 4096;
/// How long a client may think during the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read from a client at a time.
const INPUT: usize = 256 << 10;

/// What is under way of one connection.
#[derive(Default)]
struct Budget {
    used: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    /// Waits for room for `cost` bytes, and takes it.
    fn take(&self, cost: u64) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |used: &mut u64| *used > 0 && *used + cost > BUDGET;
        let used = self.freed.wait_while(used, full);
        *used.unwrap_or_else(PoisonError::into_inner) += cost;
    }

    fn put(&self, cost: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used -= cost;
        drop(used);
        self.freed.notify_one();
    }
}

/// Serves one client until it leaves or breaks the protocol. What it had asked for before
/// is answered first.
///
/// # Errors
/// Those of the stream, and `InvalidData` for what makes no sense.
pub fn serve_client<S: Stream, E: Export>(stream: &S, export: &E) -> io::Result<()> {
    let served = serve(stream, export);
    stream.hang_up();
    served
}

fn serve<S: Stream, E: Export>(stream: &S, export: &E) -> io::Result<()> {
    stream.set_patience(Some(PATIENCE))?;
    let mut output = stream.another()?;
    let mut input = BufReader::with_capacity(INPUT, stream.another()?);
    let Some(agreed) = handshake::negotiate(&mut input, &mut output, export)? else {
        return Ok(());
    };
    stream.set_patience(None)?;
    let budget = Arc::new(Budget::default());
    let (replies, outbox) = channel();
    let freed = Arc::clone(&budget);
    let writer = thread::Builder::new().name("nbd-replies".to_owned());
    let writer = writer.spawn(move || {
        let written = write_replies(&mut output, &outbox, |cost| freed.put(cost));
        // Nobody hears the rest: the client is not listened to any more either.
        if written.is_err() {
            output.hang_up();
        }
        for reply in outbox {
            freed.put(reply.cost);
        }
    })?;
    let done = take_requests(&mut input, export, agreed, &budget, &replies);
    drop(replies);
    // It ends when the last answer is out.
    let _ = writer.join();
    done
}

/// Takes requests in until the client leaves.
fn take_requests<E: Export>(
    input: &mut impl Read,
    export: &E,
    agreed: Agreed,
    budget: &Arc<Budget>,
    replies: &Sender<Reply>,
) -> io::Result<()> {
    let mut header = [0; REQUEST_BYTES];
    loop {
        match input.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let request = Request::parse(&header).ok_or_else(|| broken("no request"))?;
        if request.command == Command::Disconnect {
            return Ok(());
        }
        let refused = request.check(export.size()).err();
        let refused = refused.or_else(|| agreed.refuses(&request));
        let holds = match request.command {
            Command::Read | Command::Write if refused.is_none() => u64::from(request.length),
            _ => 0,
        };
        let cost = REQUEST_COST + holds;
        budget.take(cost);
        let reply = Reply::begin(&request, agreed.structured, cost);
        let data = take_data(input, &request, refused)?;
        match refused {
            None => begin(export, &request, data, reply, replies.clone()),
            Some(code) => send(replies, reply.refused(code)),
        }
    }
}

/// The data that follow a request; they are skipped if it is refused.
fn take_data(
    input: &mut impl Read,
    request: &Request,
    refused: Option<Code>,
) -> io::Result<Vec<u8>> {
    if request.command != Command::Write {
        return Ok(Vec::new());
    }
    let length = u64::from(request.length);
    if refused.is_some() {
        let skipped = io::copy(&mut input.take(length), &mut io::sink())?;
        let whole = skipped == length;
        return whole.then(Vec::new).ok_or_else(|| broken("data end early"));
    }
    let mut bytes = vec![0; request.length as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn begin<E: Export>(
    export: &E,
    request: &Request,
    bytes: Vec<u8>,
    reply: Reply,
    replies: Sender<Reply>,
) {
    let (offset, length) = (request.offset, request.length);
    let has = |bit| request.flags & bit != 0;
    let force = has(flag::FUA);
    let job = match request.command {
        Command::Read => Job::Read { offset, length },
        Command::Write => Job::Write {
            offset,
            bytes,
            force,
        },
        Command::WriteZeroes => Job::Zero {
            offset,
            length,
            hole: !has(flag::NO_HOLE),
            force,
        },
        Command::Trim => Job::Trim {
            offset,
            length,
            force,
        },
        Command::BlockStatus => Job::Status {
            offset,
            length,
            one: has(flag::REQ_ONE),
        },
        Command::Flush => Job::Flush,
        // What is at hand is the drive's own business.
        Command::Cache | Command::Disconnect | Command::Unknown(_) => {
            return send(&replies, reply);
        }
    };
    let done = Done::new(move |answer| send(&replies, reply.answered(answer)));
    export.begin(job, done);
}

fn send(replies: &Sender<Reply>, reply: Reply) {
    // If nobody writes replies any more, nobody waits for room either.
    let _ = replies.send(reply);
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
