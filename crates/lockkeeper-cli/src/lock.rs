//! Reaching the store: the one place that turns settings into a keeper, and the library's errors
//! into exit codes.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper::duration::format_duration;
use lockkeeper::store::{Capabilities, SessionSpec, Store as _};
use lockkeeper::{
    Error, ErrorKind, Event, FileStore, Keeper, KeeperBuilder, LockInfo, MemoryStore,
};
use tokio::time::{Instant, sleep, timeout};

use crate::duration::human;
use crate::exit::{Exit, Failure};
use crate::output::{Verbosity, complain};
use crate::settings::{Settings, Store};

/// Between two tries to reach a store that was not there, as when a whole machine starts at once.
const RETRY: Duration = Duration::from_millis(200);
/// Within this time a try ends by itself against a server that accepts and is silent, and says more
/// than the limit does.
const EXPLAINS: Duration = Duration::from_secs(4);
/// Between two looks for a file store that is not there yet.
const APPEARS: Duration = Duration::from_secs(1);
/// Messages of TLS when one side refuses the certificate of the other: waiting does not change
/// that.
const REFUSED_CERTIFICATES: [&str; 6] = [
    "invalid peer certificate",
    "CertificateRequired",
    "CertificateUnknown",
    "CertificateExpired",
    "BadCertificate",
    "UnknownCA",
];
/// How long to ask for the holder of a lock, when the answer is only useful and not necessary.
const CURIOSITY: Duration = Duration::from_millis(300);

/// The terms that belong to the lock rather than to one attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) ttl: Option<Duration>,
    pub(crate) lock_delay: Option<Duration>,
    /// The names have their prefix already, like the names in sequencers.
    pub(crate) whole_names: bool,
}

impl Terms {
    /// Returns whether an option asks for more than the store can keep. A ttl that no option has
    /// set is from the configuration.
    fn are_beyond(&self, can: &Capabilities, settings: &Settings) -> bool {
        let ttl = self.ttl.unwrap_or(settings.store.ttl);
        if !keeps_ttl(can, ttl) {
            return self.ttl.is_some();
        }
        let keeps = |lock_delay| can.check(&SessionSpec::new(ttl, lock_delay)).is_ok();
        self.lock_delay.is_some_and(|lock_delay| !keeps(lock_delay))
    }

    /// The error about a ttl that nothing has set, with the setting that the store needs.
    fn with_setting(&self, error: Error, can: &Capabilities, settings: &Settings) -> Error {
        let Store { ttl, url, .. } = &settings.store;
        if self.ttl.or(url.common.ttl).is_some() || keeps_ttl(can, *ttl) {
            return error;
        }
        let nearest = format_duration((*ttl).clamp(can.ttl_min, can.ttl_max.max(can.ttl_min)));
        let range = error.remedy().unwrap_or_default().to_owned();
        error.with_remedy(format!("ttl={nearest} in the URL; {range}"))
    }
}

/// Whether the store can keep locks of this ttl.
pub(crate) fn keeps_ttl(can: &Capabilities, ttl: Duration) -> bool {
    can.check(&SessionSpec::new(ttl, Duration::ZERO)).is_ok()
}

/// The failure of the request: if an option is to blame, a missing ability of the store is an error
/// of usage.
pub(crate) fn refused(error: Error, is_of_option: bool) -> Failure {
    match error.kind() {
        ErrorKind::Unsupported if is_of_option => Failure::usage(error),
        _ => error.into(),
    }
}

/// Whether the store is unreachable, as far as the events of a keeper say, and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Away(Arc<Mutex<Outage>>);

#[derive(Clone, Debug, Default)]
struct Outage {
    is_now: bool,
    /// The last reported error, which may be about no outage.
    why: Option<Error>,
}

