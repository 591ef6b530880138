//! System calls of the placing library and the daemon: they bypass every hook, and return the error
//! as a value.

use crate::preload::raw;
use core::ffi::{CStr, c_int, c_long};
use core::sync::atomic::AtomicU32;
use std::ffi::CString;

#[cfg(not(flashloom_place))]
mod handles;
pub(crate) mod pipes;
mod times;

#[cfg(not(flashloom_place))]
pub(crate) use handles::{file_system, force_all, handle, open_handle};
pub(crate) use times::{identity, now, set_modified};

/// An error number, as in `errno`.
pub(crate) type Errno = c_int;

fn call(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    let before = raw::errno();
    let answer = raw::call(number, args);
    let outcome = usize::try_from(answer).map_err(|_| raw::errno());
    raw::set_errno(before);
    outcome
}

pub(crate) fn open(path: &CStr, flags: c_int) -> Result<c_int, Errno> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    call(
        libc::SYS_openat,
        [here, path.as_ptr() as usize, flags, 0, 0, 0],
    )
    .map(|fd| fd as c_int)
}

pub(crate) fn close(fd: c_int) {
    let _ = call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
}

/// Duplicates a descriptor, which shares the opening.
#[cfg(not(flashloom_place))]
pub(crate) fn copy(fd: c_int) -> Result<c_int, Errno> {
    let args = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args).map(|fd| fd as c_int)
}

/// Moves a descriptor to a number from 700 on, which programs do not reach soon; keeps it if that
/// fails.
pub(crate) fn moved_up(fd: c_int) -> c_int {
    let args = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 700, 0, 0, 0];
    match call(libc::SYS_fcntl, args) {
        Ok(high) => {
            close(fd);
            high as c_int
        }
        Err(_) => fd,
    }
}

pub(crate) fn pread(fd: c_int, to: &mut [u8], at: u64) -> Result<usize, Errno> {
    let place = to.as_mut_ptr() as usize;
    call(
        libc::SYS_pread64,
        [fd as usize, place, to.len(), at as usize, 0, 0],
    )
}

/// Reads until `to` is full; `EIO` if the file ends before.
pub(crate) fn pread_all(fd: c_int, mut to: &mut [u8], mut at: u64) -> Result<(), Errno> {
    while !to.is_empty() {
        let read = pread(fd, to, at)?;
        if read == 0 {
            return Err(libc::EIO);
        }
        to = &mut to[read..];
        at += read as u64;
    }
    Ok(())
}

pub(crate) fn pwrite_all(fd: c_int, mut from: &[u8], mut at: u64) -> Result<(), Errno> {
    while !from.is_empty() {
        let place = from.as_ptr() as usize;
        let args = [fd as usize, place, from.len(), at as usize, 0, 0];
        let written = call(libc::SYS_pwrite64, args)?;
        if written == 0 {
            return Err(libc::EIO);
        }
        from = &from[written..];
        at += written as u64;
    }
    Ok(())
}

