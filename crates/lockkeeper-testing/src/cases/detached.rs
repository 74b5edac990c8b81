//! Locks that outlive their process.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::{
    Break, Effect, ErrorKind, Guard, Handle, Keeper, LockName, LostReason, Result, Target,
};

const LONG: Duration = Duration::from_secs(600);

async fn detach(keeper: &Keeper, name: &LockName, lease: Duration) -> Handle {
    keeper.mutex(name).unwrap().lock().detached(lease).await.unwrap()
}

/// Renews the lock by hand, and again if a busy machine has held up the answer.
async fn renew(case: &Case, guard: &Guard) {
    case.until("it is renewed", async || guard.renew_once().await.is_ok()).await;
}

/// A release that the network doubles finds no claim the second time.
fn assert_released(case: &Case, released: Result<()>) {
    let was_lost = released.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost);
    assert!(
        released.is_ok() || (was_lost && !case.harness().fault_profile().is_none()),
        "{released:?}"
    );
}

/// A lock is acquired in one process, renewed in a second, and released in a third, after the first
/// two have ended.
pub async fn it_outlives_its_process(case: &Case) {
    let (name, first, other) =
        (case.name("m"), case.test_client(Ttls::long()).await, case.keeper().await);
    let handle = detach(&first.keeper, &name, LONG).await;
    assert_eq!((handle.full_name(), handle.ttl()), (&name, LONG));
    let (token, text) = (handle.token(), handle.expose());
    assert_eq!(first.keeper.leftovers(), 0, "the engine has given it away");
    drop(first);
    assert!(other.mutex(&name).unwrap().try_lock().await.unwrap().is_none());

    let second = case.test_client(Ttls::long()).await;
    let guard = second.keeper.adopt(text.parse().unwrap()).unwrap();
    renew(case, &guard).await;
    guard.check().unwrap();
    assert_eq!((guard.token(), guard.name()), (token, &name));
    assert!(guard.remaining() > LONG / 2);
    drop(guard);
    drop(second);
    assert!(other.mutex(&name).unwrap().try_lock().await.unwrap().is_none());

    let third = case.keeper().await;
    let guard = third.adopt(text.parse().unwrap()).unwrap();
    assert!(third.check_sequencer(&guard.sequencer()).await.unwrap());
    assert_released(case, guard.release().await);
    case.is_free(&name).await;
    case.until("nothing is left", async || third.leftovers() == 0).await;
}

