//! [`Export`] backed by a drive of the engine.

use crate::export::{Answer, Done, Export, Job, Piece, Refusal};
use crate::wire::Code;
use engine::{Desk, Device, Fault, Medium};
use std::rc::Rc;

/// Most pages that one block status request scans. The scan takes as long as a write, so it
/// does not delay other clients. The answer ends there, and the client queries the rest next.
const PAGES_MAX: u64 = 16 << 10;

/// A powered drive under an export name.
#[derive(Clone)]
pub struct Drive {
    desk: Desk<Device>,
    name: Rc<str>,
    size: u64,
    page: u32,
}

impl Drive {
    /// Exports the drive of `desk` under `name`. The preferred block size is the drive's page,
    /// at least 512 bytes.
    #[must_use]
    pub fn new(desk: &Desk<Device>, name: &str) -> Self {
        let device = desk.value();
        Self {
            name: name.into(),
            size: device.capacity(),
            page: (device.grain() as u32).next_power_of_two().max(512),
            desk: desk.clone(),
        }
    }
}

impl Export for Drive {
    fn size(&self) -> u64 {
        self.size
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn preferred(&self) -> u32 {
        self.page
    }

    fn begin(&self, job: Job, done: Done) {
        let device = Rc::clone(self.desk.value());
        self.desk.begin(async move {
            match carry_out(&device, job).await {
                Err(Fault::Gone(_)) => done.lose(),
                answer => done.answer(answer.map_err(|fault| refusal(&fault))),
            }
        });
    }
}

async fn carry_out(device: &Device, job: Job) -> Result<Answer, Fault> {
    let forced = match job {
        Job::Read { offset, length } => {
            return Ok(Answer::Data(device.read(offset, length as usize).await?));
        }
        Job::Status {
            offset,
            length,
            most,
        } => {
            let most = most as usize;
            return Ok(Answer::Pieces(pieces(device, offset, length, most)));
        }
        Job::Write {
            offset,
            bytes,
            force,
        } => {
            device.write(offset, &bytes).await?;
            force
        }
        Job::Zero {
            offset,
            length,
            hole,
            force,
        } => {
            match hole {
                true => device.zero(offset, length.into()).await?,
                false => device.write_zeros(offset, length.into()).await?,
            }
            force
        }
        Job::Trim {
            offset,
            length,
            force,
        } => {
            device.discard(offset, length.into()).await?;
            force
        }
        Job::Flush => true,
    };
    if forced {
        device.flush().await?;
    }
    Ok(Answer::Done)
}

/// Allocation status of a range, limited to `most` pieces and [`PAGES_MAX`] pages.
fn pieces(device: &Device, offset: u64, length: u32, most: usize) -> Vec<Piece> {
    let seen = PAGES_MAX * device.grain();
    let (mut at, end) = (offset, offset + u64::from(length).min(seen));
    let mut pieces = Vec::new();
    while at < end && pieces.len() < most {
        let hole = device.seek_before(at, end, Medium::Hole);
        let data = hole > at;
        let to = match data {
            true => hole,
            false => device.seek_before(at, end, Medium::Data),
        };
        pieces.push(Piece {
            length: (to - at) as u32,
            data,
        });
        at = to;
    }
    pieces
}

fn refusal(fault: &Fault) -> Refusal {
    let code = match fault {
        Fault::PastEnd { .. } => Code::Invalid,
        Fault::Gone(_) => Code::Shutdown,
        Fault::Drive(ssd::IoError::ReadOnly) => Code::NotPermitted,
        Fault::Drive(_) | Fault::Unwritable(_) | Fault::File(_) | Fault::Config(_) => Code::Io,
    };
    Refusal {
        code,
        why: fault.to_string(),
    }
}
