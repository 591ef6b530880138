//! Format and Sanitize.

use super::Scope;
use super::identify::EVERY;
use crate::backend::{Backend, Manner, Span};
use crate::command::admin::{Erase, Format, SanitizeAction};
use crate::namespace::Namespace;
use crate::status::Status;
use crate::token::Answer;
use ssd::ZoneAction;

impl<B: Backend> Scope<B> {
    /// Erases one namespace or all, and sets their LBA format. Contents are always erased: with
    /// another format they would be misread.
    //= nvme-2.1 5.1.10
    pub(super) async fn format(&self, format: Format) -> Result<Answer, Status> {
        let chosen: Vec<(u32, &Namespace<B>)> = match format.nsid {
            EVERY => (1..).zip(&self.subsystem.namespaces).collect(),
            nsid => vec![(nsid, self.subsystem.namespace(nsid)?)],
        };
        if chosen.iter().any(|(_, n)| !n.has_format(format.format)) {
            return Err(Status::InvalidFormat);
        }
        for (nsid, namespace) in chosen {
            // Both secure erase settings are the same here.
            let (Erase::None | Erase::Data) = format.erase;
            erase(namespace).await?;
            namespace.set_format(format.format);
            self.tell_changed(nsid);
        }
        Ok(Answer::default())
    }

    /// Erases all namespaces; the sanitize operation completes with the command.
    //= nvme-2.1 5.1.22
    pub(super) async fn sanitize(&self, action: SanitizeAction) -> Result<Answer, Status> {
        if action == SanitizeAction::BlockErase {
            for namespace in &self.subsystem.namespaces {
                erase(namespace).await?;
            }
            self.subsystem.sanitized.set(true);
        }
        Ok(Answer::default())
    }
}

async fn erase<B: Backend>(namespace: &Namespace<B>) -> Result<(), Status> {
    let (backend, shape) = (namespace.backend(), namespace.shape());
    namespace.streams.borrow_mut().clear();
    match shape.zones {
        Some(_) => backend.manage(None, ZoneAction::Reset).await?,
        None => {
            let all = Span {
                at: 0,
                len: shape.bytes,
            };
            backend.zero(all, Manner::default()).await?;
        }
    }
    Ok(backend.flush().await?)
}