impl Away {
    pub(crate) fn observe(&self, event: &Event<'_>) {
        let mut away = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Jeopardy => away.is_now = true,
            Event::ClaimFailed { error, .. } => away.why = Some((*error).clone()),
            Event::Recovered | Event::Queued { .. } | Event::Acquired { .. } => {
                *away = Outage::default()
            }
            _ => {}
        }
    }

    /// The meaning of a time-out during an outage: nobody knows whether the lock is busy.
    pub(crate) fn refuse_timeout(&self, name: &str, waited: Duration) -> Result<(), Failure> {
        let away = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Outage { is_now: true, why } = away else { return Ok(()) };
        let says = why.as_ref().map(|why| format!(" ({})", why.message())).unwrap_or_default();
        let remedy = why
            .as_ref()
            .and_then(Error::remedy)
            .unwrap_or("repeat the command when the store is back");
        let message = format!(
            "lock {name:?}: not acquired within {}, and the store does not answer",
            human(waited)
        );
        Err(Failure::new(Exit::Unavailable, format!("{message}{says}. Try: {remedy}")))
    }
}

/// A keeper, and the liveness file that shows its store that this process lives, if there is one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) keeper: Keeper,
    file: Option<FileStore>,
}

impl Connection {
    /// As long as a process has this file open, the locks of this process stay held after its
    /// death.
    pub(crate) fn liveness(&self) -> io::Result<Option<File>> {
        self.file.as_ref().map(FileStore::liveness).transpose()
    }
}

