//! A small host: it speaks the protocol as its own reading of the specification has it.

use crate::memory::Memory;
use crate::wire::{Local, Wire};
use nvme::tcp::pdu::{self, Format, Kind};
use nvme::{Allowed, Backend, Identity, Namespace, Subsystem};
use std::rc::Rc;

pub(crate) const NQN: &str = "nqn.2026-01.org.example:drive";
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
const INLINE: usize = 8192;

pub(crate) fn identity() -> Identity {
    Identity {
        nqn: NQN.to_owned(),
        serial: "SERIAL".to_owned(),
        model: "A drive".to_owned(),
        allowed: Allowed::Anyone,
    }
}

pub(crate) fn subsystem<B: Backend>(backends: Vec<B>) -> Rc<Subsystem<B>> {
    let namespaces = backends.into_iter().map(Namespace::new).collect();
    Rc::new(Subsystem::new(identity(), namespaces))
}

/// A command that a host makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sqe(pub(crate) [u8; 64]);

impl Sqe {
    pub(crate) fn new(opcode: u8) -> Self {
        let mut bytes = [0; 64];
        // Data are described by a list of segments.
        (bytes[0], bytes[1]) = (opcode, 0x40);
        Self(bytes).sgl(0, 0, 0x5a)
    }

    pub(crate) fn fabrics(kind: u8) -> Self {
        let mut sqe = Self::new(0x7f);
        sqe.0[4] = kind;
        sqe
    }

    pub(crate) fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn nsid(self, nsid: u32) -> Self {
        self.put(4, &nsid.to_le_bytes())
    }

    pub(crate) fn dword(self, number: usize, value: u32) -> Self {
        self.put(4 * number, &value.to_le_bytes())
    }

    /// Blocks of namespace 1.
    pub(crate) fn blocks(self, first: u64, count: u32) -> Self {
        self.nsid(1)
            .put(40, &first.to_le_bytes())
            .dword(12, count - 1)
    }

    pub(crate) fn sgl(self, address: u64, len: u32, kind: u8) -> Self {
        self.put(24, &address.to_le_bytes())
            .put(32, &len.to_le_bytes())
            .put(39, &[kind])
    }

    pub(crate) fn identify(cns: u32, nsid: u32) -> Self {
        Self::new(0x06).nsid(nsid).dword(10, cns)
    }

    pub(crate) fn log(page: u32, len: u32) -> Self {
        Self::new(0x02)
            .nsid(u32::MAX)
            .dword(10, (len / 4 - 1) << 16 | page)
    }

    /// A Connect of 32 entries.
    pub(crate) fn connect(queue: u16, kato: u32) -> Self {
        Self::fabrics(1)
            .put(42, &queue.to_le_bytes())
            .put(44, &31_u16.to_le_bytes())
            .put(48, &kato.to_le_bytes())
    }

    pub(crate) fn property_get(offset: u32, wide: bool) -> Self {
        Self::fabrics(4)
            .put(40, &[u8::from(wide)])
            .put(44, &offset.to_le_bytes())
    }

    pub(crate) fn property_set(offset: u32, value: u64) -> Self {
        Self::fabrics(0)
            .put(44, &offset.to_le_bytes())
            .put(48, &value.to_le_bytes())
    }
}

/// Decoded completion of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cid: u16,
    /// Kind and number; 0 if it worked.
    pub(crate) status: u16,
    pub(crate) result: u64,
    pub(crate) head: u16,
    pub(crate) data: Vec<u8>,
}

/// Decoded unit (PDU) of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Reply(Reply),
    Data {
        cid: u16,
        offset: usize,
        data: Vec<u8>,
    },
    Ready {
        cid: u16,
        tag: u16,
        offset: u32,
        len: u32,
    },
    End {
        reason: u16,
        detail: u32,
    },
    Opened {
        digests: u8,
        most_data: u32,
    },
}

pub(crate) struct Host<W> {
    pub(crate) wire: W,
    pub(crate) format: Format,
    input: Vec<u8>,
    next: u16,
    pub(crate) most_data: usize,
    /// Data that have come for commands that are not answered.
    data: Vec<(u16, Vec<u8>)>,
}

