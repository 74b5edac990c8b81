//! The election for candidates and observers.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::{Break, Election, ErrorKind, FencingToken, Leader, Target};

async fn election(case: &Case) -> Election {
    case.keeper().await.election(case.name("leader")).unwrap()
}

fn shown(leader: Option<Leader>) -> Option<(FencingToken, String)> {
    leader.map(|leader| (leader.token, String::from_utf8(leader.value).unwrap()))
}

/// One candidate leads, and the others wait, each with its own value. The next candidate leads when
/// the leader resigns.
pub async fn one_leads_and_the_next_follows(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("leader"));
    assert_eq!(election(case).await.leader().await.unwrap(), None);
    let first = election(case).await.campaign("first").await.unwrap();
    let one = election(case).await;
    let waiting: Vec<_> =
        ["second", "third"].map(|value| tokio::spawn(one.campaign(value).into_future())).into();
    // Two candidates of one process wait in line with a claim each.
    case.until_waiting(&keeper, &name, 2).await;
    assert!(one.try_campaign("never").await.unwrap().is_none());
    let mut last = first.guard().token();
    assert_eq!(shown(one.leader().await.unwrap()), Some((last, "first".to_owned())));
    first.resign().await.unwrap();
    for campaign in waiting {
        let leadership = campaign.await.unwrap().unwrap();
        let leader = one.leader().await.unwrap().unwrap();
        assert!(leader.token > last && leader.token == leadership.token());
        assert!(["second", "third"].map(str::as_bytes).contains(&&*leader.value));
        last = leader.token;
        leadership.resign().await.unwrap();
    }
    case.is_free(&name).await;
}

/// The leader can show another value, but only while it leads.
pub async fn a_proclaimed_value_is_shown(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let candidate = test_client.keeper.election(case.name("leader")).unwrap();
    let mut leadership = candidate.campaign("starting").await.unwrap();
    let followers = election(case).await;
    let token = leadership.token();
    leadership.proclaim("ready").await.unwrap();
    assert_eq!(shown(followers.leader().await.unwrap()), Some((token, "ready".to_owned())));
    let long = vec![0; 64 * 1024 + 1];
    assert_eq!(leadership.proclaim(long.clone()).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(candidate.campaign(long).await.unwrap_err().kind(), ErrorKind::Invalid);
    leadership.proclaim(vec![0xff; 64 * 1024]).await.unwrap();
    assert_eq!(followers.leader().await.unwrap().unwrap().value, vec![0xff; 64 * 1024]);
    test_client.cut_off(true);
    case.pass(case.short().ttl * 2).await;
    assert_eq!(leadership.proclaim("late").await.unwrap_err().kind(), ErrorKind::Lost);
    test_client.cut_off(false);
    assert_eq!(leadership.resign().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// An observer learns of each leader, of its value, and of a vacancy. The observer gets no report
/// twice, and tokens never go back.
pub async fn an_observer_sees_leaders_and_vacancies(case: &Case) {
    let mut observer = election(case).await.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let mut leadership = election(case).await.campaign("a").await.unwrap();
    let first = leadership.token();
    assert_eq!(shown(observer.next().await.unwrap()), Some((first, "a".to_owned())));
    let mut late = election(case).await.observe();
    assert_eq!(shown(late.next().await.unwrap()), Some((first, "a".to_owned())));
    // A waiting candidate causes no report.
    let next = tokio::spawn(election(case).await.campaign("b").into_future());
    case.until_waiting(&case.keeper().await, &case.name("leader"), 1).await;
    assert!(case.clock().timeout(Duration::from_millis(50), observer.next()).await.is_none());
    leadership.proclaim("a2").await.unwrap();
    assert_eq!(shown(observer.next().await.unwrap()), Some((first, "a2".to_owned())));
    leadership.resign().await.unwrap();
    let next = next.await.unwrap().unwrap();
    let second = next.guard().token();
    assert_eq!(shown(observer.next().await.unwrap()), Some((second, "b".to_owned())));
    next.resign().await.unwrap();
    assert_eq!(observer.next().await.unwrap(), None);
    assert_eq!(late.next().await.unwrap(), None);
}

/// When the leader vanishes, the next candidate leads, and observers see it.
pub async fn a_vanished_leader_is_followed_by_the_next(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let gone =
        test_client.keeper.election(case.name("leader")).unwrap().campaign("gone").await.unwrap();
    let mut observer = election(case).await.observe();
    assert!(observer.next().await.unwrap().is_some());
    let next = tokio::spawn(election(case).await.campaign("next").into_future());
    case.until_waiting(&case.keeper().await, &case.name("leader"), 1).await;
    test_client.cut_off(true);
    let next = next.await.unwrap().unwrap();
    assert!(gone.guard().check().is_err());
    assert_eq!(
        shown(observer.next().await.unwrap()),
        Some((next.guard().token(), "next".to_owned()))
    );
    next.resign().await.unwrap();
}

/// A leader whose lock was broken learns of it.
pub async fn a_broken_leader_is_reported(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let leadership =
        test_client.keeper.election(case.name("leader")).unwrap().campaign("x").await.unwrap();
    let admin = case.keeper().await.admin().unwrap();
    let target = Target::Token(leadership.token());
    assert!(admin.break_lock(case.name("leader"), target, "stuck", Break::Now).await.unwrap());
    leadership.lost().await;
    assert_eq!(leadership.resign().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// An election is the mutex of its name: readers do not count as leaders, and cannot hold the lock
/// beside a leader.
pub async fn an_election_is_the_mutex_of_its_name(case: &Case) {
    let keeper = case.test_client(Ttls::long()).await.keeper;
    let lock = keeper.rw_lock(case.name("leader")).unwrap();
    let reader = lock.read().await.unwrap();
    assert_eq!(election(case).await.leader().await.unwrap(), None);
    assert!(election(case).await.try_campaign("x").await.unwrap().is_none());
    reader.release().await.unwrap();
    let leadership = election(case).await.campaign("x").await.unwrap();
    assert!(lock.try_read().await.unwrap().is_none());
    leadership.resign().await.unwrap();
}
