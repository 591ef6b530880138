//! Clients that violate the protocol, flood the server or stop reading.

use crate::client::{Client, FLUSH, READ, STATUS, WRITE, option, request};
use crate::memory::Place;
use nbd::{Answer, CLIENTS_MAX, Job, TOTAL, UNDER_WAY};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use units::MIB;

/// Sends `bytes` in pieces of `piece` bytes and shuts the sending side down. Returns the
/// server's answer up to the end of the connection, which the server closes.
fn against(place: &Place, bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut ours = place.stream();
    let (mut sender, bytes) = (ours.try_clone().expect("another"), bytes.to_vec());
    let sent = thread::spawn(move || {
        for piece in bytes.chunks(piece.max(1)) {
            // The server may close the connection before all pieces are sent.
            let _ = sender.write_all(piece);
        }
        let _ = sender.shutdown(std::net::Shutdown::Write);
    });
    let mut answered = Vec::new();
    let _ = ours.read_to_end(&mut answered);
    sent.join().expect("no panic");
    answered
}

#[test]
fn any_bytes_end_the_connection_and_nothing_else() {
    let hello = [
        3_u32.to_be_bytes().to_vec(),
        option(8, b""),
        option(7, &[0; 6]),
    ]
    .concat();
    let place = std::panic::AssertUnwindSafe(Place::new(16 * 512));
    bolero::check!()
        .with_type::<(u8, Vec<(u8, u8, u16, u16, Vec<u8>)>)>()
        .with_iterations(300)
        .for_each(|(how, messages)| {
            let mut bytes = if how % 3 == 0 {
                Vec::new()
            } else {
                hello.clone()
            };
            for (kind, flags, at, len, raw) in messages {
                match how % 4 {
                    0 => bytes.extend(raw),
                    1 => bytes.extend(option(u32::from(kind % 12), raw)),
                    _ => {
                        let (at, len) = (u64::from(*at), u32::from(*len));
                        bytes.extend(request(u16::from(*flags), u16::from(kind % 9), 1, at, len));
                        bytes.extend(raw);
                    }
                }
            }
            let (place, piece) = (&place, usize::from(how >> 2));
            let answered = against(place, &bytes, if piece == 0 { 1 << 20 } else { piece });
            assert_eq!(&answered[..8], b"NBDMAGIC");
        });
    // Other clients are still served.
    place.connected().go(true);
}

#[test]
fn options_that_make_no_sense_are_refused_and_the_next_one_is_answered() {
    let memory = Place::new(8192);
    let mut client = memory.connected();
    let invalid = (1 << 31) + 3;
    for (number, data, kind) in [
        (99, &b""[..], (1 << 31) + 1),
        (5, b"", (1 << 31) + 1),
        (3, b"x", invalid),
        (8, b"x", invalid),
        (7, b"\0\0\0\x05abc", invalid),
        (7, b"\0\0\0\x03abc\0\0", (1 << 31) + 6),
        (7, b"\xff\xff\xff\xff", invalid),
        (10, b"\0\0\0\0\0\0\0\0", invalid),
    ] {
        let replies = client.ask(number, data);
        assert_eq!(
            replies.last().map(|reply| reply.0),
            Some(kind),
            "{number} {data:?}"
        );
    }
    assert_eq!(client.ask(8, b""), [(1, vec![])]);
    for data in [
        &b"\0\0\0\0\xff\xff\xff\xff"[..],
        b"\0\0\0\0\0\0\0\x01\0\0\0\x09x",
    ] {
        assert_eq!(client.ask(10, data)[0].0, invalid);
    }
    assert_eq!(client.ask(9, &[0; 8])[0].1[4..], *b"base:allocation");
    assert_eq!(client.ask(3, b"")[0], (2, b"\0\0\0\x06memory".to_vec()));
    let long = vec![0; 20_000];
    assert_eq!(client.ask(7, &long)[0].0, (1 << 31) + 9);
    client.go(true);
    assert_eq!(client.call(0, READ, 0, 512, b"").error, 0);
}

