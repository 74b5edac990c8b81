//! The links between the members of an etcd. A member can be cut off from the others while its
//! clients still reach it.
//!
//! Each member gets a port of the links for each other member. The links find the process behind a
//! connection in the system's tables, since not all traffic between members carries a name.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::port;
use crate::proxy;

/// How often another port is tried when another process was faster.
const PORTS: usize = 20;

/// How often, and at which pace, the owner of a connection is looked up: the id of a new process
/// arrives soon.
const LOOKS: u32 = 100;
const PACE: Duration = Duration::from_millis(10);

type Cut = watch::Receiver<Vec<bool>>;

/// The links between all members.
#[derive(Debug)]
pub(super) struct Links {
    /// The members that are cut off from all others.
    cut: watch::Sender<Vec<bool>>,
    processes: Arc<Mutex<Vec<u32>>>,
    accepting: Vec<JoinHandle<()>>,
}

impl Links {
    pub(super) fn new(members: usize) -> Self {
        Self {
            cut: watch::Sender::new(vec![false; members]),
            processes: Arc::default(),
            accepting: Vec::new(),
        }
    }

    /// Opens a port that leads to a member.
    pub(super) fn lay(&mut self, member: usize, listens: SocketAddr) -> Result<SocketAddr> {
        let runtime = proxy::runtime()?;
        for _ in 0..PORTS {
            let address = (Ipv4Addr::LOCALHOST, port::free()?).into();
            let Ok(listener) = std::net::TcpListener::bind::<SocketAddr>(address) else { continue };
            listener.set_nonblocking(true)?;
            // The caller may be in a runtime of its own, and cannot wait here.
            let _inside = runtime.enter();
            let listener = TcpListener::from_std(listener)?;
            let end = End {
                member,
                listens,
                cut: self.cut.subscribe(),
                processes: Arc::clone(&self.processes),
            };
            self.accepting.push(runtime.spawn(end.serve(listener)));
            return Ok(address);
        }
        bail!("{PORTS} ports were taken by somebody else before a link had them")
    }

    /// Sets the processes whose connections the links expect.
    pub(super) fn know(&self, processes: Vec<u32>) {
        *proxy::lock(&self.processes) = processes;
    }

    /// Stops all traffic to and from this member, or lets all traffic pass again, including the
    /// traffic that waited.
    pub(super) fn set(&self, member: usize, is_cut: bool) {
        self.cut.send_modify(|cut| cut[member] = is_cut);
    }

    pub(super) fn is_cut(&self, member: usize) -> bool {
        self.cut.borrow()[member]
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // The connections end with the processes, or when a cut member receives no more.
        self.accepting.iter().for_each(JoinHandle::abort);
    }
}

/// The end of the connections to one member.
struct End {
    member: usize,
    listens: SocketAddr,
    cut: Cut,
    processes: Arc<Mutex<Vec<u32>>>,
}

impl End {
    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, other)) = listener.accept().await {
            let (member, listens, cut) = (self.member, self.listens, self.cut.clone());
            let processes = Arc::clone(&self.processes);
            tokio::spawn(async move {
                // A connection is closed if its owner is unknown or gone.
                let Some(from) = whose(other, &processes).await else { return };
                let mut open = cut.clone();
                if pass(&mut open, [from, member]).await.is_none() {
                    return;
                }
                if let Ok(to) = TcpStream::connect(listens).await {
                    join(stream, to, &cut, [from, member]).await;
                }
            });
        }
    }
}

async fn join(one: TcpStream, other: TcpStream, cut: &Cut, ends: [usize; 2]) {
    let _ = one.set_nodelay(true).and(other.set_nodelay(true));
    let ((from_one, to_one), (from_other, to_other)) = (one.into_split(), other.into_split());
    // Each direction ends by itself, and the connection ends with both directions.
    tokio::join!(
        carry(from_one, to_other, cut.clone(), ends),
        carry(from_other, to_one, cut.clone(), ends)
    );
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: Cut, ends: [usize; 2]) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = from.read(&mut buffer).await {
        if pass(&mut cut, ends).await.is_none()
            || length == 0
            || to.write_all(&buffer[..length]).await.is_err()
        {
            break;
        }
    }
}

/// Waits until neither end is cut off. `None` if no further change can come.
async fn pass(cut: &mut Cut, ends: [usize; 2]) -> Option<()> {
    cut.wait_for(|cut| ends.iter().all(|end| !cut[*end])).await.ok().map(|_| ())
}

async fn whose(address: SocketAddr, processes: &Mutex<Vec<u32>>) -> Option<usize> {
    for _ in 0..LOOKS {
        let known = proxy::lock(processes).clone();
        if !known.is_empty()
            && let Some(socket) = socket(&table(Instant::now()).await?, address)
        {
            let owner = move || known.into_iter().position(|process| has(process, &socket));
            return spawn_blocking(owner).await.ok()?;
        }
        sleep(PACE).await;
    }
    None
}

/// The system's table of sockets, read after this instant. One read at a time serves all links: the
/// table is long on a busy machine, the system reads it slowly, and a killed member leaves hundreds
/// of connections to look up.
async fn table(after: Instant) -> Option<Arc<str>> {
    static LAST: tokio::sync::Mutex<Option<(Instant, Arc<str>)>> =
        tokio::sync::Mutex::const_new(None);
    let mut last = LAST.lock().await;
    if let Some((began, table)) = &*last
        && *began >= after
    {
        return Some(Arc::clone(table));
    }
    let began = Instant::now();
    let read = spawn_blocking(|| fs::read_to_string("/proc/net/tcp")).await.ok()?.ok()?;
    let table = Arc::from(read);
    *last = Some((began, Arc::clone(&table)));
    Some(table)
}

/// The name that the system has for the socket with this address.
fn socket(table: &str, address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    let local =
        format!(": {:08X}:{:04X} ", u32::from_ne_bytes(address.ip().octets()), address.port());
    let row = &table[table.find(&local)?..];
    // The first word is the colon after the number of the row.
    Some(format!("socket:[{}]", row.split_whitespace().nth(9)?))
}

fn has(process: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|name| name == Path::new(socket)))
}
