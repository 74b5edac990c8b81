//! What a mark leaves to its holder, and what ends that early.

use lockkeeper::layer::Operation;
use lockkeeper::store::{Broken, Renewal};
use lockkeeper::{Guard, LostReason};
use tokio::time::timeout;

use super::spy::{Do, Party, World, millis, secs};

fn mark() -> Broken {
    Broken { by: "ops".into(), reason: "stuck".into(), removed: false }
}

/// A lock of 30 s that was marked, of which the store has told.
async fn marked(party: &Party) -> Guard {
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.tell_broken(party.spy.last(Operation::Claim).ids[0], mark());
    assert!(matches!(guard.lost().await, LostReason::Broken { .. }));
    assert!(timeout(secs(5), guard.given_away()).await.is_err(), "nobody else has it");
    guard
}

/// The store of these tests has it still: only the word says that it was removed.
#[tokio::test(start_paused = true)]
async fn a_holder_hears_of_its_removal_though_it_had_lost_by_a_mark() {
    let party = World::new().party(secs(30)).await;
    let guard = marked(&party).await;
    party.spy.tell_broken(party.spy.last(Operation::Claim).ids[0], Broken { removed: true, ..mark() });
    timeout(millis(1), guard.given_away()).await.expect("it is told at once");
    assert!(matches!(guard.lost().await, LostReason::Broken { .. }), "the first reason stands");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_does_not_find_what_was_marked_tells_its_holder() {
    let party = World::new().party_by_session(secs(30), 0).await;
    let guard = marked(&party).await;
    party.spy.always(Operation::Renew, Do::Tell(vec![Renewal::Lost(None)]));
    timeout(secs(11), guard.given_away()).await.expect("with the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_mark_again_changes_nothing() {
    let party = World::new().party_by_session(secs(30), 0).await;
    let guard = marked(&party).await;
    party.spy.always(Operation::Renew, Do::Tell(vec![Renewal::Lost(Some(mark()))]));
    assert!(timeout(secs(11), guard.given_away()).await.is_err(), "nobody else has it");
    assert!(!party.spy.asked(Operation::Renew).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_marked_is_left_to_its_holder_for_its_lease_and_no_longer() {
    let world = World::new();
    let party = world.party(secs(30)).await;
    let start = world.now();
    let guard = marked(&party).await;
    timeout(secs(60), guard.given_away()).await.expect("its lease ends");
    let held = world.now().saturating_since(start);
    assert!(held > secs(29) && held < secs(31), "{held:?}");
}

/// Nobody keeps what a keeper had that is shut down.
#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_away_what_was_marked() {
    let party = World::new().party(secs(30)).await;
    let guard = marked(&party).await;
    party.keeper.shutdown(secs(1)).await.unwrap();
    timeout(millis(1), guard.given_away()).await.expect("its session was closed");
}
