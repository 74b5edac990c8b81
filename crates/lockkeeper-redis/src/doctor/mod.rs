//! Examines the servers: what they forget and when, which server takes over, and what this user may
//! do.

mod rights;

use std::future::ready;
use std::time::Duration;

use lockkeeper_core::kit::{Check as Row, Examination, checks, ok};
use lockkeeper_redis_client::report::Servers;

use super::setup::{Deployment, Setup};
use super::{Check, RedisStore};
use crate::Result;
use crate::store::Finding;
use crate::url::StoreUrl;

/// The checks of the store as a whole.
static CHECKS: [Row<OpenStore>; 3] = checks! {
    ("clock", |seen| seen.clocks(), |finding: Finding| Some(finding)),
    ("rights", |seen| rights::refused(&seen.store, &seen.setup, &seen.prefix, seen.within / 2), |refused| {
        let fine = "this user may do all that locks need; a user with these rights is enough";
        let rule = || rights::rule(&seen.setup, seen.store.0.servers.shards());
        Some(refused.unwrap_or_else(|| ok(fine).with_remedy(rule())))
    }),
    ("sentinels", |seen| ready(Ok(())), |()| {
        let fine = "the Sentinels name the master; a user of theirs needs these rights only";
        let are_there = matches!(seen.setup.topology, Deployment::Sentinel(_));
        are_there.then(|| ok(fine).with_remedy(rights::SENTINEL_RULE))
    }),
};

/// Examines every master. Returns the store if it could be opened, and locks can be relied on
/// there.
pub(super) async fn examine(url: &StoreUrl, examination: &mut Examination) -> Option<RedisStore> {
    let builder = examination.known("store", RedisStore::from_url(url))?;
    // The examination reports what these checks would refuse.
    let lenient =
        Check::ALL.into_iter().fold(builder.clone(), |builder, check| builder.allow(check));
    let silence = "check that the server runs and can be reached from here";
    let Some(store) = examination.ask("open", silence, lenient.connect()).await else {
        if let Some(refused) = examination.findings.last_mut() {
            rights::show(refused, &builder.setup);
        }
        return None;
    };
    let masters = store.0.servers.masters();
    let servers = Servers::examine(&masters, &builder.setup, true, examination).await;
    let prefix = url.common.prefix.clone().unwrap_or_default();
    let seen = OpenStore {
        store,
        setup: builder.setup,
        url: url.clone(),
        prefix,
        within: examination.within,
        servers,
    };
    examination.run(&CHECKS, &seen).await;
    seen.servers.usable.then_some(seen.store)
}

/// An open store.
struct OpenStore {
    store: RedisStore,
    setup: Setup,
    url: StoreUrl,
    prefix: String,
    within: Duration,
    servers: Servers,
}

impl OpenStore {
    /// The clocks of all servers, and of their replicas.
    async fn clocks(&self) -> Result<Finding> {
        Ok(self.servers.clocks(&self.store.0.servers.masters(), &self.url).await)
    }
}