pub(crate) fn truncate(fd: c_int, size: u64) -> Result<(), Errno> {
    call(
        libc::SYS_ftruncate,
        [fd as usize, size as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

/// Like [`truncate`], of the file at a path.
#[cfg(not(flashloom_place))]
pub(crate) fn truncate_at(path: &CStr, size: u64) -> Result<(), Errno> {
    let args = [path.as_ptr() as usize, size as usize, 0, 0, 0, 0];
    call(libc::SYS_truncate, args).map(drop)
}

pub(crate) fn force(fd: c_int) -> Result<(), Errno> {
    call(libc::SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn seek(fd: c_int, to: u64, whence: c_int) -> Result<u64, Errno> {
    let args = [fd as usize, to as usize, whence as usize, 0, 0, 0];
    call(libc::SYS_lseek, args).map(|at| at as u64)
}

/// Flags of an open file.
pub(crate) fn flags(fd: c_int) -> Result<c_int, Errno> {
    let args = [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args).map(|flags| flags as c_int)
}

/// Whether a descriptor is closed by `exec`.
pub(crate) fn closes_on_exec(fd: c_int) -> bool {
    let args = [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args).is_ok_and(|flags| flags as c_int & libc::FD_CLOEXEC != 0)
}

pub(crate) fn hint(fd: c_int, hint: u64) -> Result<(), Errno> {
    // F_SET_RW_HINT takes a pointer to eight bytes.
    let args = [fd as usize, 1036, &raw const hint as usize, 0, 0, 0];
    call(libc::SYS_fcntl, args).map(drop)
}

/// Attributes of an open file.
pub(crate) fn stat(fd: c_int) -> Result<libc::stat, Errno> {
    stat_at(fd, c"", libc::AT_EMPTY_PATH)
}

pub(crate) fn stat_at(at: c_int, path: &CStr, flags: c_int) -> Result<libc::stat, Errno> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let place = stat.as_mut_ptr() as usize;
    let args = [
        at as usize,
        path.as_ptr() as usize,
        place,
        flags as usize,
        0,
        0,
    ];
    call(libc::SYS_newfstatat, args)?;
    // SAFETY: all zeros are a valid `stat`, and the call has written it.
    Ok(unsafe { stat.assume_init() })
}

/// Path of an open file.
pub(crate) fn path_of(fd: c_int) -> Result<Vec<u8>, Errno> {
    link(&of(fd))
}

/// Like [`path_of`], but cut to the size of `room`; allocates nothing.
pub(crate) fn path_within(fd: c_int, room: &mut [u8]) -> Result<&[u8], Errno> {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let (mut at, mut rest) = (link.len() - 2, fd.cast_unsigned());
    loop {
        link[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
        at -= 1;
    }
    link.copy_within(at.., 14);
    let (place, here) = (room.as_mut_ptr() as usize, libc::AT_FDCWD as usize);
    let args = [here, link.as_ptr() as usize, place, room.len(), 0, 0];
    let len = call(libc::SYS_readlinkat, args)?;
    Ok(&room[..len])
}

/// Target of a symbolic link.
pub(crate) fn link(link: &CStr) -> Result<Vec<u8>, Errno> {
    let mut path = vec![0; libc::PATH_MAX as usize];
    let place = path.as_mut_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    let args = [here, link.as_ptr() as usize, place, path.len(), 0, 0];
    let len = call(libc::SYS_readlinkat, args)?;
    path.truncate(len);
    Ok(path)
}

/// A path under `/proc/self/fd` that leads to an open file.
pub(crate) fn of(fd: c_int) -> CString {
    CString::new(format!("/proc/self/fd/{fd}")).expect("it has no zero byte")
}

pub(crate) fn attribute(fd: c_int, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (name, place) = (name.as_ptr() as usize, to.as_mut_ptr() as usize);
    call(
        libc::SYS_fgetxattr,
        [fd as usize, name, place, to.len(), 0, 0],
    )
}

pub(crate) fn attribute_at(path: &CStr, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (path, name) = (path.as_ptr() as usize, name.as_ptr() as usize);
    call(
        libc::SYS_lgetxattr,
        [path, name, to.as_mut_ptr() as usize, to.len(), 0, 0],
    )
}

/// Like [`attribute_at`], but follows symbolic links.
pub(crate) fn attribute_behind(path: &CStr, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (path, name) = (path.as_ptr() as usize, name.as_ptr() as usize);
    call(
        libc::SYS_getxattr,
        [path, name, to.as_mut_ptr() as usize, to.len(), 0, 0],
    )
}

/// Sets an attribute. With `XATTR_CREATE` or `XATTR_REPLACE` it fails with `EEXIST` or `ENODATA`.
pub(crate) fn set_attribute(fd: c_int, name: &CStr, value: &[u8], how: c_int) -> Result<(), Errno> {
    let (name, place) = (name.as_ptr() as usize, value.as_ptr() as usize);
    let how = how as usize;
    call(
        libc::SYS_fsetxattr,
        [fd as usize, name, place, value.len(), how, 0],
    )
    .map(drop)
}

pub(crate) fn remove_attribute(fd: c_int, name: &CStr) -> Result<(), Errno> {
    call(
        libc::SYS_fremovexattr,
        [fd as usize, name.as_ptr() as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

/// Locks a folder for this process; fails if another process has the lock.
pub(crate) fn lock(fd: c_int) -> Result<(), Errno> {
    let how = (libc::LOCK_EX | libc::LOCK_NB) as usize;
    call(libc::SYS_flock, [fd as usize, how, 0, 0, 0, 0]).map(drop)
}

/// Maps memory at address `at`, or anywhere if that is 0.
pub(crate) fn map(
    at: usize,
    len: usize,
    (protection, flags): (c_int, c_int),
    (fd, offset): (c_int, u64),
) -> Result<usize, Errno> {
    let how = (protection as usize, flags as usize);
    call(
        libc::SYS_mmap,
        [at, len, how.0, how.1, fd as usize, offset as usize],
    )
}

pub(crate) fn unmap(at: usize, len: usize) {
    let _ = call(libc::SYS_munmap, [at, len, 0, 0, 0, 0]);
}

/// Marks memory to be zeroed by the kernel in a forked child.
pub(crate) fn wiped_on_fork(at: usize, len: usize) -> Result<(), Errno> {
    let how = libc::MADV_WIPEONFORK as usize;
    call(libc::SYS_madvise, [at, len, how, 0, 0, 0]).map(drop)
}

/// Names of all entries of a folder, `.` and `..` included.
pub(crate) fn list(folder: &CStr) -> Result<Vec<Vec<u8>>, Errno> {
    let fd = open(folder, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let mut names = Vec::new();
    let mut room = vec![0_u8; 1 << 15];
    loop {
        let place = room.as_mut_ptr() as usize;
        let read = call(
            libc::SYS_getdents64,
            [fd as usize, place, room.len(), 0, 0, 0],
        );
        let Some(read) = read.ok().filter(|&read| read > 0) else {
            break;
        };
        let mut entries = &room[..read];
        // Layout of an entry: inode, offset, its size, file type, name.
        while let Some(size) = entries.get(16..18) {
            let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
            let Some(name) = entries.get(19..size) else {
                break;
            };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(name.to_vec());
            entries = &entries[size..];
        }
    }
    close(fd);
    Ok(names)
}

/// Prints a message on standard error.
pub(crate) fn say(text: &str) {
    let line = format!("flashloom: {text}\n");
    let _ = call(
        libc::SYS_write,
        [2, line.as_ptr() as usize, line.len(), 0, 0, 0],
    );
}

/// The value of an environment variable; `None` if it is not set.
pub(crate) fn variable(name: &CStr) -> Option<CString> {
    // SAFETY: the name is a string; the value is copied before the environment can change.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_owned())
    }
}

/// The first `most` bytes of the file at a path.
#[cfg(not(flashloom_place))]
pub(crate) fn contents(path: &CStr, most: usize) -> Result<Vec<u8>, Errno> {
    let fd = open(path, libc::O_RDONLY)?;
    let bytes = read_all(fd, most);
    close(fd);
    bytes
}

/// The first bytes of an open file, at most `most`.
pub(crate) fn read_all(fd: c_int, most: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most];
    let mut len = 0;
    while len < most {
        match pread(fd, &mut bytes[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Waits until a futex word differs from `seen`, its waiters are woken, or `millis` are over.
pub(crate) fn wait(word: &AtomicU32, seen: u32, millis: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(millis / 1000),
        tv_nsec: i64::from(millis % 1000) * 1_000_000,
    };
    let place = word.as_ptr() as usize;
    let args = [
        place,
        libc::FUTEX_WAIT as usize,
        seen as usize,
        &raw const time as usize,
        0,
        0,
    ];
    let _ = call(libc::SYS_futex, args);
}

/// Wakes every thread that waits on a futex word.
pub(crate) fn wake(word: &AtomicU32) {
    let (place, all) = (word.as_ptr() as usize, i32::MAX as usize);
    let _ = call(
        libc::SYS_futex,
        [place, libc::FUTEX_WAKE as usize, all, 0, 0, 0],
    );
}

/// Yields the processor to other threads.
pub(crate) fn yields() {
    let _ = call(libc::SYS_sched_yield, [0; 6]);
}

/// Creates memory of this length that can be shared by its descriptor and never changes its size.
pub(crate) fn memory(len: usize) -> Result<c_int, Errno> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    let name = c"flashloom".as_ptr() as usize;
    let fd = call(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0])? as c_int;
    let seals = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as usize;
    let seal = |()| {
        let args = [fd as usize, libc::F_ADD_SEALS as usize, seals, 0, 0, 0];
        call(libc::SYS_fcntl, args).map(|_| fd)
    };
    truncate(fd, len as u64)
        .and_then(seal)
        .inspect_err(|_| close(fd))
}

const PACKETS: usize = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;

/// A connected pair of sockets for datagrams.
#[cfg(test)]
pub(crate) fn pair() -> Result<(c_int, c_int), Errno> {
    let mut ends = [0; 2];
    let args = [
        libc::AF_UNIX as usize,
        PACKETS,
        0,
        ends.as_mut_ptr() as usize,
        0,
        0,
    ];
    call(libc::SYS_socketpair, args).map(|_| (ends[0], ends[1]))
}

/// A socket at a name in the abstract namespace; `what` is the system call `bind` or `connect`.
fn socket_at(name: &[u8], what: c_long) -> Result<c_int, Errno> {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (place, byte) in address.sun_path.iter_mut().skip(1).zip(name) {
        *place = *byte as libc::c_char;
    }
    let len = 2 + 1 + name.len().min(107);
    let socket = call(
        libc::SYS_socket,
        [libc::AF_UNIX as usize, PACKETS, 0, 0, 0, 0],
    )?;
    let args = [socket, &raw const address as usize, len, 0, 0, 0];
    let done = call(what, args);
    let socket = socket as c_int;
    done.map(|_| socket).inspect_err(|_| close(socket))
}

/// Connects to the listener at a name.
pub(crate) fn connect(name: &[u8]) -> Result<c_int, Errno> {
    socket_at(name, libc::SYS_connect)
}

/// Listens at a name; fails if another process does.
#[cfg(not(flashloom_place))]
pub(crate) fn listen(name: &[u8]) -> Result<c_int, Errno> {
    let socket = socket_at(name, libc::SYS_bind)?;
    let done = call(libc::SYS_listen, [socket as usize, 128, 0, 0, 0, 0]);
    done.map(|_| socket).inspect_err(|_| close(socket))
}

/// Accepts the next connection.
#[cfg(not(flashloom_place))]
pub(crate) fn accept(socket: c_int) -> Result<c_int, Errno> {
    let flags = libc::SOCK_CLOEXEC as usize;
    let args = [socket as usize, 0, 0, flags, 0, 0];
    call(libc::SYS_accept4, args).map(|fd| fd as c_int)
}

/// Sets how long a receive from a socket waits; 0 is for ever.
#[cfg(not(flashloom_place))]
pub(crate) fn set_patience(socket: c_int, millis: u32) -> Result<(), Errno> {
    let time = libc::timeval {
        tv_sec: i64::from(millis / 1000),
        tv_usec: i64::from(millis % 1000) * 1000,
    };
    let args = [
        socket as usize,
        libc::SOL_SOCKET as usize,
        libc::SO_RCVTIMEO as usize,
        &raw const time as usize,
        size_of::<libc::timeval>(),
        0,
    ];
    call(libc::SYS_setsockopt, args).map(drop)
}

/// Raises this process's limit of descriptors to the maximum; returns the limit.
#[cfg(not(flashloom_place))]
pub(crate) fn have_descriptors() -> Result<u64, Errno> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let (what, place) = (libc::RLIMIT_NOFILE as usize, &raw mut limit as usize);
    call(libc::SYS_prlimit64, [0, what, 0, place, 0, 0])?;
    limit.rlim_cur = limit.rlim_max;
    call(libc::SYS_prlimit64, [0, what, place, 0, 0, 0])?;
    Ok(limit.rlim_cur)
}

/// User ID of the peer of a connection.
#[cfg(not(flashloom_place))]
pub(crate) fn user_of(socket: c_int) -> Result<u32, Errno> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as u32;
    let args = [
        socket as usize,
        libc::SOL_SOCKET as usize,
        libc::SO_PEERCRED as usize,
        &raw mut who as usize,
        &raw mut len as usize,
        0,
    ];
    call(libc::SYS_getsockopt, args).map(|_| who.uid)
}

/// Shuts a connection down, for all processes that share it.
#[cfg(not(flashloom_place))]
pub(crate) fn shut(socket: c_int) {
    let how = libc::SHUT_RDWR as usize;
    let _ = call(libc::SYS_shutdown, [socket as usize, how, 0, 0, 0, 0]);
}

/// Control buffer with room for one descriptor.
#[repr(C, align(8))]
struct Beside([u8; 24]);

/// Sends a datagram of two parts, with a descriptor if there is one.
pub(crate) fn send(socket: c_int, parts: [&[u8]; 2], fd: Option<c_int>) -> Result<(), Errno> {
    let part = |part: &[u8]| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    };
    let mut parts = parts.map(part);
    // `struct cmsghdr` of 64-bit systems: a head of 16 bytes (length, then level and type of four
    // bytes each), followed by the descriptor.
    let mut beside = Beside([0; 24]);
    if let Some(fd) = fd {
        beside.0[..8].copy_from_slice(&20_u64.to_ne_bytes());
        beside.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        beside.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        beside.0[16..20].copy_from_slice(&fd.to_ne_bytes());
    }
    // SAFETY: all zeros are a valid head of a message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    if fd.is_some() {
        message.msg_control = beside.0.as_mut_ptr().cast();
        message.msg_controllen = 24;
    }
    let flags = libc::MSG_NOSIGNAL as usize;
    let args = [socket as usize, &raw const message as usize, flags, 0, 0, 0];
    loop {
        match call(libc::SYS_sendmsg, args) {
            Err(libc::EINTR) => {}
            done => return done.map(drop),
        }
    }
}

/// Receives a datagram: its length, 0 if the peer has disconnected, and a descriptor if one came
/// along.
pub(crate) fn receive(socket: c_int, room: &mut [u8]) -> Result<(usize, Option<c_int>), Errno> {
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut beside = Beside([0; 24]);
    // SAFETY: all zeros are a valid head of a message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = 24;
    let flags = libc::MSG_CMSG_CLOEXEC as usize;
    let args = [socket as usize, &raw mut message as usize, flags, 0, 0, 0];
    let len = loop {
        match call(libc::SYS_recvmsg, args) {
            Err(libc::EINTR) => {}
            done => break done?,
        }
    };
    let fd = (message.msg_controllen as usize >= 20).then(|| {
        let bytes = beside.0[16..20].try_into().expect("four bytes");
        c_int::from_ne_bytes(bytes)
    });
    Ok((len, fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_times_out_when_the_peer_is_silent() {
        let (here, there) = pair().unwrap();
        set_patience(here, 1).unwrap();
        assert_eq!(receive(here, &mut [0; 8]), Err(libc::EAGAIN));
        set_patience(here, 0).unwrap();
        send(there, [b"late", b""], None).unwrap();
        assert_eq!(receive(here, &mut [0; 8]).unwrap().0, 4);
        close(here);
        close(there);
    }
}
