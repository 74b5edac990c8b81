//! A proxy that makes faults between a server and its clients.
//!
//! The proxy splits the stream into messages: RESP if both sides speak it ([`Proxy::resp`]), and
//! otherwise the bytes of each read ([`Proxy::raw`]). Faults are of two kinds. The *fault profile*
//! is the same for all connections and can change at any time ([`delay`](Proxy::delay),
//! [`hold`](Proxy::hold), [`black_hole`](Proxy::black_hole), …). A function decides the fate of
//! single messages ([`on_request`](Proxy::on_request), [`on_reply`](Proxy::on_reply)).

mod act;
mod connection;
mod fates;
mod pipe;
mod resp;

use std::fmt;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

pub use self::act::{Act, Message, Seen, Way};
use self::act::{TO_CLIENT, TO_SERVER};
use self::connection::End;
use crate::port;
use crate::process::TIME_LIMIT;

type Hook = Box<dyn FnMut(&Message<'_>) -> Act + Send>;

/// How often another port is tried when another process was faster.
const PORTS: usize = 20;

/// A proxy before one server, on the thread of all proxies. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Mutex<Option<Arc<TcpListener>>>,
}

/// The state that the connections share.
struct Shared {
    target: Mutex<SocketAddr>,
    /// Whether messages are RESP.
    resp: bool,
    fault_profile: [watch::Sender<FaultProfile>; 2],
    hooks: [Mutex<Option<Hook>>; 2],
    /// Incremented to release the held messages.
    releases: watch::Sender<u64>,
    /// Raised to end all connections.
    ends: watch::Sender<(u64, End)>,
    seen: watch::Sender<Seen>,
}

/// The faults for all traffic in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct FaultProfile {
    delay: Duration,
    hold: bool,
    swallow: bool,
    slices: Option<(usize, Duration)>,
}

impl Proxy {
    /// A proxy that knows the messages of RESP.
    ///
    /// # Errors
    /// When no port is free.
    pub fn resp(target: SocketAddr) -> Result<Self> {
        Self::start(target, true)
    }

    /// A proxy without a protocol; the traffic may be encrypted. A message has the bytes of one
    /// read, or fewer.
    ///
    /// # Errors
    /// When no port is free.
    pub fn raw(target: SocketAddr) -> Result<Self> {
        Self::start(target, false)
    }