impl<W: Wire> Host<W> {
    pub(crate) fn new(wire: W) -> Self {
        Self {
            wire,
            format: Format::default(),
            input: Vec::new(),
            next: 0,
            most_data: 0,
            data: Vec::new(),
        }
    }

    /// Opens the connection with these digests.
    pub(crate) fn open(&mut self, digests: u8, alignment: u8) -> Unit {
        let mut open = pdu::header(Kind::OpenRequest);
        pdu::DIGESTS.put(&mut open, digests);
        pdu::ALIGNMENT.put(&mut open, alignment);
        self.wire.send(&open);
        let unit = self.unit().expect("an answer");
        if let Unit::Opened { digests, most_data } = unit {
            self.format = Format {
                header_digest: digests & 1 != 0,
                data_digest: digests & 2 != 0,
                alignment: 4,
            };
            self.most_data = most_data as usize;
        }
        unit
    }

    pub(crate) fn connect_as(
        &mut self,
        host: &str,
        nqn: &str,
        queue: u16,
        controller: u16,
        kato: u32,
    ) -> Reply {
        let sqe = Sqe::connect(queue, kato);
        self.connect_by(sqe, host, nqn, controller)
    }

    pub(crate) fn connect_by(&mut self, sqe: Sqe, host: &str, nqn: &str, controller: u16) -> Reply {
        let mut data = vec![0; 1024];
        data[..4].copy_from_slice(b"host");
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
        data[512..512 + host.len()].copy_from_slice(host.as_bytes());
        self.call(sqe, &data, 0)
    }

    pub(crate) fn connect(&mut self, queue: u16, controller: u16) -> Reply {
        self.connect_as(HOST, NQN, queue, controller, 0)
    }

    /// Opens an admin queue, and enables the controller. Gives its number.
    pub(crate) fn begin(&mut self) -> u16 {
        self.open(0, 0);
        let reply = self.connect(0, 0xffff);
        assert_eq!(reply.status, 0, "{reply:?}");
        let enabled = self.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
        assert_eq!(enabled.status, 0);
        reply.result as u16
    }

    /// Sends a command with its data, and gives its name.
    pub(crate) fn post(&mut self, sqe: Sqe, data: &[u8], room: usize) -> u16 {
        self.next = self.next.wrapping_add(1);
        let mut sqe = sqe.put(2, &self.next.to_le_bytes());
        let inline = !data.is_empty() && data.len() <= INLINE;
        if inline {
            sqe = sqe.sgl(0, data.len() as u32, 0x01);
        } else if !data.is_empty() || room > 0 {
            sqe = sqe.sgl(0, (data.len() + room) as u32, 0x5a);
        }
        self.send_raw(sqe, if inline { data } else { &[] });
        self.next
    }

    pub(crate) fn send_raw(&mut self, sqe: Sqe, inline: &[u8]) {
        let mut head = pdu::header(Kind::Command);
        head[8..].copy_from_slice(&sqe.0);
        let mut bytes = Vec::new();
        self.format.append(&mut bytes, head, inline);
        self.wire.send(&bytes);
    }

    /// Sends data that were asked for, in pieces as long as they may be.
    pub(crate) fn feed(&mut self, (cid, tag): (u16, u16), data: &[u8]) {
        let most = self.most_data;
        let count = data.len().div_ceil(most);
        for (number, part) in data.chunks(most).enumerate() {
            let mut head = pdu::header(Kind::HostData);
            if number + 1 == count {
                pdu::FLAGS.put(&mut head, pdu::LAST);
            }
            pdu::CID.put(&mut head, cid);
            pdu::TAG.put(&mut head, tag);
            pdu::OFFSET.put(&mut head, (number * most) as u32);
            pdu::DATA_LEN.put(&mut head, part.len() as u32);
            let mut bytes = Vec::new();
            self.format.append(&mut bytes, head, part);
            self.wire.send(&bytes);
        }
    }

    /// Carries a command out.
    pub(crate) fn call(&mut self, sqe: Sqe, data: &[u8], room: usize) -> Reply {
        let name = self.post(sqe, data, room);
        self.reap(name, data)
    }

