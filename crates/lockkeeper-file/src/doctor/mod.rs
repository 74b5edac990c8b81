//! The examination of a file: its place, its owner, the durability of its disk, and leftovers.

mod beside;
mod inside;

use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{FileStore, writer};
use crate::duration::format_duration;
use crate::store::Finding;
use crate::time::Clock;
use crate::url::StoreUrl;

/// Examines the file and the files beside it, and then its contents. Returns the store, if it could
/// be opened; a missing store is not made.
pub(super) async fn examine(url: &StoreUrl, within: Duration, findings: &mut Vec<Finding>) -> Option<FileStore> {
    let builder = FileStore::from_url(url).map_err(|error| findings.push(Finding::failed("store", &error))).ok()?;
    let path = builder.path.clone();
    let (at, waived) = (path.clone(), builder.waived.clone());
    let looked = on_a_thread(within, move || beside::look(&at, &waived, within)).await;
    let Some(looked) = looked else {
        findings.push(silent(&path, "files", within, "check that the disk of the file is still there"));
        return None;
    };
    let can_be_opened = looked.can_be_opened;
    findings.extend(looked.findings);
    if !can_be_opened {
        return None;
    }
    match Clock::boot().timeout(within, builder.open()).await {
        None => {
            findings.push(silent(&path, "open", within, "end or continue a process that was stopped during a write"));
            None
        }
        Some(Err(error)) => {
            findings.push(Finding::failed("open", &error));
            None
        }
        Some(Ok(store)) => {
            inside::look(&store, looked.dead_clients, within, findings).await;
            Some(store)
        }
    }
}

fn silent(path: &Path, check: &'static str, within: Duration, remedy: &str) -> Finding {
    let problem = format!("file:{} did not answer within {}", path.display(), format_duration(within));
    Finding::fail(check, problem, remedy)
}

/// Runs work that may block for long.
async fn on_a_thread<T: Send + 'static>(within: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    writer::spawn_thread("lockkeeper-look", move || drop(reply.send(work()))).ok()?;
    Clock::boot().timeout(within, answer).await?.ok()
}
