//! The contract of a store, on Redis: each operation is a module of its own.

use std::time::Duration;

use async_trait::async_trait;

use super::{CAPABILITIES, RedisStore, claim, fault, layout, long, renew, session, wait, withdraw};
use crate::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Interest, Line, Live, Losses, Opened,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal,
};
use crate::{LockName, Result};

#[async_trait]
impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        session::open(self, id, spec).await
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

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        claim::amend(self, key, number, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        withdraw::withdraw(self, key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        match interest {
            Interest::Claim(key) => wait::claim(self, key, within).await,
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        long::line(self, name, |value| layout::line_answer(name, value)).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.check_process()?;
        let asked = self.0.servers.send(layout::slot(layout::ID_KEY.as_bytes()), layout::id());
        let said = asked.await.map_err(fault::of_id)?;
        let id = said.read(layout::id_answer)?;
        // A master without the id would make another id.
        self.0.servers.replicated_by(&said.proof(), || layout::ID_MARK.into()).await?;
        Ok(id)
    }

    fn on_loss(&self, listener: Losses) {
        self.0.pushed.losses.add(listener);
    }
}
