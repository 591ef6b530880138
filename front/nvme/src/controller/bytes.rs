//! Vendor commands of namespaces with byte access.

use super::Scope;
use super::io::exactly;
use crate::backend::Backend;
use crate::command::io::Io;
use crate::namespace::Namespace;
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::Answer;

impl<B: Backend> Scope<B> {
    //= bytefs 4.4
    pub(super) async fn bytes(
        &self,
        namespace: &Namespace<B>,
        io: Io,
        data: &[u8],
        room: usize,
    ) -> Result<Answer, Status> {
        if !namespace.shape().bytes_too {
            return Err(Status::InvalidOpcode);
        }
        let backend = namespace.backend();
        match io {
            Io::Store { at, len, tx } => {
                let data = exactly(data, usize::try_from(len).unwrap_or(usize::MAX))?;
                backend.store(at, data, tx).await?;
            }
            Io::Load { at, len } => {
                if len > TRANSFER as u64 || len > room as u64 {
                    return Err(Status::DataLengthInvalid);
                }
                let mut bytes = vec![0; len as usize];
                backend.load(at, &mut bytes).await?;
                return Ok(Answer::data(bytes));
            }
            Io::Commit { tx } => backend.commit(tx).await?,
            Io::Recover => {
                let report = backend.recover().await?;
                return Ok(Answer::result(report.kept.min(u32::MAX.into())));
            }
            _ => return Err(Status::InvalidOpcode),
        }
        Ok(Answer::default())
    }
}
