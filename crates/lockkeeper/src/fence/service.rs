//! The gate before a service that speaks HTTP.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{FenceGate, KeyedFenceGate};
use crate::{LockName, Sequencer};

/// The header in which a request carries the [`Sequencer`] of its lock: `Lock-Sequencer`.
pub const LOCK_SEQUENCER: HeaderName = HeaderName::from_static("lock-sequencer");

/// Puts a gate before a [tower](https://docs.rs/tower) service: axum, hyper, and what is built on
/// them. Needs the feature `tower`.
///
/// Every request has to carry the [`Sequencer`] of the lock in the header
/// [`Lock-Sequencer`](LOCK_SEQUENCER), whatever its method. This includes requests that only read,
/// since the first access of a new holder has to shut out the old holders.
///
/// | the request | the answer |
/// |---|---|
/// | has no sequencer, or a header that cannot be read | 428 Precondition Required |
/// | has the sequencer of an older holder, of another lock, or for permits | 412 Precondition Failed |
/// | may pass | the answer of the service, which finds the [`Sequencer`] in the request's extensions |
///
/// A refusal is one line of plain text that says what to do. The body of the service's answers must
/// be made from a `String`, as axum's `Body` and `http_body_util::Full<Bytes>` are.
///
/// ```
/// use std::sync::Arc;
///
/// use axum::{Router, routing::get};
/// use lockkeeper::fence::{FenceGate, FenceLayer};
///
/// let gate = Arc::new(FenceGate::new("stock/42".parse()?));
/// let app: Router = Router::new()
///     .route("/stock", get(async || "20").put(async || "written"))
///     .layer(FenceLayer::new(gate));
/// # Ok::<(), lockkeeper::Error>(())
/// ```
///
/// # Ask again where the work is done
///
/// This check is the first one, and must not be the only one. Between it and the work, two requests
/// can change their order: a request of an old holder passes and is slow, a request of a new holder
/// passes and reads, and then the old request writes. So the service asks the same gate again
/// *where no other request can come between*: under the mutex of the resource, or with the
/// [marks](super::Marks) in the transaction. A token that has passed passes again, until a newer
/// access that conflicts has passed.
///
/// ```
/// # use std::sync::{Mutex, PoisonError};
/// # use axum::{Extension, extract::State, http::StatusCode};
/// # use lockkeeper::{Sequencer, fence::FenceGate};
/// # #[derive(Clone)] struct Shop { gate: std::sync::Arc<FenceGate>, stock: std::sync::Arc<Mutex<u32>> }
/// async fn write(State(shop): State<Shop>, Extension(sequencer): Extension<Sequencer>, n: String) -> StatusCode {
///     let Ok(n) = n.parse() else { return StatusCode::BAD_REQUEST };
///     let mut stock = shop.stock.lock().unwrap_or_else(PoisonError::into_inner);
///     if shop.gate.admit(&sequencer).is_err() {
///         return StatusCode::PRECONDITION_FAILED;
///     }
///     *stock = n;
///     StatusCode::NO_CONTENT
/// }
/// # let _ = axum::routing::put::<_, _, Shop>(write);
/// ```
///
/// # What it does not do
///
/// The layer does not know what a request does. A service that would change something for the
/// holder of a read lock has to look at [`Sequencer::mode`] and refuse. The layer does not know the
/// sender of a request: a sequencer is no secret, and a forged one with a very high token shuts all
/// other holders out. Put the layer for authentication, and the layer that answers the preflight
/// requests of browsers, around this layer. A cache around this layer answers reads that the gate
/// never sees, so let the service send `Cache-Control: no-store`.
#[derive(Clone, Debug)]
pub struct FenceLayer {
    gate: Gate,
}

impl FenceLayer {
    /// A layer for a service whose whole work one lock protects. Keep the gate, to ask it again
    /// where the work is done.
    pub fn new(gate: impl Into<Arc<FenceGate>>) -> Self {
        Self { gate: Gate::One(gate.into()) }
    }

    /// A layer with a lock for each request, which `lock_of` names. The layer never takes the name
    /// from the sequencer of the request, so it refuses the holder of another lock. If `lock_of`
    /// returns `None`, no request passes.
    ///
    /// `lock_of` has to find the same resource as the service. A path has several spellings
    /// (`/stock/%34%32`), and none of them may lead `lock_of` and the service to different
    /// resources.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use lockkeeper::fence::{FenceLayer, KeyedFenceGate};
    ///
    /// let gate = Arc::new(KeyedFenceGate::new());
    /// // /stock/42 is protected by the lock "stock/42".
    /// let layer = FenceLayer::keyed(gate, |request| request.uri.path().strip_prefix('/')?.parse().ok());
    /// ```
    pub fn keyed(
        gate: impl Into<Arc<KeyedFenceGate>>,
        lock_of: impl Fn(&Parts) -> Option<LockName> + Send + Sync + 'static,
    ) -> Self {
        Self { gate: Gate::Keyed(gate.into(), Arc::new(lock_of)) }
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FenceService { gate: self.gate.clone(), inner }
    }
}

