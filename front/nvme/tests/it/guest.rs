//! A small machine: its monitor speaks vfio-user, and its driver has queues in memory
//! that is a file, as its own reading of the specifications has it.

use crate::host::Sqe;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the memory of a machine; its addresses begin at [`BASE`].
pub(crate) const MEMORY: u64 = 8 << 20;
pub(crate) const BASE: u64 = 0x10_0000;
/// Entries of the queues for admin commands.
pub(crate) const ADMIN_ENTRIES: u32 = 16;
/// Guest address of the data area, behind the queues.
pub(crate) const DATA: u64 = BASE + 0x10_0000;

const REGISTERS: u32 = 0;
const CONFIG: u32 = 7;

/// A pair of queues as the driver knows it.
#[derive(Clone, Debug)]
struct Pair {
    submissions: u64,
    completions: u64,
    entries: u32,
    tail: u32,
    head: u32,
    phase: u8,
}

/// A decoded completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cqe {
    pub(crate) result: u64,
    pub(crate) head: u16,
    pub(crate) queue: u16,
    pub(crate) cid: u16,
    /// Kind and number; 0 if it worked.
    pub(crate) status: u16,
}

pub(crate) struct Guest {
    pub(crate) socket: UnixStream,
    pub(crate) memory: File,
    vectors: Vec<OwnedFd>,
    pairs: Vec<Pair>,
    next: u16,
}