    /// Waits for the end of a command.
    pub(crate) fn reap(&mut self, name: u16, out: &[u8]) -> Reply {
        loop {
            match self.unit().expect("the connection holds") {
                Unit::Ready {
                    cid,
                    tag,
                    offset,
                    len,
                } => {
                    assert_eq!((cid, offset, len as usize), (name, 0, out.len()));
                    self.feed((cid, tag), out);
                }
                Unit::Reply(reply) if reply.cid == name => return reply,
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// The next unit; data are kept for their reply.
    pub(crate) fn unit(&mut self) -> Option<Unit> {
        loop {
            match self.next_unit()? {
                Unit::Data { cid, offset, data } => {
                    let own = self.data.iter_mut().find(|(own, _)| *own == cid);
                    match own {
                        Some((_, kept)) => {
                            assert_eq!(kept.len(), offset);
                            kept.extend(data);
                        }
                        None => {
                            assert_eq!(offset, 0);
                            self.data.push((cid, data));
                        }
                    }
                }
                Unit::Reply(mut reply) => {
                    let own = self.data.iter().position(|(own, _)| *own == reply.cid);
                    if let Some(own) = own {
                        reply.data = self.data.swap_remove(own).1;
                    }
                    return Some(Unit::Reply(reply));
                }
                other => return Some(other),
            }
        }
    }

    fn next_unit(&mut self) -> Option<Unit> {
        while self.input.len() < 8 || self.input.len() < pdu::LEN.get(&self.input) as usize {
            let bytes = self.wire.receive()?;
            self.input.extend(bytes);
        }
        let len = pdu::LEN.get(&self.input) as usize;
        let unit: Vec<u8> = self.input.drain(..len).collect();
        Some(self.parse(&unit))
    }

    fn parse(&self, unit: &[u8]) -> Unit {
        let word = |at: usize| u16::from_le_bytes([unit[at], unit[at + 1]]);
        let dword = |at: usize| u32::from_le_bytes(unit[at..at + 4].try_into().expect("four"));
        let header = usize::from(unit[2]);
        let ends = matches!(unit[0], 0x01 | 0x03);
        if self.format.header_digest && !ends {
            assert_eq!(unit[1] & 1, 1);
            assert_eq!(unit[header..header + 4], nvme::tcp::crc(&unit[..header]));
        }
        match unit[0] {
            0x01 => Unit::Opened {
                digests: unit[11],
                most_data: dword(12),
            },
            0x03 => Unit::End {
                reason: word(8),
                detail: dword(10),
            },
            0x05 => Unit::Reply(Reply {
                result: u64::from(dword(12)) << 32 | u64::from(dword(8)),
                head: word(16),
                cid: word(20),
                status: word(22) >> 1 & 0x7ff,
                data: Vec::new(),
            }),
            0x07 => {
                let (at, len) = (usize::from(unit[3]), dword(16) as usize);
                let data = unit[at..at + len].to_vec();
                if self.format.data_digest {
                    assert_eq!(unit[at + len..], nvme::tcp::crc(&data));
                }
                Unit::Data {
                    cid: word(8),
                    offset: dword(12) as usize,
                    data,
                }
            }
            0x09 => Unit::Ready {
                cid: word(8),
                tag: word(10),
                offset: dword(12),
                len: dword(16),
            },
            other => panic!("no such unit: {other}"),
        }
    }
}

/// An admin queue to namespaces in memory, each of these sizes in bytes.
pub(crate) fn memory(sizes: &[u64]) -> Host<Local<Memory>> {
    let subsystem = subsystem(sizes.iter().map(|&bytes| Memory::new(bytes)).collect());
    let mut host = Host::new(Local::new(&subsystem));
    host.begin();
    host
}

/// Another queue of the controller that `admin` has just begun.
pub(crate) fn queue<B: Backend + engine::Service>(
    admin: &Host<Local<B>>,
    controller: u16,
    queue: u16,
) -> Host<Local<B>> {
    let mut host = Host::new(Local::new(&admin.wire.subsystem));
    host.open(0, 0);
    let reply = host.connect(queue, controller);
    assert_eq!(reply.status, 0, "{reply:?}");
    host
}
