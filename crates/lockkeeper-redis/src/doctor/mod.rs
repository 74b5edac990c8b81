//! Examines the servers: what they forget and when, which server takes over, and what this user may
//! do.

mod rights;
mod server;

use std::future::ready;
use std::time::Duration;

use lockkeeper_core::kit::{Check as Row, Examination, checks, ok};

use self::server::ServerReport;
use super::setup::{Deployment, Setup};
use super::{Check, RedisStore};
use crate::Result;
use crate::store::{Finding, said_once};
use crate::url::StoreUrl;
use crate::wire::{Link, Request};

/// The ttl of a keeper that sets no other.
const TTL: Duration = Duration::from_secs(30);

/// The checks of the store as a whole.
static CHECKS: [Row<OpenStore>; 3] = checks! {
    ("clock", |seen| seen.clocks(), |offsets: Vec<_>| Some(server::clocks(&offsets, seen.ttl))),
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
    let ttl = url.common.ttl.unwrap_or(TTL);
    let prefix = url.common.prefix.clone().unwrap_or_default();
    let mut seen = OpenStore {
        store,
        setup: builder.setup,
        ttl,
        prefix,
        within: examination.within,
        replicas: Vec::new(),
    };
    let usable = seen.servers(examination).await;
    examination.run(&CHECKS, &seen).await;
    usable.then_some(seen.store)
}

/// An open store.
struct OpenStore {
    store: RedisStore,
    setup: Setup,
    ttl: Duration,
    prefix: String,
    within: Duration,
    /// How far the clocks of the replicas are ahead of ours.
    replicas: Vec<Option<f64>>,
}

impl OpenStore {
    /// Examines all servers. Returns whether all can be used.
    async fn servers(&mut self, examination: &mut Examination) -> bool {
        let (mut all, mut usable) = (Vec::new(), true);
        let masters = self.store.0.servers.masters();
        for link in &masters {
            let found = match ServerReport::of(link, &self.setup).await {
                Ok(server) => {
                    usable &= server.is_usable();
                    for replica in server.listed_replicas() {
                        let replica = link.beside_at(replica).await;
                        self.replicas.push(match replica {
                            Ok(replica) => offset(&replica).await,
                            Err(_) => None,
                        });
                    }
                    server.findings()
                }
                Err(error) => vec![Finding::failed("server", &error)],
            };
            all.extend(found.into_iter().map(|found| (link.endpoint().to_string(), found)));
        }
        examination.findings.extend(said_once(all, masters.len()));
        usable
    }

    /// The clocks of all servers, and of their replicas.
    async fn clocks(&self) -> Result<Vec<Option<f64>>> {
        let mut offsets = self.replicas.clone();
        for link in self.store.0.servers.masters() {
            offsets.push(offset(&link).await);
        }
        Ok(offsets)
    }
}

/// How far the server's clock is ahead of ours, in seconds.
async fn offset(link: &Link) -> Option<f64> {
    let sent = crate::time::wall_micros();
    let time = server::time(link.send(Request::command(&[b"TIME"])).await.ok()?)?;
    let now = crate::time::wall_micros();
    // The server read its clock between these two moments.
    let ours = (sent + now) / 2;
    let micros = i64::try_from(time).ok()? - i64::try_from(ours).ok()?;
    Some(
        Duration::from_micros(micros.unsigned_abs()).as_secs_f64()
            * f64::from(micros.signum() as i32),
    )
}
