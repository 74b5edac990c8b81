//! A shared store is a store: several keepers, or a keeper and a test, share one connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Interest, Line, Live, Losses, Opened, Renewed, Revision,
    SessionId, SessionSpec, Store, Verdict, Wake, Withdrawal,
};
use crate::{LockName, Result};

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        (**self).admin()
    }

    async fn open(&self, session: &SessionSpec) -> Result<Opened> {
        (**self).open(session).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        (**self).renew(session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        (**self).close(session, live).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        (**self).claim(claim).await
    }

    async fn amend(&self, key: &ClaimKey, change: &Amend) -> Result<Amended> {
        (**self).amend(key, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        (**self).withdraw(key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        (**self).wait(interest, seen, within).await
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        (**self).line(name).await
    }

    fn fence_key(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        (**self).fence_key(key)
    }

    fn on_loss(&self, listener: Losses) {
        (**self).on_loss(listener);
    }
}
