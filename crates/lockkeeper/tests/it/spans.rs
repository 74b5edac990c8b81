//! The spans as a subscriber sees them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::layer::{Chaos, Fault, Operation, Traced};
use lockkeeper::store::{
    Amend, Claim, ClaimId, ClaimKey, Evict, Interest, Live, LiveState, SessionId, SessionSpec,
    Store, Target,
};
use lockkeeper::time::Clock;
use lockkeeper::{Keeper, MemoryStore};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// One span, as it was at the moment of the look.
#[derive(Clone, Debug, Default)]
struct Span {
    name: &'static str,
    parent: Option<&'static str>,
    fields: Fields,
    events: Vec<String>,
    closed: bool,
}

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Records all spans of lockkeeper, in the order of their beginning.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<Span>>>);

/// The index of a span in the notes.
struct Index(usize);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map(|parent| parent.name());
        let mut noted = Span { name: span.name(), parent, ..Span::default() };
        attributes.record(&mut noted.fields);
        let mut spans = self.0.lock().unwrap();
        span.extensions_mut().insert(Index(spans.len()));
        spans.push(noted);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.note(id, &context, |span| values.record(&mut span.fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(around) = context.event_span(event).map(|span| span.id()) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.note(&around, &context, |span| span.events.push(fields.0["message"].clone()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.note(&id, &context, |span| span.closed = true);
    }
}

impl Notes {
    fn note<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        change: impl FnOnce(&mut Span),
    ) {
        let span = context.span(id).unwrap();
        let index = span.extensions().get::<Index>().map(|index| index.0);
        change(&mut self.0.lock().unwrap()[index.unwrap()]);
    }

    /// Records the spans of this thread while the guard lives.
    fn here() -> (Self, DefaultGuard) {
        let notes = Self::default();
        let wanted = Targets::new().with_target("lockkeeper", Level::TRACE);
        let subscriber = Registry::default().with(notes.clone().with_filter(wanted));
        (notes, tracing::subscriber::set_default(subscriber))
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.0.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    fn one(&self, name: &str) -> Span {
        let spans = self.named(name);
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        spans[0].clone()
    }
}

impl Span {
    fn says(&self, field: &str, value: &str) {
        assert_eq!(self.fields.0.get(field).map(String::as_str), Some(value), "{self:?}");
    }
}

/// Reads the spans of the stores on every thread without a subscriber of its own.
pub(crate) fn watch() {
    let wanted = Targets::new().with_target("lockkeeper::store", Level::DEBUG);
    let looking = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(wanted);
    // Another case may have set a subscriber first.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(looking));
}

fn claim(session: &SessionId, name: &str) -> Claim {
    let key =
        ClaimKey { name: name.parse().unwrap(), session: session.clone(), id: ClaimId::random() };
    Claim::exclusive(key, &SessionSpec::new(Duration::from_secs(9), Duration::ZERO))
}

#[tokio::test(start_paused = true)]
async fn a_traced_store_shows_what_it_was_asked_and_what_it_answered() {
    let (notes, _looking) = Notes::here();
    let clock = Clock::tokio();
    let store = Traced::new(MemoryStore::with_clock(clock.clone()));
    let keeper = Keeper::builder(store.clone())
        .clock(clock.clone())
        .ttl(Duration::from_secs(9))
        .connect()
        .await
        .unwrap();
    let guard = keeper.mutex("stock/42").unwrap().lock().await.unwrap();
    sleep(Duration::from_secs(4)).await;
    let other = Keeper::builder(store).clock(clock).connect().await.unwrap();
    assert!(other.mutex("stock/42").unwrap().try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(other.mutex("stock/42").unwrap().lock().into_future());
    sleep(Duration::from_millis(10)).await;
    keeper.inspect("stock/42").await.unwrap();
    assert_eq!(notes.named("store.line").len(), 1);
    keeper.admin().unwrap().list("", 10).await.unwrap();
    assert_eq!(notes.named("store.line").len(), 1, "a list asks for no line by itself");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    keeper.shutdown(Duration::from_secs(1)).await.unwrap();

    let claims = notes.named("store.claim");
    for span in &claims {
        span.says("lock", "stock/42");
        span.says("store", "memory:");
    }
    let outcomes: Vec<_> = claims.iter().map(|span| span.fields.0["outcome"].as_str()).collect();
    assert_eq!(outcomes[..3], ["granted 1", "busy", "queued behind 1"]);
    notes.named("store.withdraw")[0].says("outcome", "removed");
    assert!(notes.named("store.wait").iter().any(|span| span.fields.0["outcome"] == "granted 2"));
    let renewals = notes.named("store.renew");
    renewals[0].says("claims", "1");
    renewals[0].says("outcome", "held 1, queued 0, lost 0, unknown 0");
    notes.named("store.line")[0].says("outcome", "1 hold, 1 wait");
    notes.one("store.lines").says("outcome", "1 lines");
    notes.named("store.open")[0].says("ttl", "9s");
    notes.named("store.close")[0].says("outcome", "done");
    for span in notes.0.lock().unwrap().iter().filter(|span| span.name.starts_with("store.")) {
        assert!(
            span.closed
                && span.fields.0.contains_key("elapsed")
                && !span.fields.0.contains_key("error"),
            "{span:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_shows_its_error_and_a_dropped_one_no_outcome() {
    let (notes, _looking) = Notes::here();
    let clock = Clock::tokio();
    let chaos = Arc::new(Chaos::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock));
    let store = Traced::new(Arc::clone(&chaos));
    let name = "n".parse().unwrap();
    chaos.plan(Operation::Line, Fault::LostReply);
    store.line(&name).await.unwrap_err();
    let span = notes.one("store.line");
    span.says("outcome", "unavailable, effect unknown");
    assert!(span.fields.0["error"].contains("the answer was lost"), "{span:?}");
    let revision = store.line(&name).await.unwrap().revision;
    let wait = store.wait(Interest::Name(&name), revision, Duration::from_secs(9));
    assert!(tokio::time::timeout(Duration::from_secs(1), wait).await.is_err());
    let span = notes.one("store.wait");
    assert!(span.closed && !span.fields.0.contains_key("outcome"), "{span:?}");
}

#[tokio::test]
async fn what_a_call_does_is_inside_of_its_span() {
    let (notes, _looking) = Notes::here();
    Traced::new(Traced::new(MemoryStore::new())).line(&"n".parse().unwrap()).await.unwrap();
    let parents: Vec<_> = notes.named("store.line").iter().map(|span| span.parent).collect();
    assert_eq!(parents, [None, Some("store.line")]);
}

#[tokio::test]
async fn no_span_shows_what_authorises_a_release() {
    let (notes, _looking) = Notes::here();
    let store = Traced::new(MemoryStore::new());
    let session = SessionId::random();
    store.open(&session, &SessionSpec::new(Duration::from_secs(9), Duration::ZERO)).await.unwrap();
    let claims = [claim(&session, "n"), claim(&session, "n")];
    for claim in &claims {
        store.claim(claim).await.unwrap();
    }
    let live = claims.clone().map(|claim| Live { key: claim.key, state: LiveState::Granted });
    let name = &claims[0].key.name;
    let admin = store.admin().unwrap();
    admin
        .evict(name, &Target::Id(claims[1].key.id.hash()), Evict::Now, "me", "a secret reason")
        .await
        .unwrap();
    admin.request_release(name, "me", "a secret reason").await.unwrap();
    store.renew(&session, &live).await.unwrap();
    store.line(name).await.unwrap();
    store.amend(&claims[0].key, 1, &Amend::Value((*b"a secret value").into())).await.unwrap();
    store.withdraw(&claims[0].key, Some(Duration::from_secs(60))).await.unwrap();
    store.close(&session, &live).await.unwrap();
    assert_eq!(notes.one("store.renew").events, ["lost"]);
    let shown = format!("{:?}", notes.0.lock().unwrap()).to_lowercase();
    let bytes =
        |id: &ClaimId| id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [a, b] = claims.map(|claim| bytes(&claim.key.id));
    for secret in [&a, &b, session.as_str(), "secret"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(
        shown.contains("store.withdraw")
            && shown.contains("store.amend")
            && shown.contains("store.evict")
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_and_a_hold_are_spans_of_their_length() {
    let (notes, _looking) = Notes::here();
    let clock = Clock::tokio();
    let store = Traced::new(MemoryStore::with_clock(clock.clone()));
    let keeper = Keeper::builder(store).clock(clock).connect().await.unwrap();
    let mutex = keeper.mutex("n").unwrap();
    let guard = mutex.lock().await.unwrap();
    let attempt = notes.one("lock.acquire");
    attempt.says("lock", "n");
    assert!(attempt.closed);
    assert_eq!(attempt.events, ["acquired"]);
    assert_eq!(notes.one("store.claim").parent, Some("lock.acquire"));
    let hold = notes.one("lock.hold");
    hold.says("lock", "n");
    hold.says("token", "1");
    assert!(!hold.closed);

    let waiting = tokio::spawn(mutex.lock().into_future());
    sleep(Duration::from_secs(1)).await;
    assert!(!notes.named("lock.acquire")[1].closed, "it waits");
    assert_eq!(notes.named("lock.acquire")[1].events, ["queued"]);
    guard.release().await.unwrap();
    let hold = notes.one("lock.hold");
    assert!(hold.closed);
    assert_eq!(hold.events, ["released"]);
    drop(waiting.await.unwrap().unwrap());
    assert!(notes.named("lock.acquire")[1].closed);
    let hold = &notes.named("lock.hold")[1];
    assert!(hold.closed);
    assert_eq!(hold.events, ["dropped without release"]);
}
