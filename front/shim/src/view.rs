//! Access to placed files through the daemon, for programs without the library.

use crate::share::message::{Answer, DATA_MAX, GONE, MESSAGE_MAX, Op, Request};
use crate::{share, sys};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The placed files of a folder of zones, readable while programs write them. Connects again if the
/// daemon was restarted.
pub struct View {
    zones: PathBuf,
    socket: Mutex<Option<i32>>,
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

fn ask(socket: i32, request: Request<'_>) -> Result<Answer, i32> {
    request.send(socket)?;
    let mut room = vec![0; MESSAGE_MAX];
    let (len, fd) = sys::receive(socket, &mut room)?;
    fd.inspect(|fd| sys::close(*fd));
    Answer::decode(&room[..len]).ok_or(libc::EPIPE)
}

fn meet(zones: &Path) -> Result<i32, i32> {
    let path = CString::new(zones.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let folder = sys::open(&path, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let name = share::name(folder);
    sys::close(folder);
    let socket = sys::connect(&name?)?;
    match ask(socket, Request::new(Op::Hello, 0)) {
        Ok(_) => Ok(socket),
        Err(errno) => {
            sys::close(socket);
            Err(errno)
        }
    }
}

impl View {
    /// A view of the placed files in a folder of zones; connects at first use.
    #[must_use]
    pub fn new(zones: &Path) -> Self {
        Self {
            zones: zones.to_owned(),
            socket: Mutex::default(),
        }
    }

    fn ask(&self, request: Request<'_>) -> io::Result<Answer> {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let had = place.is_some();
        let socket = match *place {
            Some(socket) => socket,
            None => meet(&self.zones).map_err(error)?,
        };
        *place = Some(socket);
        let answer = match ask(socket, request) {
            Ok(answer) => answer,
            Err(errno) => {
                sys::close(socket);
                *place = None;
                drop(place);
                return if had {
                    self.ask(request)
                } else {
                    Err(error(errno))
                };
            }
        };
        match answer.status {
            0 => Ok(answer),
            GONE => Err(error(libc::ENOENT)),
            errno => Err(error(errno as i32)),
        }
    }

    /// Paths of all placed files, sorted.
    ///
    /// # Errors
    /// If no daemon answers.
    pub fn list(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            let last = all.last().cloned().unwrap_or_default();
            let answer = self.ask(Request {
                data: &last,
                ..Request::new(Op::List, 0)
            })?;
            if answer.data.is_empty() {
                return Ok(all);
            }
            let paths = answer.data.split(|byte| *byte == 0);
            all.extend(paths.filter(|path| !path.is_empty()).map(<[u8]>::to_vec));
        }
    }

    /// The number of the placed file at a path, and its length in bytes.
    ///
    /// # Errors
    /// `NotFound` if there is none, or an error if no daemon answers.
    pub fn find(&self, path: &[u8]) -> io::Result<(u64, u64)> {
        let answer = self.ask(Request {
            data: path,
            ..Request::new(Op::Find, 0)
        })?;
        let [number, size, _] = answer.words;
        Ok((number, size))
    }

    /// Reads up to `len` bytes from `offset` of the file with a number; fewer at its end.
    ///
    /// # Errors
    /// If the file is gone, no daemon answers, or the zones cannot be read.
    pub fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let asked = (len - bytes.len()).min(DATA_MAX);
            let answer = self.ask(Request {
                a: offset + bytes.len() as u64,
                b: asked as u64,
                ..Request::new(Op::Read, number)
            })?;
            bytes.extend_from_slice(&answer.data);
            if answer.data.len() < asked {
                break;
            }
        }
        Ok(bytes)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let socket = self
            .socket
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        socket.take().inspect(|socket| sys::close(*socket));
    }
}
