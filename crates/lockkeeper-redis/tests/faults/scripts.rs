//! The scripts of the Redis store on a real server, in lock step with the memory store and the rule
//! of admission.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use lockkeeper::MemoryStore;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper_live::{Redis, redis};
use lockkeeper_redis::check::{
    Agreement, against_memory, against_memory_with_faults, with_a_clock_that_goes_back,
};

/// A few that are always the same.
const SEEDS: [u64; 3] = [1, 20, 300];
const STEPS: u32 = 2500;

fn memory(clock: Clock) -> Arc<dyn Store> {
    Arc::new(MemoryStore::with_clock(clock))
}

/// Random operations on three lines: the same answers, the same lines, messages for each granted
/// claim and each watcher, and the holders that the rule admits.
fn agree(seed: u64) {
    let redis = redis().unwrap();
    eprintln!("seed {seed}");
    let agreement = against_memory(&redis.address().to_string(), seed, STEPS, memory);
    eprintln!("seed {seed}: {agreement:?}");
    let Agreement { steps, grants, pushes, kept, .. } = agreement;
    assert_eq!(steps, STEPS);
    // Otherwise the run has shown little.
    let is_much = grants > STEPS / 20 && pushes > STEPS / 200 && kept > 0;
    assert!(is_much, "{agreement:?}");
}

#[test]
fn the_scripts_agree_with_the_memory_store() {
    SEEDS.into_iter().for_each(agree);
}

/// With a new seed; a failed run has printed it.
#[test]
fn the_scripts_agree_with_the_memory_store_on_what_nobody_has_tried() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    agree(now.as_micros().try_into().unwrap());
}

/// A dropped guard posts its release, and nothing waits for the answer. A server that lacked the
/// script of the release alone would take the next claim of the same task first.
#[tokio::test]
async fn a_release_keeps_its_place_on_a_server_without_scripts() {
    let redis = Redis::start().unwrap();
    for _ in 0..20 {
        redis.run(&["SCRIPT", "FLUSH"]).unwrap();
        let keeper = lockkeeper::connect(&redis.url()).await.unwrap();
        drop(keeper.mutex("stock").unwrap().lock().await.unwrap());
        let again = keeper.mutex("stock").unwrap().try_lock().await.unwrap();
        again.expect("the release came first").release().await.unwrap();
    }
}

/// Both requests are on their way when the server says that it has no script. The task of the
/// release is not polled meanwhile, and the task of the claim is.
#[tokio::test]
async fn a_release_under_way_keeps_its_place_before_a_claim_on_a_server_that_lost_its_scripts() {
    let redis = Redis::start().unwrap();
    let keeper = lockkeeper::connect(&redis.url()).await.unwrap();
    for _ in 0..20 {
        let held = keeper.mutex("stock").unwrap().lock().await.unwrap();
        redis.run(&["SCRIPT", "FLUSH"]).unwrap();
        let mut release = pin!(held.release());
        assert!(poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_pending())).await);
        let next = keeper.mutex("stock").unwrap().try_lock().await.unwrap();
        next.expect("the release came first").release().await.unwrap();
        release.await.unwrap();
    }
}

/// A right, the right to publish, memory, or the kind of a side key is missing in a third of all
/// requests. A refused request has changed and reported nothing; an accepted request has done
/// everything.
#[test]
fn a_script_with_a_refused_command_does_everything_or_nothing() {
    let redis = Redis::start().unwrap();
    for seed in SEEDS {
        eprintln!("seed {seed}");
        let agreement =
            against_memory_with_faults(&redis.address().to_string(), seed, STEPS, 330, memory);
        eprintln!("seed {seed}: {agreement:?}");
        let Agreement { grants, refused, passed, .. } = agreement;
        assert!(
            grants > STEPS / 20 && refused > STEPS / 50 && passed > STEPS / 50,
            "{agreement:?}"
        );
    }
}

/// The clock of the server goes back by up to ten minutes, again and again. The rule admits all
/// holders, tokens rise, and no claim lives, or is kept, for longer than it may from now on.
#[test]
fn a_clock_that_goes_back_breaks_no_rule_and_prolongs_no_lease() {
    let redis = redis().unwrap();
    for seed in SEEDS {
        let agreement = with_a_clock_that_goes_back(&redis.address().to_string(), seed, STEPS);
        eprintln!("seed {seed}: {agreement:?}");
        let Agreement { steps, grants, kept, .. } = agreement;
        assert!(steps == STEPS && grants > STEPS / 20 && kept > STEPS / 20, "{agreement:?}");
    }
}
