//! The contract of a store, in the layouts of other libraries: each operation is a module of its
//! own.

use std::time::Duration;

use async_trait::async_trait;

use super::layout;
use super::{ForeignRedisStore, admin, claim, fault, renew, session, wait, withdraw};
use crate::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Interest, Line, Live, Losses, Opened,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal,
};
use crate::{LockName, Result};
use lockkeeper_redis_client::fault::foreign_id;
use lockkeeper_redis_client::slot;

#[async_trait]
impl Store for ForeignRedisStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
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

    /// Where no claim waits in a queue, a wait for a claim is one for its name.
    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        match interest {
            Interest::Claim(key) if self.0.capabilities.queue => {
                wait::claim(self, key, within).await
            }
            Interest::Claim(key) => wait::name(self, &key.name, seen, within).await,
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        admin::line(self, name).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.check_process()?;
        let asked = self.0.route.send_by(slot(layout::ID_KEY.as_bytes()), layout::id());
        let (value, _) = asked.await.map_err(|error| match error.is("WRONGTYPE") {
            true => foreign_id(layout::ID_KEY, "a value of another type"),
            false => fault::of(error),
        })?;
        layout::id_answer(self.0.layout, &value)
    }

    fn on_loss(&self, listener: Losses) {
        self.0.channels.losses.add(listener);
    }
}