fn dwords(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

pub(crate) fn map_body(at: u64, len: u64, offset: u64, flags: u32) -> Vec<u8> {
    let mut body = dwords(&[32, flags]);
    body.extend([offset, at, len].into_iter().flat_map(u64::to_le_bytes));
    body
}

impl Guest {
    /// A machine with a connected monitor that has sent no message.
    pub(crate) fn silent(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        socket.set_read_timeout(patience).expect("a timeout");
        let memory = tempfile::tempfile().expect("a file");
        memory.set_len(MEMORY).expect("room");
        let vector = || eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        Self {
            socket,
            memory,
            vectors: (0..4).map(|_| vector()).collect(),
            pairs: Vec::new(),
            next: 0,
        }
    }

    /// A machine with the drive set up by its monitor: version, memory and interrupts.
    pub(crate) fn plugged(path: &Path) -> Self {
        let mut guest = Self::silent(path);
        let told = guest.version(0, 1).expect("it is spoken");
        assert!(told.starts_with(&[0, 0, 1, 0, b'{']) && told.ends_with(b"}\0"));
        guest.map(BASE, MEMORY, 0).expect("new");
        guest.assign().expect("interrupts");
        guest
    }

    /// Like [`Self::plugged`]; `None` if the server has no room for one more machine.
    pub(crate) fn try_plugged(path: &Path) -> Option<Self> {
        let mut guest = Self::silent(path);
        guest.send(1, 0, &[0, 0, 1, 0], &[]);
        guest.reply(1)?.ok()?;
        guest.map(BASE, MEMORY, 0).ok()?;
        guest.assign().ok()?;
        Some(guest)
    }

    /// A plugged machine with its controller enabled by the driver.
    pub(crate) fn booted(path: &Path) -> Self {
        let mut guest = Self::plugged(path);
        guest.enable();
        guest
    }

    pub(crate) fn version(&mut self, major: u16, minor: u16) -> Result<Vec<u8>, u32> {
        let mut body = [major.to_le_bytes(), minor.to_le_bytes()].concat();
        body.extend(b"{\"capabilities\":{\"max_msg_fds\":8}}\0");
        self.ask(1, &body, &[])
    }

    pub(crate) fn map(&mut self, at: u64, len: u64, offset: u64) -> Result<Vec<u8>, u32> {
        let memory = self.memory.try_clone().expect("a descriptor");
        self.ask(2, &map_body(at, len, offset, 3), &[memory.into()])
    }

    pub(crate) fn unmap(&mut self, at: u64, len: u64) -> Result<Vec<u8>, u32> {
        let mut body = dwords(&[24, 0]);
        body.extend([at, len].into_iter().flat_map(u64::to_le_bytes));
        self.ask(3, &body, &[])
    }

    /// Assigns the machine's descriptors to the interrupt vectors.
    pub(crate) fn assign(&mut self) -> Result<Vec<u8>, u32> {
        let own = self.vectors.iter();
        let files: Vec<OwnedFd> = own
            .map(|fd| fd.try_clone().expect("a descriptor"))
            .collect();
        let count = files.len() as u32;
        self.ask(8, &dwords(&[20, 1 << 5 | 1 << 2, 2, 0, count]), &files)
    }

    /// Sends a message, and gives its reply, or the number of its error.
    pub(crate) fn ask(
        &mut self,
        command: u16,
        body: &[u8],
        files: &[OwnedFd],
    ) -> Result<Vec<u8>, u32> {
        self.send(command, 0, body, files);
        self.reply(command).expect("the connection holds")
    }

    pub(crate) fn send(&mut self, command: u16, flags: u32, body: &[u8], files: &[OwnedFd]) {
        let mut bytes = [7_u16.to_le_bytes(), command.to_le_bytes()].concat();
        bytes.extend(dwords(&[16 + body.len() as u32, flags, 0]));
        bytes.extend_from_slice(body);
        self.send_raw(&bytes, files);
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8], files: &[OwnedFd]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        // The other side may have gone, which reading tells.
        let _ = sendmsg(
            &self.socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        );
    }

    /// The next reply; none if the connection is over.
    pub(crate) fn reply(&mut self, command: u16) -> Option<Result<Vec<u8>, u32>> {
        let mut head = [0; 16];
        self.socket.read_exact(&mut head).ok()?;
        let dword = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four"));
        assert_eq!(
            (head[0], u16::from_le_bytes([head[2], head[3]])),
            (7, command)
        );
        let mut body = vec![0; dword(4) as usize - 16];
        self.socket.read_exact(&mut body).ok()?;
        match dword(8) {
            1 => Some(Ok(body)),
            0x21 => Some(Err(dword(12))),
            flags => panic!("no reply has the flags {flags:x}"),
        }
    }

    fn access(region: u32, at: u64, len: usize) -> Vec<u8> {
        let mut body = at.to_le_bytes().to_vec();
        body.extend(dwords(&[region, len as u32]));
        body
    }

    pub(crate) fn read(&mut self, region: u32, at: u64, len: usize) -> Result<Vec<u8>, u32> {
        let told = self.ask(9, &Self::access(region, at, len), &[])?;
        assert_eq!(told[..16], Self::access(region, at, len));
        assert_eq!(told.len(), 16 + len);
        Ok(told[16..].to_vec())
    }

    pub(crate) fn write(&mut self, region: u32, at: u64, data: &[u8]) -> Result<(), u32> {
        let mut body = Self::access(region, at, data.len());
        body.extend_from_slice(data);
        let told = self.ask(10, &body, &[])?;
        assert_eq!(told, Self::access(region, at, data.len()));
        Ok(())
    }

    pub(crate) fn config(&mut self, at: u64) -> u32 {
        let bytes = self.read(CONFIG, at, 4).expect("it is there");
        u32::from_le_bytes(bytes.try_into().expect("four"))
    }

    pub(crate) fn register(&mut self, at: u64) -> u32 {
        let bytes = self.read(REGISTERS, at, 4).expect("it is there");
        u32::from_le_bytes(bytes.try_into().expect("four"))
    }

    pub(crate) fn set_register(&mut self, at: u64, value: u32) {
        self.write(REGISTERS, at, &value.to_le_bytes())
            .expect("it is there");
    }

    /// Writes a register without waiting for an answer.
    pub(crate) fn send_write(&mut self, at: u64, value: u32) {
        let mut body = Self::access(REGISTERS, at, 4);
        body.extend(value.to_le_bytes());
        self.send(10, 0x10, &body, &[]);
    }

    /// Tells of commands without waiting for an answer.
    pub(crate) fn send_ring(&mut self, queue: u16) {
        let tail = self.pairs[usize::from(queue)].tail;
        self.send_write(0x1000 + u64::from(queue) * 8, tail);
    }

    /// Waits until the state of the controller is `state`.
    pub(crate) fn await_state(&mut self, state: u32) {
        let start = Instant::now();
        while self.register(0x1c) != state {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:x}",
                self.register(0x1c)
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Enables the controller with queues for admin commands.
    pub(crate) fn enable(&mut self) {
        self.pairs = vec![Self::pair(0, ADMIN_ENTRIES)];
        self.forget_completions(0);
        self.set_register(0x24, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
        for (at, base) in [
            (0x28, self.pairs[0].submissions),
            (0x30, self.pairs[0].completions),
        ] {
            self.write(REGISTERS, at, &base.to_le_bytes())
                .expect("it is there");
        }
        self.set_register(0x14, 0x46_0061);
        self.await_state(1);
    }

    fn pair(number: u64, entries: u32) -> Pair {
        Pair {
            submissions: BASE + number * 0x8000,
            completions: BASE + number * 0x8000 + 0x4000,
            entries,
            tail: 0,
            head: 0,
            phase: 1,
        }
    }

    /// Clears the memory of the completions of a queue.
    fn forget_completions(&mut self, number: usize) {
        let at = self.pairs[number].completions;
        self.store(at, &[0; 0x4000]);
    }

    /// Creates a queue pair with the next number and an interrupt vector of its own.
    pub(crate) fn make_queue(&mut self, entries: u32) -> u16 {
        let number = self.pairs.len() as u16;
        self.pairs.push(Self::pair(number.into(), entries));
        self.forget_completions(number.into());
        let pair = self.pairs[usize::from(number)].clone();
        let sizes = (entries - 1) << 16 | u32::from(number);
        let completions = prp(Sqe::new(0x05), pair.completions, 0)
            .dword(10, sizes)
            .dword(11, u32::from(number) << 16 | 0b11);
        let submissions = prp(Sqe::new(0x01), pair.submissions, 0)
            .dword(10, sizes)
            .dword(11, u32::from(number) << 16 | 1);
        assert_eq!(self.call(0, completions).status, 0);
        assert_eq!(self.call(0, submissions).status, 0);
        number
    }

    pub(crate) fn store(&self, at: u64, data: &[u8]) {
        self.memory.write_all_at(data, at - BASE).expect("room");
    }

    pub(crate) fn load(&self, at: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.memory
            .read_exact_at(&mut data, at - BASE)
            .expect("there");
        data
    }

    /// Puts a command into a queue, and gives its name.
    pub(crate) fn post(&mut self, queue: u16, sqe: Sqe) -> u16 {
        self.next = self.next.wrapping_add(1);
        let sqe = sqe.put(2, &self.next.to_le_bytes());
        let pair = &mut self.pairs[usize::from(queue)];
        let at = pair.submissions + u64::from(pair.tail) * 64;
        pair.tail = (pair.tail + 1) % pair.entries;
        self.store(at, &sqe.0);
        self.next
    }

    /// Tells of the commands that were put into a queue.
    pub(crate) fn ring(&mut self, queue: u16) {
        let tail = self.pairs[usize::from(queue)].tail;
        self.set_register(0x1000 + u64::from(queue) * 8, tail);
    }

    /// The next completion of a queue, if there is one.
    pub(crate) fn completion(&mut self, queue: u16) -> Option<Cqe> {
        let pair = self.pairs[usize::from(queue)].clone();
        let bytes = self.load(pair.completions + u64::from(pair.head) * 16, 16);
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if bytes[14] & 1 != pair.phase {
            return None;
        }
        let own = &mut self.pairs[usize::from(queue)];
        own.head = (own.head + 1) % own.entries;
        own.phase ^= u8::from(own.head == 0);
        Some(Cqe {
            result: u64::from_le_bytes(bytes[..8].try_into().expect("eight")),
            head: word(8),
            queue: word(10),
            cid: word(12),
            status: word(14) >> 1 & 0x7ff,
        })
    }

    /// Tells how far completions were read.
    pub(crate) fn ring_head(&mut self, queue: u16) {
        let head = self.pairs[usize::from(queue)].head;
        self.set_register(0x1004 + u64::from(queue) * 8, head);
    }

    /// Waits for an interrupt. Whether there was one.
    pub(crate) fn interrupted(&self, vector: usize, most: Duration) -> bool {
        let own = &self.vectors[vector];
        let mut polled = [PollFd::new(own, PollFlags::IN)];
        let most = Timespec::try_from(most).expect("a span");
        let ready = poll(&mut polled, Some(&most)).expect("it is polled");
        ready > 0 && rustix::io::read(own, &mut [0; 8]).is_ok()
    }

    /// The next completion of a queue, of which an interrupt tells.
    pub(crate) fn reap(&mut self, queue: u16) -> Cqe {
        loop {
            if let Some(completion) = self.completion(queue) {
                self.ring_head(queue);
                return completion;
            }
            let told = self.interrupted(queue.into(), Duration::from_secs(20));
            assert!(told, "nothing is heard of queue {queue}");
        }
    }

    /// Carries out a command.
    pub(crate) fn call(&mut self, queue: u16, sqe: Sqe) -> Cqe {
        let name = self.post(queue, sqe);
        self.ring(queue);
        let completion = self.reap(queue);
        assert_eq!((completion.cid, completion.queue), (name, queue));
        completion
    }
}

/// The command with its data in pages: the first, and the second or a list.
pub(crate) fn prp(sqe: Sqe, first: u64, second: u64) -> Sqe {
    sqe.put(1, &[0])
        .put(24, &first.to_le_bytes())
        .put(32, &second.to_le_bytes())
}