#[test]
fn a_length_is_checked_before_anything_is_kept_for_it() {
    let memory = Place::new(8192);
    for (kind, len) in [(READ, u32::MAX), (WRITE, u32::MAX)] {
        let mut client = memory.connected();
        client.go(true);
        let cookie = client.send(0, kind, 0, len, b"");
        if kind == READ {
            assert_eq!(client.reply(|_| 0).error, 22);
            continue;
        }
        // The option's data are skipped, and answered once all of them have arrived.
        client
            .stream
            .shutdown(std::net::Shutdown::Write)
            .expect("hung up");
        assert_eq!(
            client.stream.read(&mut [0]).expect("the end"),
            0,
            "{cookie}"
        );
    }
    // An option of 4 GiB.
    let mut endless = memory.connected();
    let head = [b"IHAVEOPT".as_slice(), &[0, 0, 0, 7], &[0xff; 4]].concat();
    endless.stream.write_all(&head).expect("sent");
    assert_eq!(endless.stream.read(&mut [0]).expect("the end"), 0);
}

/// Requests `count` reads of 1 MiB and does not receive the answers.
fn ask_for_much(place: &Place, count: u64) -> Client<UnixStream> {
    let mut client = place.connected();
    client.go(false);
    // One write of all requests takes little of the socket's buffer.
    let requests = (0..count).flat_map(|cookie| request(0, READ, cookie, 0, 1 << 20));
    let requests: Vec<u8> = requests.collect();
    client.stream.write_all(&requests).expect("sent");
    client
}

#[test]
fn client_that_reads_no_answers_has_no_more_requests_accepted() {
    let memory = Place::new(1 << 20);
    let count = (2 * TOTAL) >> 20;
    let mut slow = ask_for_much(&memory, count);
    let slower: Vec<_> = (0..4).map(|_| ask_for_much(&memory, count)).collect();
    // Other clients are still served.
    let mut client = memory.connected();
    client.go(true);
    for _ in 0..100 {
        assert_eq!(client.call(0, READ, 0, 4096, b"").error, 0);
    }
    assert_eq!(client.call(0, WRITE, 0, 8192, &[1; 8192]).error, 0);
    // All requests are answered once the client reads.
    for _ in 0..count {
        assert_eq!(slow.reply(|_| 1 << 20).bytes.len(), 1 << 20);
    }
    drop(slower);
    assert_eq!(
        client.call(0, WRITE, 0, 1 << 20, &vec![1; 1 << 20]).error,
        0
    );
}

/// Number of held jobs, once it has not grown for 100 ms.
fn settled(place: &Place) -> usize {
    let begun = || place.with(|inner| inner.held.as_ref().map_or(0, Vec::len));
    let (mut before, mut same) = (0, 0);
    while same < 50 {
        let now = begun();
        (before, same) = (now, if now == before { same + 1 } else { 0 });
        thread::sleep(Duration::from_millis(2));
    }
    before
}

/// Sends `count` requests of a kind from a thread, without waiting for the server to accept them.
fn ask_at_once(client: &Client<UnixStream>, kind: u16, len: u32, count: u64) {
    let mut sender = client.stream.try_clone().expect("another");
    let requests: Vec<u8> = (0..count)
        .flat_map(|cookie| request(0, kind, cookie, 0, len))
        .collect();
    thread::spawn(move || sender.write_all(&requests));
}

