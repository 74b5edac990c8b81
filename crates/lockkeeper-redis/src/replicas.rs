//! Waits until replicas have a grant, on a connection of its own: `WAIT` holds up all requests
//! behind it.
//!
//! `WAIT` counts the writes of its own connection only. So each round makes a write: replicas take
//! all writes in one order, so a replica that has this write has every grant that was answered
//! before. One round is for all callers that come while the round before is under way. A `WAIT`
//! without its write would say nothing, so both go on the same connection.
//!
//! A grant is gone when its server has become a replica of another server meanwhile. So the last
//! request of a round asks for the history of the data: a server that was a replica has another
//! history than the connection on which the grant came.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::sync::lock;
use tokio::sync::Mutex;

use super::checks::Info;
use super::fault;
use super::route::Data;
use super::wire::{Endpoint, Link, Request, Value};
use crate::{Error, ErrorKind, Result};

/// How long the write of a round stays.
const MARK_MS: &[u8] = b"60000";

/// The field of `INFO` that names the history of a server's data.
const HISTORY: &str = "master_replid";

/// The replicas that a grant needs.
#[derive(Debug)]
pub(super) struct Replicas {
    needed: u32,
    /// The rounds of each server, and its data: they do not confirm the grants of other data.
    masters: std::sync::Mutex<HashMap<Endpoint, (Data, Arc<Rounds>)>>,
}

#[derive(Debug, Default)]
struct Rounds {
    /// How many callers have asked.
    asked: AtomicU64,
    batch: Mutex<Batch>,
}

/// The last round.
#[derive(Debug, Default)]
struct Batch {
    /// The last caller that the round was for.
    covers: u64,
    /// How many replicas the round found.
    found: u32,
    link: Option<Link>,
}

impl Replicas {
    pub(super) fn needed(needed: u32) -> Option<Self> {
        (needed > 0).then(|| Self { needed, masters: std::sync::Mutex::default() })
    }

    /// Waits until enough replicas of this master have all that it has answered so far from these
    /// data.
    /// `mark` is a key of a slot of this master, or of a slot that is on its way to it (`asking`).
    ///
    /// # Errors
    /// `Unavailable`, of unknown effect: the grant stands.
    pub(super) async fn have_it(
        &self,
        master: &Link,
        data: &Data,
        mark: &[u8],
        asking: bool,
    ) -> Result<()> {
        let rounds = self.rounds(master.endpoint(), data);
        let mine = rounds.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut batch = rounds.batch.lock().await;
        if batch.covers < mine {
            let covers = rounds.asked.load(Ordering::SeqCst);
            batch.found = batch.round(master, data, (mark, asking), self.needed).await?;
            batch.covers = covers;
        }
        if batch.found >= self.needed {
            return Ok(());
        }
        let problem =
            format!("{} of {} replicas have acknowledged it in time", batch.found, self.needed);
        Err(Error::new(ErrorKind::Unavailable, problem)
            .with_remedy("a look at the replicas, or a lower min-replicas")
            .with_unknown_effect())
    }

    fn rounds(&self, master: &Endpoint, data: &Data) -> Arc<Rounds> {
        let mut masters = lock(&self.masters);
        let known =
            masters.get(master).filter(|(of, _)| of == data).map(|(_, rounds)| Arc::clone(rounds));
        known.unwrap_or_else(|| {
            let rounds = Arc::<Rounds>::default();
            masters.insert(master.clone(), (data.clone(), Arc::clone(&rounds)));
            rounds
        })
    }
}

/// Refuses a server that does not show the history of its data, where replicas have to confirm
/// grants.
pub(super) fn check(info: &Info, needed: u32) -> Result<()> {
    if needed == 0 || info.get(HISTORY).is_some() {
        return Ok(());
    }
    let problem = format!("the server does not show {HISTORY} in INFO, which min-replicas needs");
    Err(Error::new(ErrorKind::Unsupported, problem).with_remedy("a URL without min-replicas"))
}

