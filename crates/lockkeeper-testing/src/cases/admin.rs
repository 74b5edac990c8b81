//! The view and the operations of an administrator.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;

use crate::{Case, Contender, Ttls};
use lockkeeper::LockName;
use lockkeeper::store::{
    Amend, Amended, Broken, Evict, Evicted, LiveState, Renewal, Target, Verdict,
};

async fn evict(contender: &Contender, target: Target, how: Evict) -> Evicted {
    let admin = contender.client.store.admin().unwrap();
    admin.evict(&contender.claim.key.name, &target, how, "op", "stuck").await.unwrap()
}

fn broken() -> Broken {
    Broken { by: "op".into(), reason: "stuck".into(), removed: false }
}

/// The names in use are listed by prefix, sorted by their bytes, and cut off at the limit.
pub async fn names_are_sorted_and_limited(case: &Case) {
    let client = case.client(Ttls::long()).await;
    for name in ["b/2", "b/10", "a/1", "b", "c/1", "B/1", "b/é", "b%1", "b_1"] {
        client.mutex(&case.name(name)).granted().await;
    }
    let admin = client.store.admin().unwrap();
    let list = async |prefix: &str, limit| {
        let prefix = format!("{}{prefix}", case.prefix());
        let lines = admin.lines(&prefix, None, limit).await.unwrap();
        lines.iter().map(|(n, _)| n.as_str()[case.prefix().len()..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("b/", 100).await, ["b/10", "b/2", "b/é"]);
    assert_eq!(list("b/", 2).await, ["b/10", "b/2"]);
    assert_eq!(list("", 3).await, ["B/1", "a/1", "b"]);
    assert_eq!(list("b%", 100).await, ["b%1"]);
    assert_eq!(list("b_", 100).await, ["b_1"]);
    assert!(list("x", 100).await.is_empty());
    assert!(list("b/", 0).await.is_empty());
}

/// A name is listed while its line has a live claim. A look at a name does not list it.
pub async fn only_names_in_use_are_listed(case: &Case) {
    let [a] = case.mutexes("left").await;
    let dead = case.mutex("dead", case.short()).await;
    let [looked_at] = case.mutexes("looked at").await;
    a.granted().await;
    dead.granted().await;
    looked_at.line().await;
    let admin = a.client.store.admin().unwrap();
    let names = async || {
        let lines = admin.lines(case.prefix(), None, 100).await.unwrap();
        lines.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, [case.name("dead"), case.name("left")]);
    a.release().await;
    case.pass(dead.ttls().ttl * 2).await;
    assert!(names().await.is_empty());
}

/// A list shows of each lock the same as a look at that lock: its holders and their ages, and its
/// waiters.
pub async fn a_list_shows_what_a_look_shows(case: &Case) {
    let [holder, waiter] = case.mutexes("waited").await;
    let [alone] = case.mutexes("alone").await;
    let long: String = "long ".repeat(45);
    let [long] = case.mutexes(&long).await;
    holder.granted().await;
    waiter.queued().await;
    alone.granted().await;
    long.granted().await;
    // A store may learn the time of the grant with the first renewal.
    for granted in [&holder, &alone, &long] {
        granted.held().await;
    }
    let store = &holder.client.store;
    let listed = store.admin().unwrap().lines(case.prefix(), None, 100).await.unwrap();
    assert_eq!(listed.len(), 3, "{listed:?}");
    for (name, line) in listed {
        let (line, look) = (line.unwrap(), store.line(&name).await.unwrap());
        assert_eq!((line.revision, line.last_token), (look.revision, look.last_token), "{name}");
        assert_eq!(line.entries.len(), look.entries.len(), "{name}");
        for (listed, looked) in line.entries.iter().zip(&look.entries) {
            assert_eq!(
                (listed.id, listed.granted, listed.token),
                (looked.id, looked.granted, looked.token)
            );
            assert_eq!(
                (&listed.meta, listed.weight, listed.kept),
                (&looked.meta, looked.weight, looked.kept)
            );
            let both = listed.age.zip(looked.age);
            assert!(
                both.is_some_and(|(listed, looked)| listed <= looked + Duration::from_secs(1)),
                "{listed:?}"
            );
            assert_eq!(listed.expires_in.is_some(), looked.expires_in.is_some(), "{listed:?}");
        }
    }
}

/// The store refuses the renewals of a marked holder and names the administrator. The lifetime of
/// the claim does not change. The next claim has the lock only when the holder's guard no longer
/// reports the lock as held.
pub async fn a_mark_refuses_renewals_and_shortens_nothing(case: &Case) {
    let holder = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    let token = holder.granted().await;
    holder.held().await;
    let proven = holder.proven_alive();
    next.queued().await;
    assert_eq!(evict(&holder, Target::Token(token), Evict::Mark).await, Evicted::Done);
    assert_eq!(holder.line().await.entries[0].broken, Some(broken()));
    assert_eq!(holder.renewed().await.unwrap(), Renewal::Lost(Some(broken())));
    let refused = async {
        for _ in 0..8 {
            case.pass(holder.ttls().ttl / 8).await;
            assert!(holder.is_lost().await);
        }
    };
    let (token_of_next, ()) = tokio::join!(next.acquire(), refused);
    let kept = case.since(proven);
    assert!(kept >= holder.ttls().ttl, "the lock was given away after {kept:?}");
    assert!(kept < holder.ttls().ttl * 20, "the refused renewals kept it alive: {kept:?}");
    assert!(token_of_next > token);
}

/// A marked claim that is sent again is `Gone`: its owner must not count on a new lease.
pub async fn a_marked_claim_cannot_be_sent_again(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    b.queued().await;
    evict(&a, Target::Token(token), Evict::Mark).await;
    a.gone().await;
    assert_eq!(a.resend().await, Verdict::Gone);
    a.sees(&[&a, &b], 1).await;
    assert!(matches!(b.resend().await, Verdict::Queued { .. }));
}

/// A marked claim holds the lock until it expires. Until then the claim can be changed, and it
/// stays marked.
pub async fn a_marked_claim_can_be_changed(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    evict(&a, Target::Token(token), Evict::Mark).await;
    assert_eq!(a.amend(Amend::Value(Arc::from(&b"last words"[..]))).await, Amended::Done);
    assert_eq!(a.amend(Amend::Lower(1)).await, Amended::Done);
    let line = b.line().await;
    let entry = &line.entries[0];
    assert_eq!(
        (entry.weight, entry.meta.value.as_deref()),
        (1, Some(&b"last words"[..])),
        "{entry:?}"
    );
    assert!(entry.broken.is_some(), "{entry:?}");
    assert!(matches!(a.renewed().await.unwrap(), Renewal::Lost(_)));
}

/// A marked holder may still release the lock. Then no waiter has to wait until its lease expires.
pub async fn a_marked_holder_can_release(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    let seen = b.queued().await;
    evict(&a, Target::Token(token), Evict::Mark).await;
    tokio::join!(b.wakes_with_its_grant(seen), a.release());
}

/// The removal of a holder frees the lock at once, and wakes the next waiter.
pub async fn a_removal_frees_the_lock_at_once(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    let seen = b.queued().await;
    let removal = evict(&b, Target::Token(token), Evict::Now);
    let (_, removed) = tokio::join!(b.wakes_with_its_grant(seen), removal);
    assert_eq!(removed, Evicted::Done);
    assert!(matches!(a.renewed().await.unwrap(), Renewal::Lost(_)));
    b.sees(&[&b], 1).await;
}

/// A waiter can be removed by the hash that listings show.
pub async fn a_waiter_can_be_removed_by_its_hash(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    c.queued().await;
    let shown = a.line().await.entries[1].id;
    assert_eq!(evict(&a, Target::Id(shown), Evict::Now).await, Evicted::Done);
    a.sees(&[&a, &c], 1).await;
    assert!(matches!(b.renewed_as(LiveState::Queued).await.unwrap(), Renewal::Lost(_)));
}

/// A break finds no claim for a wrong token, for the id of a waiter that left, and for another
/// name.
pub async fn what_is_not_there_is_not_broken(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    b.queued().await;
    b.release().await;
    for how in [Evict::Mark, Evict::Now] {
        for target in [Target::Token(token + 1), Target::Token(token - 1), Target::Id(b.id())] {
            assert_eq!(evict(&a, target.clone(), how).await, Evicted::Absent, "{target:?}");
        }
        let [elsewhere] = case.mutexes("elsewhere").await;
        assert_eq!(evict(&elsewhere, Target::Token(token), how).await, Evicted::Absent);
    }
    assert_eq!(a.held().await, token);
}

/// No listing shows an id, since an id authorises the release.
pub async fn a_listing_never_shows_an_id(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    let shown = format!("{:?}", a.line().await).to_lowercase();
    for contender in [&a, &b] {
        let id = HEXLOWER.encode(contender.claim.key.id.as_bytes());
        assert!(
            !shown.contains(&id) && !shown.contains(contender.client.session.as_str()),
            "{shown}"
        );
    }
}

/// A request to release the lock breaks nothing.
pub async fn asking_for_the_lock_breaks_nothing(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let token = a.granted().await;
    let admin = a.client.store.admin().unwrap();
    assert!(admin.request_release(&a.claim.key.name, "somebody", "a test").await.unwrap());
    assert!(!admin.request_release(&case.name("never used"), "somebody", "a test").await.unwrap());
    assert_eq!(a.held().await, token);
    a.sees(&[&a], 1).await;
}

/// Pages show all names once and in order, if each page begins after the last name of the page
/// before. A page may also begin after a name that is no lock.
pub async fn names_come_in_pages(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let long = "long/".repeat(40);
    let names = ["a/1", "a/2", "a-1", "a.", "a", "b", "B", "é", "z%", &long];
    for name in names {
        client.mutex(&case.name(name)).granted().await;
    }
    let admin = client.store.admin().unwrap();
    let mut expected: Vec<LockName> = names.iter().map(|name| case.name(name)).collect();
    expected.sort();
    for size in [1, 3, 100] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = admin.lines(case.prefix(), after.as_ref(), size).await.unwrap();
            assert!(page.len() <= size);
            all.extend(page.iter().map(|(name, _)| name.clone()));
            assert!(all.len() <= expected.len(), "in pages of {size}: {all:?}");
            after = all.last().cloned();
            if page.len() < size {
                break;
            }
        }
        assert_eq!(all, expected, "in pages of {size}");
    }
    let after = |name: &str| Some(case.name(name));
    let beyond = admin.lines(case.prefix(), after("\u{10ffff}").as_ref(), 100).await.unwrap();
    assert!(beyond.is_empty(), "{beyond:?}");
    let between = admin.lines(case.prefix(), after("a/").as_ref(), 1).await.unwrap();
    assert_eq!(between[0].0, case.name("a/1"));
    let before =
        admin.lines(&format!("{}b", case.prefix()), after("A").as_ref(), 100).await.unwrap();
    assert_eq!(before.len(), 1, "the prefix counts beside the name: {before:?}");
}

