//! The examination of a file: its place, its owner, the durability of its disk, and leftovers.

mod beside;
mod inside;

use lockkeeper_core::kit::Examination;
use tokio::sync::oneshot;

use self::inside::Opened;
use super::{FileStore, writer};
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, Result};

/// Examines the file and the files beside it, and then its contents. Returns the store, if it could
/// be opened; a missing store is not made.
pub(super) async fn examine(url: &StoreUrl, examination: &mut Examination) -> Option<FileStore> {
    let builder = examination.known("store", FileStore::from_url(url))?;
    let (path, waived, within) = (builder.path.clone(), builder.waived.clone(), examination.within);
    let looked = on_a_thread(move || beside::look(&path, &waived, within));
    let looked =
        examination.ask("files", "check that the disk of the file is still there", looked).await?;
    examination.findings.extend(looked.findings);
    if !looked.can_be_opened {
        return None;
    }
    let silence = "end or continue a process that was stopped during a write";
    let store = examination.ask("open", silence, builder.open()).await?;
    let opened = Opened { store, dead_clients: looked.dead_clients };
    examination.run(&inside::CHECKS, &opened).await;
    Some(opened.store)
}

/// Runs work that may block for long.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (reply, answer) = oneshot::channel();
    writer::spawn_thread("lockkeeper-look", move || drop(reply.send(work())))?;
    answer
        .await
        .map_err(|_| Error::new(ErrorKind::Internal, "the thread that looks at the file has ended"))
}
