//! A namespace in memory that does as it is told. Benchmarks have it too.

use engine::Service;
use nvme::{Backend, Failure, Manner, Placements, Shape, Span};
use ssd::Health;
use std::cell::RefCell;

pub(crate) struct Plain {
    shape: Shape,
    bytes: RefCell<Vec<u8>>,
}

impl Plain {
    pub(crate) fn new(bytes: u64) -> Self {
        let shape = Shape {
            bytes,
            capacity: bytes,
            id: *b"sixteen bytes id",
            volatile_cache: true,
            granule: 4096,
            spare_blocks: 0,
            zones: None,
            placements: Placements::None,
            bytes_too: false,
        };
        Self {
            bytes: RefCell::new(vec![0; bytes as usize]),
            shape,
        }
    }
}

impl Service for Plain {
    fn settle(&self) {}
}

impl Backend for Plain {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        let at = at as usize;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        Ok(())
    }

    async fn write(&self, at: u64, data: &[u8], _: Manner) -> Result<(), Failure> {
        let at = at as usize;
        self.bytes.borrow_mut()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    async fn zero(&self, span: Span, _: Manner) -> Result<(), Failure> {
        self.bytes.borrow_mut()[span.at as usize..span.end() as usize].fill(0);
        Ok(())
    }

    async fn deallocate(&self, span: Span) -> Result<(), Failure> {
        self.zero(span, Manner::default()).await
    }

    async fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn health(&self) -> Option<Health> {
        None
    }
}