/// A detached lock ends if no process renews it. A renewal and a release then report a loss.
pub async fn it_ends_with_its_lease_when_nobody_renews_it(case: &Case) {
    let (name, test_client, other) =
        (case.name("m"), case.test_client(Ttls::long()).await, case.keeper().await);
    let lease = case.short().ttl;
    let start = case.now();
    let handle = detach(&test_client.keeper, &name, lease).await;
    let next = other.mutex(&name).unwrap().lock().await.unwrap();
    assert!(case.since(start) >= lease);
    let guard = test_client.keeper.adopt(handle.clone()).unwrap();
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(
        test_client.keeper.adopt(handle).unwrap().release().await.unwrap_err().kind(),
        ErrorKind::Lost
    );
    next.check().unwrap();
    assert!(other.check_sequencer(&next.sequencer()).await.unwrap());
    next.release().await.unwrap();
    // The lock is lost too if no other client has looked at it.
    let handle = detach(&test_client.keeper, &case.name("lonely"), lease).await;
    case.pass(lease * 2).await;
    assert_eq!(other.adopt(handle).unwrap().release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// A renewal by any process starts the lease again.
pub async fn a_renewal_begins_its_ttl_again(case: &Case) {
    let (name, lease) = (case.name("m"), case.short().ttl * 3);
    let handle = detach(&case.keeper().await, &name, lease).await;
    for _ in 0..4 {
        case.pass(lease / 2).await;
        let guard = case.keeper().await.adopt(handle.clone()).unwrap();
        renew(case, &guard).await;
    }
    let other = case.keeper().await;
    assert!(other.mutex(&name).unwrap().try_lock().await.unwrap().is_none());
    other.adopt(handle).unwrap().release().await.unwrap();
    case.is_free(&name).await;
}

/// An adopted guard does not report the lock as held before the store has answered.
pub async fn an_adopted_lock_is_not_held_before_the_first_answer(case: &Case) {
    let (name, test_client) = (case.name("m"), case.test_client(Ttls::long()).await);
    let handle = detach(&case.keeper().await, &name, LONG).await;
    let guard = test_client.keeper.adopt(handle).unwrap();
    for _ in 0..2 {
        let error = guard.check().unwrap_err();
        assert_eq!((error.kind(), error.name()), (ErrorKind::Unavailable, Some(&name)), "{error}");
        assert_eq!(guard.while_held(async {}).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(guard.remaining(), Duration::ZERO);
        case.pass(Duration::from_millis(100)).await;
    }
    test_client.cut_off(true);
    let error = guard.renew_once().await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Unavailable);
    test_client.cut_off(false);
    renew(case, &guard).await;
    assert_eq!(guard.while_held(async { 7 }).await.unwrap(), 7);
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// An adopted guard reports the lock as held for the lease that its own renewal has proven.
/// Renewals of other processes prove nothing.
pub async fn what_was_adopted_is_believed_for_its_lease_and_no_longer(case: &Case) {
    let (name, lease) = (case.name("m"), case.short().ttl * 3);
    let (a, b) = (case.keeper().await, case.keeper().await);
    let handle = detach(&a, &name, lease).await;
    let guard = a.adopt(handle.clone()).unwrap();
    renew(case, &guard).await;
    let renewed = case.now();
    assert!(guard.remaining() <= lease);
    let other = b.adopt(handle.clone()).unwrap();
    // The claim is alive all the time. If that were proof, this guard would report it as held.
    let others = async {
        while case.since(renewed) < lease * 3 {
            case.pass(lease / 6).await;
            renew(case, &other).await;
        }
    };
    tokio::select! {
        reason = guard.lost() => assert_eq!(reason, LostReason::Expired),
        () = others => panic!("it believes what others have renewed"),
    }
    // Only this guard has lost the lock: the guard takes nothing from the process that still holds
    // it.
    drop(guard);
    renew(case, &other).await;
    other.release().await.unwrap();
    case.is_free(&name).await;
}

/// The lock belongs to the handle, not to its guard.
pub async fn dropping_what_was_adopted_leaves_it(case: &Case) {
    let (name, test_client) = (case.name("m"), case.test_client(Ttls::long()).await);
    let handle = detach(&test_client.keeper, &name, LONG).await;
    let guard = test_client.keeper.adopt(handle.clone()).unwrap();
    renew(case, &guard).await;
    drop(guard);
    drop(test_client.keeper.adopt(handle.clone()).unwrap());
    assert_eq!(test_client.keeper.leftovers(), 0);
    case.pass(Duration::from_millis(100)).await;
    assert!(case.keeper().await.mutex(&name).unwrap().try_lock().await.unwrap().is_none());
    assert!(!test_client.event_log.has("dropped"), "{:?}", test_client.event_log.entries());
    assert_released(case, test_client.keeper.adopt(handle).unwrap().release().await);
}

/// The shutdown of a keeper ends neither its detached locks nor its adopted locks.
pub async fn a_shutdown_leaves_it(case: &Case) {
    let (name, first, second) = (case.name("m"), case.keeper().await, case.keeper().await);
    let handle = detach(&first, &name, LONG).await;
    let guard = second.adopt(handle.clone()).unwrap();
    renew(case, &guard).await;
    first.clone().shutdown(Duration::from_secs(20)).await.unwrap();
    second.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Shutdown));
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Closed);
    drop(guard);
    let third = case.keeper().await;
    assert!(third.mutex(&name).unwrap().try_lock().await.unwrap().is_none());
    assert_eq!(first.adopt(handle.clone()).unwrap_err().kind(), ErrorKind::Closed);
    assert_released(case, third.adopt(handle).unwrap().release().await);
}

