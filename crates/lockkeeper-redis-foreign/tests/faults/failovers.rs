//! Another server becomes the master: chosen by Sentinels, or the replica of a node of a Cluster.
//! Slots move to another node. Redis replicates later than it answers, so a new master may lack a
//! lock. The waiters get it in any case, and nothing is left behind.

use std::time::{Duration, Instant};

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::{ErrorKind, Guard, Keeper};
use lockkeeper_live::{Cluster, Redis, Sentinel};
use tokio::task::JoinHandle;

use crate::support::{LONG, TIME_LIMIT, channel, name, within};

/// Sentinels on a busy machine mistake a pause for a changed clock, and then do nothing for 30 s
/// (TILT).
const LEASE: Duration = Duration::from_secs(300);
/// A waiter looks at the lock each 5 s. A message comes at once.
const BY_MESSAGE: Duration = Duration::from_secs(2);
/// A slow machine gets this many chances.
const CHANCES: usize = 20;
/// Layouts whose waiters wait in different ways.
const LAYOUTS: [Layout; 3] = [Layout::Plain, Layout::Redisson, Layout::RedissonRw];

async fn keeper(url: &str, layout: Layout) -> Keeper {
    let watchdog = if layout == Layout::RedissonRw { "&watchdog=2h" } else { "" };
    let url = format!("{url}?layout={}{watchdog}", layout.name());
    Keeper::from_url(&*url).unwrap().ttl(LEASE).connect().await.unwrap()
}

/// How many clients listen for the release of a lock, on all of these servers that run.
fn listeners(servers: &[Redis], layout: Layout, name: &str) -> u64 {
    let (channel, mut all) = (channel(layout, name), 0);
    for command in ["NUMSUB", "SHARDNUMSUB"] {
        let asked = servers.iter().filter_map(|server| {
            server.query::<(String, u64)>(&["PUBSUB", command, &channel]).ok()
        });
        all += asked.map(|(_, count)| count).sum::<u64>();
    }
    all
}

