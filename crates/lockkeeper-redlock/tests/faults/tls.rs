//! All traffic is encrypted, and each server has a password of its own.

use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::{Certificates, Redis, RedisBuilder, Redlock, with};

use crate::support::{
    LONG, SLOW, TIME_LIMIT, keeper, lock, name, patiently, renewed, until_waiting, waiter, within,
};

const PASSWORDS: [&str; 3] = ["one", "two", "three"];

/// Servers with these certificates.
fn encrypted(certificates: &[Certificates; 3]) -> Redlock {
    let settings = certificates.iter().map(|own| Redis::builder().tls(own.clone()));
    Redlock::of_each(settings).unwrap()
}

fn certificates() -> Certificates {
    Certificates::new().unwrap()
}

/// The servers ask for a certificate of the client, and each for another password. The waiters get
/// their messages, and a lock outlasts the restart of a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_behind_tls_with_a_password_each_are_one_store() {
    let own = certificates();
    let of = |password: &&str| -> RedisBuilder {
        Redis::builder().persistent().mutual_tls(own.clone()).password(password)
    };
    let mut servers = Redlock::of_each(PASSWORDS.iter().map(of)).unwrap();
    assert!(servers.url().starts_with("redlocks://"), "{}", servers.url());
    let files = format!(
        "{}?ca={}&cert={}&key={}",
        servers.url(),
        own.authority().display(),
        own.client().display(),
        own.client_key().display()
    );
    let url = with(&files, &format!("passwords={}", PASSWORDS.join(",")));
    let (holder, other, name) = (keeper(&url, LONG).await, keeper(&url, LONG).await, name());
    let guard = lock(&holder, &name).await;
    let waiting = waiter(&other, &name);
    until_waiting(servers.nodes(), 1, &name).await;
    servers.restart(1).unwrap();
    renewed(&guard).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    // In another order no server lets the client in but one.
    let swapped = with(&files, "passwords=two,one,three");
    let error = Keeper::from_url(&*swapped).unwrap().connect().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!error.to_string().contains("two"), "a password: {error}");
}

/// The settings of TLS are those of all servers. Servers of several authorities are trusted by one
/// file with all of them.
#[tokio::test]
async fn servers_of_several_authorities_are_trusted_by_one_file() {
    let own = [certificates(), certificates(), certificates()];
    let servers = encrypted(&own);
    let trusted = Certificates::authorities(&own).unwrap();
    let url = format!("{}?ca={}", servers.url(), trusted.display());
    lock(&keeper(&url, LONG).await, &name()).await.release().await.unwrap();
    // One authority of three is not trusted: the other two servers are a majority.
    let trusted = Certificates::authorities(&own[..2]).unwrap();
    let url = format!("{}?ca={}", servers.url(), trusted.display());
    lock(&keeper(&url, LONG).await, &name()).await.release().await.unwrap();
}

#[tokio::test]
async fn servers_of_an_untrusted_authority_are_refused_by_name() {
    let own = certificates();
    let servers = encrypted(&[own.clone(), own.clone(), own]);
    let url = format!("{}?ca={}&{SLOW}", servers.url(), certificates().authority().display());
    let connecting = Keeper::from_url(&*url).unwrap().connect();
    let error = within(TIME_LIMIT, connecting).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    for node in servers.nodes() {
        assert!(text.contains(&format!("{}: ", node.address())), "{text}");
    }
    assert!(text.contains("certificate") && text.contains("ca=FILE"), "{text}");
    // Without TLS nothing is to be had at all.
    let plain = servers.url().replace("redlocks", "redlock") + "?timeout=500ms";
    let connecting = Keeper::from_url(&*plain).unwrap().connect();
    let error = within(TIME_LIMIT, connecting).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let trusting = format!("{}?ca={}", servers.url(), authority(&servers));
    patiently(async || Keeper::from_url(&*trusting).unwrap().connect().await.map(drop)).await;
}

fn authority(servers: &Redlock) -> String {
    servers.nodes()[0].certificates().unwrap().authority().display().to_string()
}
