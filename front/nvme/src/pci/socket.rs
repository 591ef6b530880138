//! Receives messages and their descriptors from a socket.
//!
//! Invariant: a read never reaches into the next message, and at most [`FILES_MAX`] descriptors
//! are accepted per message.

use super::message::{FILES_MAX, HEADER_BYTES, Header};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

/// Size of the control buffer for [`FILES_MAX`] descriptors; the system closes any more.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(FILES_MAX));

/// Received message with its descriptors.
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) files: Vec<File>,
}

/// Receives the next message of `socket`. `None` if the peer has closed the connection or the
/// message is invalid.
///
/// # Errors
/// If the connection breaks or the socket's timeout passes.
pub(super) fn receive(socket: &UnixStream) -> io::Result<Option<Message>> {
    let (mut head, mut files) = ([0; HEADER_BYTES], Vec::new());
    if !fill(socket, &mut head, &mut files)? {
        return Ok(None);
    }
    let Some(header) = Header::parse(&head) else {
        return Ok(None);
    };
    let mut body = vec![0; header.rest];
    let whole = fill(socket, &mut body, &mut files)? && files.len() <= FILES_MAX;
    Ok(whole.then_some(Message {
        header,
        body,
        files,
    }))
}

/// Fills `bytes` and collects descriptors. Returns false if the stream ends before, or too many
/// descriptors arrive.
fn fill(socket: &UnixStream, mut bytes: &mut [u8], files: &mut Vec<File>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(bytes)];
        let count = match recvmsg(socket, &mut parts, &mut control, flags) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                files.extend(came.map(File::from));
            }
        }
        if count == 0 || files.len() > FILES_MAX {
            return Ok(false);
        }
        bytes = &mut bytes[count..];
    }
    Ok(true)
}