    fn start(target: SocketAddr, resp: bool) -> Result<Self> {
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            resp,
            fault_profile: [(); 2].map(|()| watch::Sender::default()),
            hooks: [(); 2].map(|()| Mutex::default()),
            releases: watch::Sender::default(),
            ends: watch::Sender::default(),
            seen: watch::Sender::default(),
        });
        for _ in 0..PORTS {
            let address = (Ipv4Addr::LOCALHOST, port::free()?).into();
            if let Ok(listener) = listen(&shared, address) {
                return Ok(Self { shared, address, listener: Mutex::new(Some(listener)) });
            }
        }
        Err(anyhow!("{PORTS} ports were taken by somebody else before a proxy had them"))
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of [`address`](Self::address).
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sends new connections to another server from now on.
    pub fn set_target(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Delays all traffic in this direction. No message overtakes another.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.change(way, |fault_profile| fault_profile.delay = delay);
    }

    /// Holds all traffic in this direction until [`release`](Self::release), like a network that
    /// drops packets for a while. The end of a connection waits too.
    pub fn hold(&self, way: Way) {
        self.change(way, |fault_profile| fault_profile.hold = true);
    }

    /// Releases all held traffic, of the fault profile and of single messages.
    pub fn release(&self) {
        self.change(Way::Both, |fault_profile| fault_profile.hold = false);
        self.shared.releases.send_modify(|releases| *releases += 1);
    }

    /// Swallows all traffic in this direction, and the end of a connection too. The connections
    /// stay open.
    pub fn black_hole(&self, way: Way) {
        self.change(way, |fault_profile| fault_profile.swallow = true);
    }

    /// Lets through this many bytes at a time, with a pause after each part.
    pub fn slow(&self, way: Way, bytes: usize, pause: Duration) {
        self.change(way, |fault_profile| fault_profile.slices = Some((bytes.max(1), pause)));
    }

    /// Ends all faults of the profile, and releases the held traffic. Swallowed traffic stays lost.
    /// The functions of [`on_request`](Self::on_request) and [`on_reply`](Self::on_reply) stay.
    pub fn heal(&self) {
        self.change(Way::Both, |fault_profile| *fault_profile = FaultProfile::default());
        self.release();
    }

    /// Decides the fate of each message to the server, from now on.
    pub fn on_request(&self, decide: impl FnMut(&Message<'_>) -> Act + Send + 'static) {
        *lock(&self.shared.hooks[TO_SERVER]) = Some(Box::new(decide));
    }

    /// Decides the fate of each message to a client, from now on.
    pub fn on_reply(&self, decide: impl FnMut(&Message<'_>) -> Act + Send + 'static) {
        *lock(&self.shared.hooks[TO_CLIENT]) = Some(Box::new(decide));
    }

    /// Removes both functions.
    pub fn on_nothing(&self) {
        self.shared.hooks.iter().for_each(|hook| *lock(hook) = None);
    }

    /// Closes all connections, like a process that closes them.
    pub fn cut(&self) {
        self.shared.ends.send_modify(|(number, how)| (*number, *how) = (*number + 1, End::Cut));
    }

    /// Resets all connections, like a machine that no longer knows them.
    pub fn reset(&self) {
        self.shared.ends.send_modify(|(number, how)| (*number, *how) = (*number + 1, End::Reset));
    }

    /// Refuses new connections at once. Open connections stay.
    pub fn refuse(&self) {
        if let Some(listener) = lock(&self.listener).take() {
            // The task reacts too late for a client that connects now.
            let _ = SockRef::from(&*listener).shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    ///
    /// # Errors
    /// If another process has taken the port.
    pub fn accept(&self) -> Result<()> {
        let mut listener = lock(&self.listener);
        if listener.is_none() {
            *listener = Some(listen(&self.shared, self.address)?);
        }
        Ok(())
    }

    /// The numbers so far.
    pub fn seen(&self) -> Seen {
        *self.shared.seen.borrow()
    }

    /// Waits for a condition on the numbers.
    ///
    /// # Errors
    /// After 180 s, with the numbers at that time.
    pub async fn until(&self, what: impl FnMut(&Seen) -> bool + Send) -> Result<Seen> {
        let mut seen = self.shared.seen.subscribe();
        let found = tokio::time::timeout(TIME_LIMIT, seen.wait_for(what))
            .await
            .map(|seen| seen.map(|seen| *seen));
        match found {
            Ok(seen) => Ok(seen?),
            Err(_) => Err(anyhow!(
                "a proxy did not see it within {TIME_LIMIT:?}. It has seen {:?}",
                self.seen()
            )),
        }
    }

    /// Like [`until`](Self::until), for tests without async.
    ///
    /// # Errors
    /// As for [`until`](Self::until).
    pub fn wait_until(&self, what: impl FnMut(&Seen) -> bool + Send) -> Result<Seen> {
        runtime()?.block_on(self.until(what))
    }

    fn change(&self, way: Way, change: impl Fn(&mut FaultProfile)) {
        for way in way.each() {
            self.shared.fault_profile[*way].send_modify(&change);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("target", &self.target)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// The thread of all proxies: a test that blocks its own runtime does not block them.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .thread_name("proxies")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|error| anyhow!("no thread for proxies: {error}"))
}

/// Listens, and serves each client, until the listener is shut down.
fn listen(shared: &Arc<Shared>, address: SocketAddr) -> Result<Arc<TcpListener>> {
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = Arc::new(socket.listen(1024)?);
    runtime.spawn(accept_all(Arc::clone(&listener), Arc::clone(shared)));
    Ok(listener)
}

async fn accept_all(listener: Arc<TcpListener>, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        // The subscription comes before the count: a caller that sees the count may end the
        // connection.
        let ends = shared.ends.subscribe();
        shared.seen.send_modify(|seen| {
            (seen.connections, seen.open) = (seen.connections + 1, seen.open + 1)
        });
        let (number, shared) = (shared.seen.borrow().connections, Arc::clone(&shared));
        tokio::spawn(async move {
            connection::serve(client, number, &shared, ends).await;
            shared.seen.send_modify(|seen| seen.open -= 1);
        });
    }
}

/// Locks a mutex whether a thread has panicked with it or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