/// Connects to the store, for at most the connect timeout.
pub(crate) async fn connect(
    settings: &Settings,
    terms: Terms,
    on_event: impl Fn(&Event<'_>) + Clone + Send + Sync + 'static,
) -> Result<Keeper, Failure> {
    open(settings, terms, on_event).await.map(|connection| connection.keeper)
}

/// The same for a command that only looks: a missing file store counts as an empty one, and is not
/// made.
pub(crate) async fn look(settings: &Settings, terms: Terms) -> Result<Keeper, Failure> {
    if !is_missing(settings)? {
        return connect(settings, terms, |_| {}).await;
    }
    warn_of_missing(settings);
    builder(settings, terms, None)?.store(MemoryStore::new()).connect().await.map_err(configured)
}

/// The same for a command that looks until something changes: the command waits for a missing file
/// store.
pub(crate) async fn watch(settings: &Settings, terms: Terms) -> Result<Keeper, Failure> {
    if is_missing(settings)? {
        warn_of_missing(settings);
    }
    while is_missing(settings)? {
        sleep(APPEARS).await;
    }
    connect(settings, terms, |_| {}).await
}

/// Returns whether the store is a missing file store. If that cannot be determined, the attempt to
/// open it reports why.
///
/// # Errors
/// 78 if not even the folder exists.
pub(crate) fn is_missing(settings: &Settings) -> Result<bool, Failure> {
    settings.refuse_missing_folder()?;
    let url = &settings.store.url;
    if url.scheme != "file" || !matches!(Path::new(&url.path).try_exists(), Ok(false)) {
        return Ok(false);
    }
    FileStore::from_url(url).map(|_| true).map_err(configured)
}

fn warn_of_missing(settings: &Settings) {
    let url = &settings.store.url;
    if settings.verbosity >= Verbosity::Warnings {
        complain(&format!(
            "{url} is not there yet, so nobody holds a lock in it. Try: the --store of the holders"
        ));
    }
}

/// The same for a lock that outlives this process.
pub(crate) async fn open(
    settings: &Settings,
    terms: Terms,
    on_event: impl Fn(&Event<'_>) + Clone + Send + Sync + 'static,
) -> Result<Connection, Failure> {
    open_with(settings, terms, |builder| builder.on_event(on_event.clone())).await
}

/// The same, with further settings.
pub(crate) async fn open_with(
    settings: &Settings,
    terms: Terms,
    set: impl Fn(KeeperBuilder) -> KeeperBuilder,
) -> Result<Connection, Failure> {
    settings.refuse_missing_folder()?;
    let limit = settings.connect_timeout;
    let silent = || {
        let (store, limit) = (&settings.store.url, human(limit));
        let longer = match settings.connect_timeout < EXPLAINS && store.scheme != "file" {
            true => "--connect-timeout 4s, so that the error names the cause",
            false => "a longer --connect-timeout",
        };
        let remedy = format!("Try: {longer}; or look whether the store is overloaded");
        Failure::new(Exit::Unavailable, format!("{store} did not answer within {limit}. {remedy}"))
    };
    let until = Instant::now() + limit;
    let (mut failed, can) = (None, Arc::<OnceLock<Capabilities>>::default());
    let left = || until.saturating_duration_since(Instant::now());
    loop {
        let builder = noting(set(builder(settings, terms, Some(left()))?), &can);
        match timeout(left(), connection(settings, builder)).await {
            // An earlier try may have ended, and know more.
            Err(_) => return Err(failed.map_or_else(silent, |error| unreached(&error, limit))),
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) if !may_pass(&error, settings.store.url.hosts.len()) => {
                let Some(can) = can.get() else { return Err(configured(error)) };
                return Err(match terms.are_beyond(can, settings) {
                    true => refused(error, true),
                    false => configured(terms.with_setting(error, can, settings)),
                });
            }
            // A shorter try would say less about the store than this one.
            Ok(Err(error)) if left() > 2 * RETRY => {
                failed = Some(error);
                sleep(RETRY).await;
            }
            Ok(Err(error)) => return Err(unreached(&error, limit)),
        }
    }
}

/// Notes what the store can do. This is known before the keeper finds that the store cannot do what
/// is asked.
fn noting(builder: KeeperBuilder, can: &Arc<OnceLock<Capabilities>>) -> KeeperBuilder {
    let can = Arc::clone(can);
    builder.layer(move |store| {
        drop(can.set(store.capabilities()));
        store
    })
}

/// Returns whether another try may help, as when a whole machine starts at once: its clock may not
/// be set yet, and some of several servers may not have started yet.
fn may_pass(error: &Error, hosts: usize) -> bool {
    let says = |words: &str| error.message().contains(words);
    let is_refused = hosts == 1
        && REFUSED_CERTIFICATES.iter().any(|words| says(words))
        && !says("not valid yet");
    error.kind() == ErrorKind::Unavailable && !is_refused
}

/// The error for a store that was tried several times; each single error describes its own try.
fn unreached(error: &Error, tried: Duration) -> Failure {
    let remedy = error.remedy().map(|remedy| format!(". Try: {remedy}")).unwrap_or_default();
    let message = format!("{}; tried for {}{remedy}", error.message(), format_duration(tried));
    Failure::new(error.kind().into(), message)
}

async fn connection(settings: &Settings, builder: KeeperBuilder) -> Result<Connection, Error> {
    let url = &settings.store.url;
    if url.scheme != "file" {
        return Ok(Connection { keeper: builder.connect().await?, file: None });
    }
    let file = FileStore::from_url(url)?.open().await?;
    Ok(Connection { keeper: builder.store(file.clone()).connect().await?, file: Some(file) })
}

fn builder(
    settings: &Settings,
    terms: Terms,
    within: Option<Duration>,
) -> Result<KeeperBuilder, Failure> {
    let mut url = settings.store.url.clone();
    url.common.open_within = within;
    let mut builder = Keeper::from_url(&url).map_err(configured)?.owner(settings.owner.clone());
    match &settings.prefix {
        _ if terms.whole_names => builder = builder.prefix(""),
        Some(prefix) => builder = builder.prefix(prefix),
        None => {}
    }
    if let Some(ttl) = terms.ttl {
        builder = builder.ttl(ttl);
    }
    if let Some(lock_delay) = terms.lock_delay {
        builder = builder.lock_delay(lock_delay);
    }
    Ok(builder)
}

/// An invalid value while connecting is from the URL or another setting, not from the command's
/// arguments.
fn configured(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Invalid => Failure::config(error),
        _ => error.into(),
    }
}

/// The holders and the waiters of the lock, if they can be read at once.
pub(crate) async fn line(keeper: &Keeper, name: &str) -> Option<LockInfo> {
    timeout(CURIOSITY, keeper.inspect(name)).await.ok()?.ok()
}

pub(crate) fn first_holder(info: &LockInfo) -> Option<String> {
    info.holders.first().map(|holder| holder.owner.clone())
}