/// A block status answer may have many extents; their memory is reserved before the request
/// begins.
#[test]
fn block_status_answers_are_charged_to_the_pool_like_reads() {
    let memory = Place::new(4 << 20);
    memory.with(|inner| {
        inner
            .mapped
            .iter_mut()
            .step_by(2)
            .for_each(|page| *page = true);
        inner.held = Some(Vec::new());
    });
    let clients = 80;
    let mut clients: Vec<_> = (0..clients).map(|_| memory.connected()).collect();
    for client in &mut clients {
        client.go(true);
    }
    // The first held job belongs to the first client.
    clients[0].send(0, STATUS, 0, 4 << 20, b"");
    while memory.with(|inner| inner.held.as_ref().is_none_or(Vec::is_empty)) {
        thread::sleep(Duration::from_millis(2));
    }
    for client in &clients {
        ask_at_once(client, STATUS, 4 << 20, u64::from(UNDER_WAY) - 1);
    }
    // Requests are accepted while the pool has room for their largest answers.
    let begun = settled(&memory);
    let most = memory.with(|inner| {
        let held = inner.held.as_ref().expect("they are held");
        let most = |job: &Job| match job {
            Job::Status { most, .. } => u64::from(*most) * 8,
            other => panic!("{other:?}"),
        };
        held.iter().map(|(job, _)| most(job)).sum::<u64>()
    });
    assert!(most <= TOTAL, "{begun} take {most}");
    assert!(begun < clients.len() * UNDER_WAY as usize, "{begun}");
    // The answer is no longer than was reserved for it.
    memory.with(|inner| {
        let (job, done) = inner.held.as_mut().expect("they are held").remove(0);
        let answer = inner.carry_out(job);
        done.answer(answer);
    });
    let said = clients[0].reply(|_| 0);
    assert_eq!(said.pieces.len(), nbd::PIECES_MAX as usize);
}

#[test]
fn requests_in_flight_of_a_client_are_limited() {
    let memory = Place::new(8192);
    memory.with(|inner| inner.held = Some(Vec::new()));
    let mut client = memory.connected();
    client.go(true);
    let count = 4 * u64::from(UNDER_WAY);
    ask_at_once(&client, FLUSH, 0, count);
    assert_eq!(settled(&memory), UNDER_WAY as usize);
    // All requests are answered in the end.
    memory.with(|inner| {
        let held = inner.held.take().expect("they are held");
        held.into_iter()
            .for_each(|(_, done)| done.answer(Ok(Answer::Done)));
    });
    for _ in 0..count {
        assert_eq!(client.reply(|_| 0).error, 0);
    }
}

#[test]
fn client_that_disconnects_while_waiting_for_room_is_dropped_once_there_is_room() {
    let memory = Place::new(32 << 20);
    memory.with(|inner| inner.held = Some(Vec::new()));
    let others = memory.connections();
    let all = 32 * MIB as u32;
    let mut greedy: Vec<_> = (0..4).map(|_| memory.connected()).collect();
    for client in &mut greedy {
        client.go(true);
        for _ in 0..4 {
            client.send(0, READ, 0, all, b"");
        }
        settled(&memory);
    }
    // An incomplete write, for which the pool has no room.
    let mut client = memory.connected();
    client.go(true);
    client.send(0, WRITE, 0, all, &[1; 1000]);
    let begun = settled(&memory);
    drop(client);
    assert_eq!(settled(&memory), begun);
    assert_eq!(memory.connections(), others + greedy.len() + 1);
    memory.with(|inner| drop(inner.held.take()));
    drop(greedy);
    let started = Instant::now();
    while memory.connections() > others {
        assert!(started.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn silent_client_is_replaced_by_a_new_one_when_the_server_is_full() {
    let memory = Place::new(8192);
    let mut first = memory.connected();
    first.go(true);
    // Every other client has sent its flags; the rest have sent nothing.
    let silent: Vec<_> = (0..CLIENTS_MAX / 4 + CLIENTS_MAX)
        .map(|n| {
            let stream = memory.stream();
            if n % 2 == 0 {
                let _ = (&stream).write_all(&3_u32.to_be_bytes());
            }
            stream
        })
        .collect();
    let mut last = memory.connected();
    last.go(true);
    for client in [&mut first, &mut last] {
        assert_eq!(client.call(0, READ, 0, 512, b"").error, 0);
    }
    drop(silent);
}
