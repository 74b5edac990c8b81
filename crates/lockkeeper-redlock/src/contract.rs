//! The contract of a store, on the nodes of a Redlock: each operation is a module of its own.

use std::future::ready;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Interest, Line, Live, Losses, Opened,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal,
};
use lockkeeper_core::{Error, ErrorKind, LockName, Result};

use crate::{RedlockStore, claim, identity, line, renew, wait, withdraw};

#[async_trait]
impl Store for RedlockStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.check_process()?;
        self.0.capabilities.check(spec)?;
        // No session is detached.
        let is_closed = ready(Ok(false));
        self.0.session_claims.opened(id, spec, self.0.clock.now(), is_closed).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        renew::renew(self, session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        withdraw::close(self, session, live).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        claim::claim(self, claim).await
    }

    /// A change would have to reach a majority, and the nodes that come back later. The store has
    /// none.
    async fn amend(&self, _key: &ClaimKey, _number: u64, _change: &Amend) -> Result<Amended> {
        Err(Error::new(ErrorKind::Unsupported, "a Redlock cannot change a claim that is held")
            .with_remedy("a release and another claim, or another store"))
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        withdraw::withdraw(self, key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        match interest {
            // No claim stands in a line.
            Interest::Claim(_) => Ok(Wake::Changed),
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        line::line(self, name).await
    }

    async fn id(&self) -> Result<StoreId> {
        identity::id(self).await
    }

    fn on_loss(&self, listener: Losses) {
        self.0.pushed.losses.add(listener);
    }
}