/// A service behind a gate; made by [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct FenceService<S> {
    gate: Gate,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for FenceService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: From<String>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = FenceFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let answer = match self.gate.pass(&parts) {
            Ok(sequencer) => {
                parts.extensions.insert(sequencer);
                Answer::Passed { answer: self.inner.call(Request::from_parts(parts, body)) }
            }
            Err(refusal) => Answer::Refused { answer: ready(refusal.answer()) },
        };
        FenceFuture { answer }
    }
}

pin_project! {
    /// The future of a [`FenceService`]: the answer of the service, or of the gate.
    #[derive(Debug)]
    pub struct FenceFuture<F, B> {
        #[pin]
        answer: Answer<F, B>,
    }
}

pin_project! {
    #[project = AnswerProjected]
    #[derive(Debug)]
    enum Answer<F, B> {
        Passed { #[pin] answer: F },
        Refused { answer: Ready<Response<B>> },
    }
}

impl<F, B, E> Future for FenceFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().answer.project() {
            AnswerProjected::Passed { answer } => answer.poll(cx),
            AnswerProjected::Refused { answer } => Pin::new(answer).poll(cx).map(Ok),
        }
    }
}

#[derive(Clone)]
enum Gate {
    One(Arc<FenceGate>),
    Keyed(Arc<KeyedFenceGate>, Arc<LockOf>),
}

type LockOf = dyn Fn(&Parts) -> Option<LockName> + Send + Sync;

impl Gate {
    fn pass(&self, request: &Parts) -> Result<Sequencer, Refusal> {
        let lock = self.lock_of(request);
        let sequencer =
            read(&request.headers).map_err(|problem| Refusal::unread(&problem, lock.as_ref()))?;
        let lock = lock.ok_or_else(|| Refusal::unprotected(&sequencer))?;
        let verdict = match self {
            Self::One(gate) => gate.admit(&sequencer),
            Self::Keyed(gate, _) => gate.admit_for(&lock, &sequencer),
        };
        verdict.map_err(|stale| Refusal::failed(stale.to_string()))?;
        Ok(sequencer)
    }

    /// The lock that protects the resource of the request.
    fn lock_of(&self, request: &Parts) -> Option<LockName> {
        match self {
            Self::One(gate) => Some(gate.name().clone()),
            Self::Keyed(_, lock_of) => lock_of(request),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(gate) => gate.fmt(f),
            Self::Keyed(gate, _) => gate.fmt(f),
        }
    }
}

/// The sequencer, or the fault of its header. A request with two headers is refused: the service
/// might read the other header than the gate did.
fn read(headers: &HeaderMap) -> Result<Sequencer, String> {
    let mut values = headers.get_all(LOCK_SEQUENCER).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err("the header Lock-Sequencer is missing".to_owned()),
        (Some(_), Some(_)) => {
            return Err("the header Lock-Sequencer is there more than once".to_owned());
        }
        (Some(value), None) => value,
    };
    let sequencer = value.to_str().ok().and_then(|text| text.parse().ok());
    sequencer.ok_or_else(|| "the header Lock-Sequencer cannot be read".to_owned())
}

struct Refusal {
    status: StatusCode,
    line: String,
}

impl Refusal {
    fn unread(problem: &str, lock: Option<&LockName>) -> Self {
        let lock = lock.map_or_else(
            || "the lock of this resource".to_owned(),
            |lock| format!("the lock {lock:?}"),
        );
        let line = format!(
            "{problem}. Try: acquire {lock}, and send its sequencer as it was printed \
             (like lk1.x.1763705000000123.stock%2F42) with every request, reads too"
        );
        Self { status: StatusCode::PRECONDITION_REQUIRED, line }
    }

    fn unprotected(sequencer: &Sequencer) -> Self {
        Self::failed(format!(
            "{sequencer} is of no use here: no lock is known for the resource of this request. \
             Try: the address of a resource that a lock protects"
        ))
    }

    fn failed(line: String) -> Self {
        Self { status: StatusCode::PRECONDITION_FAILED, line }
    }

    fn answer<B: From<String>>(self) -> Response<B> {
        let mut answer = Response::new(B::from(self.line + "\n"));
        *answer.status_mut() = self.status;
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Method;
    use tower::ServiceExt;

    use super::*;

    /// The service behind the gate: it answers with the sequencer that it received.
    async fn serve(request: Request<()>) -> Result<Response<String>, Infallible> {
        Ok(Response::new(request.extensions().get::<Sequencer>().unwrap().to_string()))
    }

    async fn send(layer: &FenceLayer, request: Request<()>) -> (u16, String) {
        let answer = layer.layer(tower::service_fn(serve)).oneshot(request).await.unwrap();
        let plain = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "text/plain; charset=utf-8");
        assert_eq!(plain, !answer.status().is_success());
        (answer.status().as_u16(), answer.into_body())
    }

    fn request(path: &str, headers: &[&[u8]]) -> Request<()> {
        let mut request = Request::get(path).body(()).unwrap();
        for value in headers {
            request.headers_mut().append("Lock-Sequencer", HeaderValue::from_bytes(value).unwrap());
        }
        request
    }