/// A second release finds no claim, and takes nothing from the next holder.
pub async fn a_second_release_finds_it_lost(case: &Case) {
    let (name, keeper) = (case.name("m"), case.keeper().await);
    let handle = detach(&keeper, &name, LONG).await;
    assert_released(case, keeper.adopt(handle.clone()).unwrap().release().await);
    let next = keeper.mutex(&name).unwrap().lock().await.unwrap();
    assert!(next.token() > handle.token());
    assert_eq!(keeper.adopt(handle).unwrap().release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(keeper.check_sequencer(&next.sequencer()).await.unwrap());
    next.release().await.unwrap();
}

/// The lease of a detached attempt begins at the grant, even after a long wait.
pub async fn a_waiting_claim_is_granted_its_whole_ttl(case: &Case) {
    let (name, holder, keeper) = (case.name("m"), case.keeper().await, case.keeper().await);
    let lease = case.short().ttl;
    let held = holder.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(keeper.mutex(&name).unwrap().lock().detached(lease).into_future());
    case.until_waiting(&holder, &name, 1).await;
    case.pass(lease * 3).await;
    held.release().await.unwrap();
    let handle = waiting.await.unwrap().unwrap();
    let left = holder.inspect(&name).await.unwrap().holders[0].expires_in.unwrap_or(lease);
    assert!(left > lease / 2, "{left:?}");
    holder.adopt(handle).unwrap().release().await.unwrap();
}

/// A detached attempt that gives up leaves no lock and no place in line, though its session could
/// have outlived the attempt.
pub async fn one_that_gives_up_leaves_nothing(case: &Case) {
    let (name, holder, test_client) =
        (case.name("m"), case.keeper().await, case.test_client(Ttls::long()).await);
    let held = holder.mutex(&name).unwrap().lock().await.unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(200)] {
        let attempt = test_client.mutex(&name).lock().wait(wait).detached(LONG);
        assert_eq!(attempt.await.unwrap_err().kind(), ErrorKind::Timeout);
        case.until_waiting(&holder, &name, 0).await;
    }
    held.release().await.unwrap();
    case.is_free(&name).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// A process that renews a broken lock learns who broke it, and why.
pub async fn who_broke_it_is_reported_to_who_renews(case: &Case) {
    let (name, keeper) = (case.name("m"), case.keeper().await);
    let handle = detach(&keeper, &name, LONG).await;
    let target = Target::Token(handle.token());
    assert!(
        keeper.admin().unwrap().break_lock(&name, target, "abandoned", Break::Mark).await.unwrap()
    );
    let guard = keeper.adopt(handle).unwrap();
    let error = guard.renew_once().await.unwrap_err();
    let reported = LostReason::Broken { by: "somebody".into(), reason: "abandoned".into() };
    assert_eq!(error.lost_reason(), Some(&reported));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    case.is_free(&name).await;
}

/// With a lock-delay, a release after the lease has expired lets the delay run out.
pub async fn a_late_release_lets_the_delay_run_out(case: &Case) {
    let (name, ttls) = (case.name("m"), case.harness().short());
    let (keeper, other) = (case.keeper().await, case.keeper().await);
    let mutex = keeper.mutex(&name).unwrap().lock_delay(ttls.lock_delay);
    let start = case.now();
    let handle = mutex.lock().detached(ttls.ttl).await.unwrap();
    let guard = keeper.adopt(handle.clone()).unwrap();
    let sent = case.now();
    renew(case, &guard).await;
    let took = case.since(sent);
    let next = tokio::spawn(other.mutex(&name).unwrap().lock().into_future());
    let _ = guard.lost().await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    // The holder counts from the request for the renewal, the store from its arrival. Their clocks
    // may differ a little too.
    case.pass(took + ttls.ttl / 20).await;
    assert_eq!(keeper.adopt(handle).unwrap().release().await.unwrap_err().kind(), ErrorKind::Lost);
    let next = next.await.unwrap().unwrap();
    assert!(case.since(start) >= ttls.ttl + ttls.lock_delay, "{:?}", case.since(start));
    next.release().await.unwrap();
}

/// Neither the process that detached a lock nor the process that adopted it renews it
/// automatically.
pub async fn nobody_renews_it_but_by_hand(case: &Case) {
    let (name, lease) = (case.name("m"), case.short().ttl * 3);
    let (first, second, other) = (case.keeper().await, case.keeper().await, case.keeper().await);
    let handle = detach(&first, &name, lease).await;
    let guard = second.adopt(handle).unwrap();
    renew(case, &guard).await;
    // The claim ends although all three processes exist.
    let next = other.mutex(&name).unwrap().lock().wait(lease * 20).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
    drop((first, guard));
    next.release().await.unwrap();
}
