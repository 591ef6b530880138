//! Frontend for the tests: a machine with its memory and a virtio driver.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use vhost::wire::{NEED_REPLY, VERSION, say};

/// First address of the memory for the guest and for the machine's process, and its size.
const GUEST: u64 = 0x4000_0000;
const USER: u64 = 0x7f00_0000_0000;
const LEN: u64 = 4 << 20;
/// Number of descriptors of each queue.
pub(crate) const NUM: u16 = 16;
/// Bytes of memory for each queue: its parts, and room for data.
const EACH: u64 = 1 << 20;
const AVAIL: u64 = 4096;
const USED: u64 = 8192;
const DATA: u64 = 64 << 10;

pub(crate) struct Machine {
    pub(crate) socket: UnixStream,
    pub(crate) memory: File,
    queues: Vec<Driver>,
}

struct Driver {
    kick: File,
    call: File,
    sent: u16,
    seen: u16,
}

fn event() -> File {
    let flags = rustix::event::EventfdFlags::CLOEXEC;
    rustix::event::eventfd(0, flags).expect("a file").into()
}

pub(crate) fn words(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

pub(crate) fn pair(index: u32, value: u32) -> Vec<u8> {
    words(&[u64::from(index) | u64::from(value) << 32])
}

impl Machine {
    /// A connected machine that has sent no message.
    pub(crate) fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        socket.set_read_timeout(patience).expect("patience");
        let memory = memfd_create("memory", MemfdFlags::CLOEXEC).expect("memory");
        let memory = File::from(memory);
        memory.set_len(LEN).expect("it grows");
        Self {
            socket,
            memory,
            queues: Vec::new(),
        }
    }

    /// A machine with `queues` running queues.
    pub(crate) fn running(path: &Path, queues: u32) -> Self {
        let mut machine = Self::connect(path);
        assert_eq!(machine.number(say::GET_FEATURES) & 1 << 32, 1 << 32);
        machine.tell(say::SET_OWNER, b"");
        let protocol = machine.number(say::GET_PROTOCOL_FEATURES);
        machine.tell(say::SET_PROTOCOL_FEATURES, &words(&[protocol]));
        assert!(machine.number(say::GET_QUEUE_NUM) >= u64::from(queues));
        machine.tell(say::SET_FEATURES, &words(&[1 << 32 | 1 << 30]));
        machine.share();
        for index in 0..queues {
            machine.queues.push(Driver {
                kick: event(),
                call: event(),
                sent: 0,
                seen: 0,
            });
            machine.start(index, 0);
        }
        machine
    }

    /// Shares the machine's memory with the server.
    pub(crate) fn share(&self) {
        let table = words(&[1, GUEST, LEN, USER, 0]);
        self.send(say::SET_MEM_TABLE, 0, &table, &[self.memory.as_fd()]);
    }

    /// Starts a queue at index `base` of its available ring.
    pub(crate) fn start(&self, index: u32, base: u16) {
        let user = USER + u64::from(index) * EACH;
        self.tell(say::SET_VRING_NUM, &pair(index, NUM.into()));
        self.tell(say::SET_VRING_BASE, &pair(index, base.into()));
        let addresses = [u64::from(index), user, user + USED, user + AVAIL, 0];
        self.tell(say::SET_VRING_ADDR, &words(&addresses));
        let queue = &self.queues[index as usize];
        let number = words(&[index.into()]);
        self.send(say::SET_VRING_CALL, 0, &number, &[queue.call.as_fd()]);
        self.send(say::SET_VRING_KICK, 0, &number, &[queue.kick.as_fd()]);
        self.send(say::SET_VRING_ENABLE, NEED_REPLY, &pair(index, 1), &[]);
        assert_eq!(self.answer(say::SET_VRING_ENABLE), words(&[0]));
    }

    /// Stops a queue; returns the index of its next available entry.
    pub(crate) fn stop(&self, index: u32) -> u16 {
        self.tell(say::GET_VRING_BASE, &pair(index, 0));
        let answer = self.answer(say::GET_VRING_BASE);
        assert_eq!(answer[..4], index.to_le_bytes());
        u16::from_le_bytes([answer[4], answer[5]])
    }

    pub(crate) fn tell(&self, kind: u32, payload: &[u8]) {
        self.send(kind, 0, payload, &[]);
    }

    pub(crate) fn send(&self, kind: u32, flags: u32, payload: &[u8], files: &[BorrowedFd<'_>]) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((VERSION | flags).to_le_bytes());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(files)));
        }
        let slices = [IoSlice::new(&bytes)];
        // A dropped connection shows up in the next read.
        let _ = sendmsg(&self.socket, &slices, &mut control, SendFlags::NOSIGNAL);
    }

    /// Waits for the server; whether it closes the connection without sending anything.
    pub(crate) fn is_hung_up_on(&self) -> bool {
        match (&self.socket).read(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Receives the reply to a message of type `kind`; returns its payload.
    pub(crate) fn answer(&self, kind: u32) -> Vec<u8> {
        let mut head = [0; 12];
        (&self.socket).read_exact(&mut head).expect("an answer");
        assert_eq!(head[..4], kind.to_le_bytes());
        assert_eq!(head[4..8], 5_u32.to_le_bytes(), "version 1, a reply");
        let len = u32::from_le_bytes(head[8..].try_into().expect("four"));
        let mut payload = vec![0; len as usize];
        (&self.socket).read_exact(&mut payload).expect("a payload");
        payload
    }

    pub(crate) fn number(&self, kind: u32) -> u64 {
        self.tell(kind, b"");
        u64::from_le_bytes(self.answer(kind).try_into().expect("eight"))
    }

    pub(crate) fn config(&self) -> Vec<u8> {
        self.tell(
            say::GET_CONFIG,
            &[&[0, 0, 0, 0, 60, 0, 0, 0][..], &[0; 64]].concat(),
        );
        self.answer(say::GET_CONFIG)[12..].to_vec()
    }

    pub(crate) fn put(&self, index: u32, at: u64, bytes: &[u8]) {
        let at = u64::from(index) * EACH + at;
        self.memory
            .write_all_at(bytes, at)
            .expect("there is memory");
    }

    fn get(&self, index: u32, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let at = u64::from(index) * EACH + at;
        self.memory
            .read_exact_at(&mut bytes, at)
            .expect("there is memory");
        bytes
    }

    /// Writes descriptor `slot` of a queue: address, length, flags and next.
    pub(crate) fn descriptor(&self, queue: u32, slot: u16, part: (u64, u32, u16, u16)) {
        let (address, len, flags, next) = part;
        let mut bytes = words(&[address]);
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.put(queue, u64::from(slot) * 16, &bytes);
    }

    /// Guest address of the data area of a queue.
    pub(crate) fn data(queue: u32) -> u64 {
        GUEST + u64::from(queue) * EACH + DATA
    }

    /// Makes the chain that begins at `head` available and kicks the queue.
    pub(crate) fn offer(&mut self, index: u32, head: u16) {
        let queue = &mut self.queues[index as usize];
        let (slot, sent) = (queue.sent % NUM, queue.sent.wrapping_add(1));
        queue.sent = sent;
        self.put(index, AVAIL + 4 + u64::from(slot) * 2, &head.to_le_bytes());
        self.put(index, AVAIL + 2, &sent.to_le_bytes());
        let kick = &self.queues[index as usize].kick;
        (&*kick).write_all(&1_u64.to_ne_bytes()).expect("kicked");
    }

    /// Waits for the next used entry; returns its head and the bytes written.
    pub(crate) fn used(&mut self, index: u32) -> (u32, u32) {
        loop {
            let seen = self.queues[index as usize].seen;
            let told = self.get(index, USED + 2, 2);
            if told != seen.to_le_bytes() {
                let at = USED + 4 + u64::from(seen % NUM) * 8;
                let element = self.get(index, at, 8);
                self.queues[index as usize].seen = seen.wrapping_add(1);
                let word = |at: usize| element[at..at + 4].try_into().expect("four");
                return (u32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)));
            }
            let call = &self.queues[index as usize].call;
            let mut files = [PollFd::new(call, PollFlags::IN)];
            let patience = Timespec {
                tv_sec: 20,
                tv_nsec: 0,
            };
            let ready = poll(&mut files, Some(&patience)).expect("it waits");
            assert_eq!(ready, 1, "interrupted");
            (&*call).read_exact(&mut [0; 8]).expect("a count");
        }
    }

    /// Sends a request with data `out` and receives its status and `len` bytes. Each direction
    /// has two descriptors, as a guest may split its buffers.
    pub(crate) fn call(
        &mut self,
        queue: u32,
        want: u32,
        sector: u64,
        out: &[u8],
        len: u32,
    ) -> (u8, Vec<u8>) {
        let mut head = words(&[want.into()]);
        head.extend(sector.to_le_bytes());
        head.extend(out);
        self.put(queue, DATA, &head);
        let data = Self::data(queue);
        let (sent, first) = (head.len() as u32, head.len() as u32 / 2);
        self.descriptor(queue, 3, (data, first, 1, 7));
        self.descriptor(queue, 7, (data + u64::from(first), sent - first, 1, 1));
        let into = data + (256 << 10);
        self.descriptor(queue, 1, (into, len / 3, 3, 2));
        self.descriptor(
            queue,
            2,
            (into + u64::from(len / 3), len - len / 3 + 1, 2, 0),
        );
        self.offer(queue, 3);
        let (head, written) = self.used(queue);
        assert_eq!(head, 3);
        let mut bytes = self.get(queue, DATA + (256 << 10), len as usize + 1);
        let status = bytes.pop().expect("a status");
        assert_eq!(written, if status == 0 { len + 1 } else { 1 });
        (status, bytes)
    }
}
