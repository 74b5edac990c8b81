//! Lists of many locks: their cost, and where they go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper::Guard;
use lockkeeper::store::{Claim, ClaimId, ClaimKey, MAX, Meta, SessionId, SessionSpec, Store as _};
use lockkeeper_live::{Act, Proxy, Redis};

use crate::support::{UNRENEWED, keeper, store};

/// More locks than one answer has.
const LOCKS: usize = 1000;
/// How often a client goes to another server.
const MOVES: usize = 10;

/// One request for 500 names, beside one for 10 000 keys: of a whole list, and of each page of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_takes_one_request_for_500_names_on_redis() {
    const NAMES: usize = 2200;
    const PAGE: usize = 500;
    let server = Redis::start().unwrap();
    server.run(&["EVAL", "for i=1,25000 do redis.call('SET','other:'..i,'') end", "0"]).unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    let (holder, looker) = (store(server.address()).await, store(proxy.address()).await);
    let session = SessionId::random();
    holder
        .open(&session, &SessionSpec::new(Duration::from_secs(600), Duration::ZERO))
        .await
        .unwrap();
    for number in 0..NAMES {
        let key = ClaimKey {
            name: format!("many/{number:04}").parse().unwrap(),
            session: session.clone(),
            id: ClaimId::random(),
        };
        holder.claim(&claim(key)).await.unwrap();
    }
    let admin = looker.admin().unwrap();
    let (scans, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (scanned, read) = (Arc::clone(&scans), Arc::clone(&reads));
    proxy.on_request(move |request| {
        scanned.fetch_add(usize::from(request.is("SCAN")), Ordering::SeqCst);
        read.fetch_add(usize::from(request.is("EVALSHA")), Ordering::SeqCst);
        Act::Pass
    });
    let count = || (scans.swap(0, Ordering::SeqCst), reads.swap(0, Ordering::SeqCst));
    // The server has the script after the first call.
    admin.lines("many/", None, 1).await.unwrap();
    count();
    assert_eq!(admin.lines("many/", None, usize::MAX).await.unwrap().len(), NAMES);
    let (scans, reads) = count();
    assert!(
        scans <= (25_000 + NAMES).div_ceil(10_000) + 1 && reads <= NAMES.div_ceil(PAGE),
        "{scans}, {reads}"
    );
    let (mut shown, mut after) = (0, None);
    loop {
        let page = admin.lines("many/", after.as_ref(), PAGE).await.unwrap();
        assert!(count().1 <= 1, "a page of {} names", page.len());
        shown += page.len();
        after = page.last().map(|(name, _)| name.clone());
        if page.len() < PAGE {
            break;
        }
    }
    assert_eq!(shown, NAMES);
}

/// One answer cannot hold all of these lines: they are asked for again together, and one that is
/// too long alone.
#[tokio::test]
async fn long_lines_are_listed_with_few_requests() {
    const LOCKS: usize = 40;
    let server = Redis::start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    let (holder, looker) = (store(server.address()).await, store(proxy.address()).await);
    let session = SessionId::random();
    holder
        .open(&session, &SessionSpec::new(Duration::from_secs(600), Duration::ZERO))
        .await
        .unwrap();
    for number in 0..LOCKS {
        // Of 100 kB each, so that ten of them are 1 MiB; and one of 2 MB.
        let size = if number == 7 { 2_000_000 } else { 100_000 };
        let name = format!("long/{number:02}").parse().unwrap();
        let mut claim = claim(ClaimKey { name, session: session.clone(), id: ClaimId::random() });
        claim.meta.value = Some(vec![b'v'; size].into());
        holder.claim(&claim).await.unwrap();
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&reads);
    proxy.on_request(move |request| {
        read.fetch_add(usize::from(request.is("EVALSHA") || request.is("EVAL")), Ordering::SeqCst);
        Act::Pass
    });
    let lines = looker.admin().unwrap().lines("long/", None, 100).await.unwrap();
    assert_eq!(lines.len(), LOCKS);
    let sizes = lines
        .iter()
        .map(|(_, line)| line.as_ref().unwrap().entries[0].meta.value.as_ref().unwrap().len());
    assert_eq!(sizes.sum::<usize>(), 39 * 100_000 + 2_000_000);
    let reads = reads.load(Ordering::SeqCst);
    assert!(reads < LOCKS / 3, "{reads} requests");
}

fn claim(key: ClaimKey) -> Claim {
    Claim {
        key,
        ttl: Duration::from_secs(600),
        wait_ttl: Duration::from_secs(5),
        lock_delay: Duration::ZERO,
        weight: MAX,
        capacity: MAX,
        queue: true,
        resend: false,
        replaces: None,
        max_waiters: 10,
        meta: Meta::default(),
    }
}

/// Another server answers in the middle of a list. What the first one said of where to go on means
/// nothing there, so that all of the second one is looked at. One thread: the connection is known
/// to be lost before the next request is made.
#[tokio::test]
async fn a_list_that_continues_at_another_server_misses_no_lock() {
    let (first, second) = (Redis::start().unwrap(), Redis::start().unwrap());
    // Of others, and more than one request looks at.
    first.run(&["EVAL", "for i=1,30000 do redis.call('SET','other:'..i,'') end", "0"]).unwrap();
    let holder = keeper(second.address(), UNRENEWED).await;
    let mut guards: Vec<Guard> = Vec::new();
    for number in 0..LOCKS {
        guards.push(holder.mutex(format!("many/{number}")).unwrap().lock().await.unwrap());
    }
    let mut is_moved = false;
    for _ in 0..MOVES {
        let proxy = Proxy::resp(first.address()).unwrap();
        let looker = keeper(proxy.address(), UNRENEWED).await;
        proxy.set_target(second.address());
        // The first connection ends behind the first answer.
        let asked = Arc::new(AtomicBool::new(false));
        let is_asked = Arc::clone(&asked);
        proxy.on_request(move |request| {
            asked.fetch_or(request.connection == 1 && request.is("SCAN"), Ordering::SeqCst);
            Act::Pass
        });
        proxy.on_reply(move |reply| {
            match reply.connection == 1 && is_asked.load(Ordering::SeqCst) {
                true => Act::CutAfter,
                false => Act::Pass,
            }
        });
        // A request before the loss was noticed ends with an unknown outcome.
        if let Ok(listed) = looker.admin().unwrap().list("", usize::MAX).await {
            is_moved |= proxy.seen().connections > 1;
            assert_eq!(listed.len(), LOCKS);
        }
    }
    assert!(is_moved, "no list went on at another server");
}