/// Waits until so many clients listen.
async fn until_listening(servers: &[Redis], layout: Layout, name: &str, count: u64) {
    let listening = async {
        while listeners(servers, layout, name) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(TIME_LIMIT, listening).await;
}

/// A client that holds a lock, and one that waits for it.
struct Line {
    layout: Layout,
    name: String,
    holder: Keeper,
    other: Keeper,
    guard: Guard,
    waiting: JoinHandle<lockkeeper::Result<Guard>>,
}

impl Line {
    async fn new(url: &str, servers: &[Redis], layout: Layout) -> Self {
        let (holder, other) = (keeper(url, layout).await, keeper(url, layout).await);
        let name = name();
        let guard = within(TIME_LIMIT, holder.mutex(&*name).unwrap().lock()).await.unwrap();
        let waiting = waiter(servers, &other, layout, &name).await;
        Self { layout, name, holder, other, guard, waiting }
    }

    /// Renews until the state of the lock is known.
    async fn is_held(&self) -> bool {
        let look = async {
            loop {
                match self.guard.renew_once().await {
                    Ok(()) => return true,
                    Err(error) if error.lost_reason().is_some() => return false,
                    Err(_) => {}
                }
            }
        };
        within(TIME_LIMIT, look).await
    }

    /// Asserts that the lock is held, by the token of the guard, and by no other client.
    async fn stays(&self) {
        assert!(self.is_held().await, "{:?}: the new master has it", self.layout);
        let info = within(TIME_LIMIT, self.other.inspect(&*self.name)).await.unwrap();
        assert_eq!(info.holders[0].token, Some(self.guard.token()), "{:?}", self.layout);
        let tried = within(TIME_LIMIT, self.other.mutex(&*self.name).unwrap().try_lock()).await;
        assert!(tried.unwrap().is_none() && !self.waiting.is_finished(), "{:?}", self.layout);
    }

    /// The waiter gets the lock, and the next ones get it by messages of the present servers. Then
    /// no client listens any more, and each key has an end.
    async fn goes_on(self, servers: &[Redis]) {
        let Self { layout, name, holder, other, guard, waiting } = self;
        let token = guard.token();
        match guard.check() {
            Ok(()) => within(TIME_LIMIT, guard.release()).await.unwrap(),
            Err(_) => {
                let released = within(TIME_LIMIT, guard.release()).await;
                assert_eq!(released.unwrap_err().kind(), ErrorKind::Lost);
            }
        }
        let mut guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        assert!(guard.token() > token, "{layout:?}: {} after {token}", guard.token());
        let mut took = Vec::new();
        for chance in 0..CHANCES {
            let next = if chance % 2 == 0 { &holder } else { &other };
            let waiting = waiter(servers, next, layout, &name).await;
            let released = Instant::now();
            guard.release().await.unwrap();
            guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
            took.push(released.elapsed());
            if released.elapsed() < BY_MESSAGE {
                break;
            }
        }
        assert!(took.last() < Some(&BY_MESSAGE), "{layout:?}: no message has come: {took:?}");
        guard.release().await.unwrap();
        until_listening(servers, layout, &name, 0).await;
        is_gone(servers, &name).await;
    }
}

/// A client that waits for a held lock: it listens, and no other client does.
async fn waiter(
    servers: &[Redis],
    keeper: &Keeper,
    layout: Layout,
    name: &str,
) -> JoinHandle<lockkeeper::Result<Guard>> {
    // The subscription of an earlier waiter stays for a second.
    until_listening(servers, layout, name, 0).await;
    let mutex = keeper.mutex(name).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_listening(servers, layout, name, 1).await;
    waiting
}

/// Waits until no server has the lock. All other keys of its name end by themselves.
async fn is_gone(servers: &[Redis], name: &str) {
    let has = |server: &Redis| server.query::<u32>(&["EXISTS", name]).unwrap_or(0) == 1;
    let gone = async {
        while servers.iter().any(has) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(TIME_LIMIT, gone).await;
    for server in servers.iter().filter(|server| server.is_up()) {
        for key in server.query::<Vec<String>>(&["KEYS", &format!("*{name}*")]).unwrap() {
            let is_read = server.query::<i64>(&["PTTL", &key]);
            assert_ne!(is_read.unwrap_or(0), -1, "{key} has no end");
        }
    }
}

/// Waits until the replica has all acknowledged writes of this master.
fn until_replicated(master: &Redis, mark: &str) {
    let mut connection = master.connect().unwrap();
    redis::cmd("SET").arg(mark).arg("").arg("EX").arg(60).exec(&mut connection).unwrap();
    let replicas: u32 = redis::cmd("WAIT").arg(1).arg(9000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1, "the replica does not follow");
}

/// The Sentinels choose another master, which has the lock: the holder keeps it with its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_loses_nothing_keeps_the_lock_and_wakes_the_waiter() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    let mut lines = Vec::new();
    for layout in LAYOUTS {
        lines.push(Line::new(&sentinel.url(), sentinel.servers(), layout).await);
    }
    until_replicated(&sentinel.servers()[0], "mark");
    assert_eq!(sentinel.fail_over().unwrap(), 1);
    for line in lines {
        line.stays().await;
        line.goes_on(sentinel.servers()).await;
    }
}

/// The replica has none of the grants when the master is killed: the holders learn that they have
/// lost their locks, and the waiters get them, with higher tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_loses_the_lock_lets_the_waiter_in() {
    let mut sentinel = Sentinel::start().unwrap();
    let url = sentinel.url();
    until_replicated(&sentinel.servers()[0], "mark");
    // The server is stopped, so that it does not come back at once when its connection ends.
    sentinel.server(1).pause().unwrap();
    sentinel.servers()[0].run(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    let mut lines = Vec::new();
    for layout in LAYOUTS {
        lines.push(Line::new(&url, &sentinel.servers()[..1], layout).await);
    }
    sentinel.server(0).kill().unwrap();
    sentinel.server(1).resume().unwrap();
    sentinel.wait_for_other_master(0).unwrap();
    for line in lines {
        assert!(!line.is_held().await, "{:?}: nobody has told the replica", line.layout);
        line.goes_on(&sentinel.servers()[1..]).await;
    }
}

/// A slot goes to another node, with a pause between its keys, while a lock in it is held and
/// waited for. Then the replica of that node takes its place. The lock stays with its holder each
/// time, and the waiters get messages of the present node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_and_a_master_that_gives_way_take_the_locks_along() {
    let cluster = Cluster::builder().node_timeout(LONG).start().unwrap();
    for layout in LAYOUTS {
        let line = Line::new(&cluster.url(), cluster.nodes(), layout).await;
        let slot = cluster.slot_of(&line.name).unwrap();
        let from = cluster.owner(slot).unwrap();
        let to = (from + 1) % 3;
        cluster.begin_move(slot, from, to).unwrap();
        for key in [line.name.clone(), format!("lkf:{{{}}}", line.name)] {
            cluster.move_key(&key, from, to).unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            line.guard.check().unwrap();
        }
        cluster.move_keys(slot, from, to).unwrap();
        cluster.end_move(slot, from, to).unwrap();
        line.stays().await;
        line.goes_on(cluster.nodes()).await;
    }
    let mut lines = Vec::new();
    for layout in LAYOUTS {
        lines.push(Line::new(&cluster.url(), cluster.nodes(), layout).await);
    }
    for line in lines {
        let owner = cluster.owner(cluster.slot_of(&line.name).unwrap()).unwrap();
        until_replicated(&cluster.nodes()[owner], &format!("{{{}}}mark", line.name));
        cluster.fail_over(owner).unwrap();
        line.stays().await;
        line.goes_on(cluster.nodes()).await;
    }
}
