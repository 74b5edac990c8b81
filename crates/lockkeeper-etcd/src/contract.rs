//! The contract of a store, on etcd: each operation checks the process, and is a module of its own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Interest, Line, Live, Losses, Opened,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal,
};
use crate::{EtcdStore, LockName, Result, amend, builder, claim, compare, renew, wait, withdraw};

#[async_trait]
impl Store for EtcdStore {
    fn capabilities(&self) -> Capabilities {
        self.can()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.check_process()?;
        self.capabilities().check(spec)?;
        self.mark_layout().await?;
        let opened = self.open_session(id, spec).await?;
        self.begin_to_listen();
        Ok(opened)
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        self.check_process()?;
        renew::renew(self, session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.check_process()?;
        self.close_session(session, live).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.check_process()?;
        claim::claim(self, claim).await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        self.check_process()?;
        amend::amend(self, key, number, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        self.check_process()?;
        withdraw::withdraw(self, key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        self.check_process()?;
        match interest {
            Interest::Claim(key) => wait::claim(self, key, within).await,
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        self.check_process()?;
        self.read_line(name).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.check_process()?;
        builder::identity::id(self).await
    }

    fn fence_key(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        let session = self.0.sessions.known(&key.session);
        let at = session.map_or_else(
            || self.0.lines.claim(key),
            |session| session.claims.slot_of(&self.0.lines, key).at,
        );
        Some(compare::fence_key(&at))
    }

    fn on_loss(&self, listener: Losses) {
        self.0.losses.add(listener);
    }
}