/// The error about a grant whose server was restarted, replaced or a replica meanwhile, so that no
/// replica can confirm it.
pub(super) fn unproven(master: &Endpoint) -> Error {
    let problem = format!(
        "{master} was restarted or was no master for a while, or another server answers there, \
         before replicas had the lock"
    );
    Error::new(ErrorKind::Unavailable, problem)
        .with_remedy("again in a moment")
        .with_unknown_effect()
}

/// These data are not the master's any more. The next connection shows the present data.
fn lost(master: &Link, data: &Data) -> Error {
    if master.run().and_then(Data::of).as_ref() == Some(data) {
        master.reset("its data are of another history");
    }
    unproven(master.endpoint())
}

impl Batch {
    /// Returns how many replicas have all earlier writes. Waits for half of the time that an answer
    /// may take.
    async fn round(
        &mut self,
        master: &Link,
        data: &Data,
        (mark, asking): (&[u8], bool),
        needed: u32,
    ) -> Result<u32> {
        let unknown = |error| fault::of(error).with_unknown_effect();
        let link = match self.link.take().filter(Link::is_connected) {
            Some(link) => link,
            None => master.alone().await.map_err(unknown)?,
        };
        // At the same address another server may be there by now, or the same one after a restart.
        if link.run().and_then(|there| there.id).as_ref() != Some(&data.run) {
            return Err(lost(master, data));
        }
        let (needed, within) = (needed.to_string(), (link.timeout() / 2).as_millis().to_string());
        let round = [
            Request::command(&[b"SET", mark, b"", b"PX", MARK_MS]),
            Request::command(&[b"WAIT", needed.as_bytes(), within.as_bytes()]),
            Request::command(&[b"INFO", b"replication"]),
        ];
        let link = self.link.insert(link);
        let [written, found, info] = if asking {
            let [set, wait, info] = round;
            let asking = Request::command(&[b"ASKING"]);
            let [_, written, found, info] = link.send_all([asking, set, wait, info]);
            [written, found, info]
        } else {
            link.send_all(round)
        };
        // A server that is no master any more says so here.
        written.await.map_err(unknown)?;
        let found = found.await.map_err(unknown)?;
        let info = Info::of(&info.await.map_err(unknown)?).map_err(Error::with_unknown_effect)?;
        if info.get(HISTORY) != Some(data.history.as_str()) {
            return Err(lost(master, data));
        }
        match found {
            Value::Int(found) => Ok(u32::try_from(found).unwrap_or_default()),
            _ => Err(Error::new(ErrorKind::Internal, "the server's answer to WAIT is no number")
                .with_unknown_effect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::super::wire::Settings;
    use super::super::wire::tests::peer::{self, Peer, PeerConnection, RUN, echo, patient, within};
    use super::*;
    use crate::layout::Keys;
    use lockkeeper_core::Effect;

    fn data() -> Data {
        Data { run: RUN.to_owned(), history: peer::HISTORY.to_owned() }
    }

    /// The peer receives the requests of a round.
    async fn asks(remote: &mut PeerConnection) {
        for expected in ["SET", "WAIT", "INFO"] {
            assert_eq!(remote.request().await.remove(0), expected);
        }
    }

    /// The answers to a round: one replica, and this history.
    async fn answer(remote: &mut PeerConnection, history: &str) {
        remote.say(&format!("+OK\r\n:1\r\n+master_replid:{history}\r\n")).await;
    }

    /// The master takes nothing any more, so that a round stays unwritten; then the connection is
    /// lost.
    #[tokio::test]
    async fn no_part_of_a_round_goes_to_another_connection() {
        let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
        let (master, _remote, _received) = peer.link(patient()).await;
        let replicas = Arc::new(Replicas::needed(1).unwrap());
        let asked = || {
            let (replicas, master, mark) = (Arc::clone(&replicas), master.clone(), mark.clone());
            tokio::spawn(async move { replicas.have_it(&master, &data(), &mark, false).await })
        };
        let first = asked();
        let mut remote = peer.connection().await;
        assert_eq!(remote.request().await[0], "SET");
        // For half of the time that an answer may take.
        assert_eq!(remote.request().await, ["WAIT", "1", "15000"]);
        assert_eq!(remote.request().await, ["INFO", "replication"]);
        answer(&mut remote, peer::HISTORY).await;
        within(first).await.unwrap().unwrap();

        let link =
            replicas.rounds(master.endpoint(), &data()).batch.lock().await.link.clone().unwrap();
        let mut writes = 0;
        while link.writes() != std::mem::replace(&mut writes, link.writes()) {
            drop(link.send(echo(&"x".repeat(4 << 20))));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let data = data();
        let mut second = pin!(replicas.have_it(&master, &data, &mark, false));
        assert!(matches!(
            second.as_mut().poll(&mut Context::from_waker(Waker::noop())),
            Poll::Pending
        ));
        drop(remote);
        let error = within(second).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );

        let third = asked();
        let mut remote = peer.connection().await;
        asks(&mut remote).await;
        answer(&mut remote, peer::HISTORY).await;
        within(third).await.unwrap().unwrap();
    }

    #[test]
    fn a_server_without_a_history_is_refused_only_where_replicas_count() {
        let info = |text| Info::parse(text);
        assert_eq!(check(&info("role:master"), 1).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(check(&info("role:master"), 0).is_ok());
        assert!(check(&info("master_replid:a"), 1).is_ok());
    }

    #[test]
    fn who_needs_no_replicas_asks_for_none() {
        assert!(Replicas::needed(0).is_none() && Replicas::needed(1).is_some());
    }

    /// The first caller has a round alone. The callers that come meanwhile share the next round.
    #[tokio::test]
    async fn one_round_is_for_all_who_come_during_the_one_before() {
        let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
        let (master, _remote, _received) = peer.link(patient()).await;
        let replicas = Replicas::needed(1).unwrap();
        let data = data();
        let asked = || Box::pin(replicas.have_it(&master, &data, &mark, false));
        let (mut first, mut second, mut third) = (asked(), asked(), asked());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let mut remote = tokio::select! {
            _ = &mut first => panic!("nobody has answered"),
            remote = async {
                let mut remote = peer.connection().await;
                asks(&mut remote).await;
                remote
            } => remote,
        };
        assert!(
            second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending()
        );
        answer(&mut remote, peer::HISTORY).await;
        within(first).await.unwrap();
        assert!(second.as_mut().poll(&mut cx).is_pending());
        asks(&mut remote).await;
        answer(&mut remote, peer::HISTORY).await;
        within(second).await.unwrap();
        within(third).await.unwrap();
    }

    /// The master was restarted between its answer and the look at its replicas: they have followed
    /// the new one.
    #[tokio::test]
    async fn replicas_of_a_restarted_master_confirm_no_earlier_grant() {
        let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
        let (master, _remote, _received) = peer.link(patient()).await;
        let replicas = Arc::new(Replicas::needed(1).unwrap());
        let asked = {
            let (replicas, master) = (Arc::clone(&replicas), master.clone());
            let before = Data { run: "the run before".to_owned(), ..data() };
            tokio::spawn(async move { replicas.have_it(&master, &before, &mark, false).await })
        };
        let mut remote = peer.connection().await;
        let error = within(asked).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );
        assert_eq!(remote.next().await, [""; 0], "nothing was asked of it");
    }

    /// The master was a replica between its answer and the look at its replicas: they have its
    /// present data, and not the grant.
    #[tokio::test]
    async fn replicas_of_a_master_with_another_history_confirm_no_grant() {
        let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
        let settings = Settings { asks_history: true, ..patient() };
        let (master, mut before, _received) = peer.link(settings).await;
        let replicas = Arc::new(Replicas::needed(1).unwrap());
        let asked = {
            let (replicas, master) = (Arc::clone(&replicas), master.clone());
            tokio::spawn(async move { replicas.have_it(&master, &data(), &mark, false).await })
        };
        let mut remote = peer.connection().await;
        asks(&mut remote).await;
        answer(&mut remote, "a-later-history").await;
        let error = within(asked).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );
        assert_eq!(before.next().await, [""; 0], "the next connection shows the present data");
    }
}