    fn one() -> (Arc<FenceGate>, FenceLayer) {
        let gate = Arc::new(FenceGate::new("a".parse().unwrap()));
        (gate.clone(), FenceLayer::new(gate))
    }

    fn keyed() -> FenceLayer {
        FenceLayer::keyed(KeyedFenceGate::new(), |request| {
            request.uri.path().strip_prefix('/')?.parse().ok()
        })
    }

    #[tokio::test]
    async fn every_method_is_checked_and_a_read_shuts_out_older_holders() {
        for method in
            [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::TRACE]
        {
            let (_, layer) = one();
            for (sequencer, status) in
                [(&b"lk1.x.7.a"[..], 200), (b"lk1.x.6.a", 412), (b"lk1.x.7.a", 200)]
            {
                let mut request = request("/", &[sequencer]);
                *request.method_mut() = method.clone();
                let (got, text) = send(&layer, request).await;
                assert_eq!(got, status, "{method}: {text}");
            }
            let mut bare = request("/", &[]);
            *bare.method_mut() = method;
            assert_eq!(send(&layer, bare).await.0, 428);
        }
    }

    #[tokio::test]
    async fn what_is_missing_unreadable_or_ambiguous_is_required() {
        let (gate, layer) = one();
        let cases: [(&[&[u8]], &str); 6] = [
            (
                &[],
                "the header Lock-Sequencer is missing. Try: acquire the lock \"a\", and send its sequencer",
            ),
            (&[b""], "the header Lock-Sequencer cannot be read. Try: "),
            (&[b"7"], "the header Lock-Sequencer cannot be read. Try: "),
            (&[b"lk1.x.7.a, lk1.x.8.a"], "the header Lock-Sequencer cannot be read. Try: "),
            (&[b"lk1.x.7.\xff"], "the header Lock-Sequencer cannot be read. Try: "),
            (
                &[b"lk1.x.7.a", b"lk1.x.7.a"],
                "the header Lock-Sequencer is there more than once. Try: ",
            ),
        ];
        for (headers, begin) in cases {
            let (status, text) = send(&layer, request("/", headers)).await;
            assert_eq!(status, 428, "{text}");
            assert!(
                text.starts_with(begin) && text.ends_with(" too\n") && text.lines().count() == 1,
                "{text}"
            );
        }
        assert_eq!(gate.marks(), super::super::Marks::default());
    }

    #[tokio::test]
    async fn what_is_old_or_of_another_lock_or_of_permits_fails() {
        let (_, layer) = one();
        let (status, text) = send(&layer, request("/", &[b"lk1.s.7.a"])).await;
        assert_eq!((status, &*text), (200, "lk1.s.7.a"));
        for (sequencer, text) in [
            (&b"lk1.x.6.a"[..], "lk1.x.6.a is stale: the resource has seen token 7. Try: "),
            (
                b"lk1.x.8.b",
                "lk1.x.8.b belongs to another lock: this resource is protected by \"a\". Try: ",
            ),
            (b"lk1.p2.8.a", "lk1.p2.8.a cannot be checked by a gate: "),
        ] {
            let (status, answer) = send(&layer, request("/", &[sequencer])).await;
            assert_eq!(status, 412);
            assert!(
                answer.starts_with(text) && answer.ends_with('\n') && answer.lines().count() == 1,
                "{answer}"
            );
        }
        assert_eq!(
            send(&layer, request("/", &[b"lk1.s.6.a"])).await.0,
            200,
            "a reader beside a younger one"
        );
    }

    #[tokio::test]
    async fn each_request_has_the_lock_of_its_own_resource() {
        let layer = keyed();
        for (path, sequencer, status) in [
            ("/a", &b"lk1.x.9.a"[..], 200),
            ("/b", b"lk1.x.3.b", 200),
            ("/a", b"lk1.x.8.a", 412),
            ("/b", b"lk1.x.99.a", 412),
            ("/b", b"lk1.x.3.b", 200),
            ("/", b"lk1.x.9.a", 412),
        ] {
            let (got, text) = send(&layer, request(path, &[sequencer])).await;
            assert_eq!(got, status, "{path}: {text}");
        }
        let (_, text) = send(&layer, request("/b", &[b"lk1.x.99.a"])).await;
        assert!(text.contains("protected by \"b\""), "{text}");
        let (_, text) = send(&layer, request("/", &[b"lk1.x.9.a"])).await;
        assert!(text.starts_with("lk1.x.9.a is of no use here: no lock is known for"), "{text}");
        let (status, text) = send(&layer, request("/", &[])).await;
        assert_eq!(status, 428);
        assert!(text.contains("acquire the lock of this resource"), "{text}");
    }

    #[tokio::test]
    async fn all_clones_share_one_gate() {
        let (gate, layer) = one();
        assert_eq!(send(&layer.clone(), request("/", &[b"lk1.x.7.a"])).await.0, 200);
        gate.admit(&"lk1.x.8.a".parse().unwrap()).unwrap();
        assert_eq!(send(&layer, request("/", &[b"lk1.x.7.a"])).await.0, 412);
    }
}
