//! Examines the servers, and the locks that no client can get: keys without a ttl.

use std::time::Duration;

use lockkeeper_core::kit::{Check as Row, Examination, checks, fail, ok, warn};
use lockkeeper_redis_client::refused::{refused_by, rule};
use lockkeeper_redis_client::report::Servers;
use lockkeeper_redis_client::rights::{Place, needed};

use super::layout::Layout;
use super::{Check, ForeignRedisStore, ForeignRedisStoreBuilder, Setup, rights};
use crate::Result;
use crate::store::{Admin as _, Finding};
use crate::url::StoreUrl;

/// How many locks are looked at for keys without a ttl.
const LOCKS: usize = 1000;

static CHECKS: [Row<OpenStore>; 4] = checks! {
    ("clock", |seen| seen.clocks(), |finding: Finding| Some(finding)),
    ("layout", |seen| seen.layout(), |finding: Finding| Some(finding)),
    ("rights", |seen| seen.refused(), |refused: Option<String>| {
        let rule = seen.rule();
        let fine = "this user may do all that locks need; a user with these rights is enough";
        Some(match refused {
            Some(refused) => fail(refused, rule),
            None => ok(fine).with_remedy(rule),
        })
    }),
    ("ttl", |seen| seen.endless(), |names: Vec<String>| {
        let layout = seen.store.0.layout;
        // Any string may be a key of an application, so `plain` knows only such locks.
        let found = format!("these locks have a holder without a ttl: {}", names.join(", "));
        Some(match names.is_empty() {
            true if layout == Layout::Plain => {
                ok("no lock that lockkeeper has held or waited for is without a ttl")
            }
            true => ok("no lock is without a ttl"),
            false => warn(found, format!("once its program is known to be gone: {}", layout.end())),
        })
    }),
};

/// An open store.
struct OpenStore {
    store: ForeignRedisStore,
    setup: Setup,
    prefix: String,
    within: Duration,
    url: StoreUrl,
    servers: Servers,
}

/// Examines every master. Returns the store if it could be opened, and locks can be relied on
/// there.
pub(super) async fn examine(
    url: &StoreUrl,
    builder: Result<ForeignRedisStoreBuilder>,
    examination: &mut Examination,
) -> Option<ForeignRedisStore> {
    let builder = examination.known("store", builder)?;
    // The examination reports what these checks would refuse.
    let lenient =
        Check::ALL.into_iter().fold(builder.clone(), |builder, check| builder.allow(check));
    let silence = "check that the server runs and can be reached from here";
    let store = examination.ask("open", silence, lenient.connect()).await?;
    let prefix = url.common.prefix.clone().unwrap_or_default();
    let within = examination.within / 2;
    let masters = store.0.route.masters();
    let servers = Servers::examine(&masters, &builder.setup, false, examination).await;
    let url = url.clone();
    let seen = OpenStore { store, setup: builder.setup, prefix, within, url, servers };
    examination.run(&CHECKS, &seen).await;
    seen.servers.usable.then_some(seen.store)
}

impl OpenStore {
    /// The clocks of all servers, and of their replicas.
    async fn clocks(&self) -> Result<Finding> {
        Ok(self.servers.clocks(&self.store.0.route.masters(), &self.url).await)
    }

    /// The lock of the other library that each lock is.
    async fn layout(&self) -> Result<Finding> {
        let layout = self.store.0.layout;
        Ok(ok(format!("layout {}: each lock is {} of the same name", layout.name(), layout.lock())))
    }

    /// Which commands a server refuses, and in which words.
    async fn refused(&self) -> Result<Option<String>> {
        let route = &self.store.0.route;
        let needed = needed(&self.setup, &rights::INSIDE, route.shards());
        let channel = rights::channel(self.store.0.layout)?;
        let place = Place::of(rights::TRIED, &channel);
        for link in route.masters() {
            let refused = refused_by(&link, &needed, place, self.within).await?;
            if refused.is_some() {
                return Ok(refused);
            }
        }
        Ok(None)
    }

    /// The access rule. The keys are the names of the locks.
    fn rule(&self) -> String {
        let places = rights::places(self.store.0.layout, &self.prefix);
        let places = places.as_deref().unwrap_or("~* &*");
        rule(&self.setup, &rights::INSIDE, self.store.0.route.shards(), places)
    }

    /// The locks with a holder that has no ttl.
    async fn endless(&self) -> Result<Vec<String>> {
        let lines = self.store.lines(&self.prefix, None, LOCKS).await?;
        let is_endless =
            |line: &crate::store::Line| line.entries.iter().any(|entry| entry.expires_in.is_none());
        let endless = lines.into_iter().filter(|(_, line)| line.as_ref().is_ok_and(is_endless));
        Ok(endless.map(|(name, _)| name.to_string()).collect())
    }
}