/// While locks come and go between the pages, the pages show each lock that stays, and no lock
/// twice.
pub async fn a_listing_in_pages_misses_nothing_that_stays(case: &Case) {
    const SIZE: usize = 4;
    let client = case.client(Ttls::long()).await;
    let contender =
        |kind: &str, number: usize| client.mutex(&case.name(&format!("{number:02}/{kind}")));
    let stay: Vec<_> = (0..20).map(|number| contender("stays", number)).collect();
    let go: Vec<_> = (0..20).map(|number| contender("goes", number)).collect();
    for claim in stay.iter().chain(&go) {
        claim.granted().await;
    }
    let admin = client.store.admin().unwrap();
    let mut shown: Vec<LockName> = Vec::new();
    let mut going = go.iter().enumerate().take(10);
    loop {
        let page = admin.lines(case.prefix(), shown.last(), SIZE).await.unwrap();
        shown.extend(page.iter().map(|(name, _)| name.clone()));
        if page.len() < SIZE {
            break;
        }
        // One lock goes before the page, and one lock comes behind it.
        if let Some((round, goes)) = going.next() {
            goes.release().await;
            contender("comes", 19 - round).granted().await;
        }
    }
    assert!(shown.is_sorted_by(|a, b| a < b), "{shown:?}");
    for claim in &stay {
        assert!(
            shown.contains(&claim.claim.key.name),
            "{} is missing in {shown:?}",
            claim.claim.key.name
        );
    }
}
