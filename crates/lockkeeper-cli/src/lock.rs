//! Reaching the store: the one place that turns settings into a keeper, and the library's errors into exit codes.

use std::time::Duration;

use lockkeeper::url::StoreUrl;
use lockkeeper::{Error, ErrorKind, Event, Guard, Keeper, KeeperBuilder, LostReason};
use tokio::time::{Instant, sleep, timeout};

use crate::child::supervise::Lease;
use crate::duration::human;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;

/// Between two tries to reach a store that was not there, as when a whole machine starts at once.
const RETRY: Duration = Duration::from_millis(200);
/// How long to ask who holds a lock, where that is only good to know.
const CURIOSITY: Duration = Duration::from_millis(300);

/// What belongs to the lock rather than to one attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) ttl: Option<Duration>,
    pub(crate) lock_delay: Option<Duration>,
}

/// Connects to the store, for at most the connect timeout.
pub(crate) async fn connect(
    settings: &Settings,
    terms: Terms,
    on_event: impl Fn(&Event<'_>) + Clone + Send + Sync + 'static,
) -> Result<Keeper, Failure> {
    let limit = settings.connect_timeout;
    let silent = || {
        let (store, limit) = (shown(&settings.store.url), human(limit));
        let remedy = "Try: a longer --connect-timeout, or look whether the store is overloaded";
        Failure::new(Exit::Unavailable, format!("{store} did not answer within {limit}. {remedy}"))
    };
    let until = Instant::now() + limit;
    loop {
        let builder = builder(settings, terms)?.on_event(on_event.clone());
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left, builder.connect()).await {
            Err(_) => return Err(silent()),
            Ok(Ok(keeper)) => return Ok(keeper),
            Ok(Err(error)) if error.kind() == ErrorKind::Unavailable && left > RETRY => sleep(RETRY).await,
            Ok(Err(error)) => return Err(configured(error)),
        }
    }
}

/// The store's URL without its secrets.
fn shown(url: &str) -> String {
    url.parse::<StoreUrl>().map_or_else(|_| "the store".to_owned(), |url| url.to_string())
}

fn builder(settings: &Settings, terms: Terms) -> Result<KeeperBuilder, Failure> {
    let mut builder = Keeper::from_url(&settings.store.url).map_err(configured)?.owner(settings.owner.clone());
    if let Some(prefix) = &settings.prefix {
        builder = builder.prefix(prefix);
    }
    if let Some(ttl) = terms.ttl {
        builder = builder.ttl(ttl);
    }
    if let Some(lock_delay) = terms.lock_delay {
        builder = builder.lock_delay(lock_delay);
    }
    Ok(builder)
}

/// What is invalid while connecting came from the URL or another setting, not from the command's arguments.
fn configured(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Invalid => Failure::config(error),
        _ => error.into(),
    }
}

/// Who holds the lock, if that can be had at once.
pub(crate) async fn holder(keeper: &Keeper, name: &str) -> Option<String> {
    let info = timeout(CURIOSITY, keeper.inspect(name)).await.ok()?.ok()?;
    info.holders.into_iter().next().map(|holder| holder.owner)
}

impl Lease for Guard {
    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }

    fn loss(&self) -> Option<LostReason> {
        let error = self.check().err()?;
        Some(error.lost_reason().cloned().unwrap_or(LostReason::Expired))
    }

    async fn lost(&self) -> LostReason {
        Self::lost(self).await
    }
}
