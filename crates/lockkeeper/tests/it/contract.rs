//! The contract of a store, on every store and every layer.

use std::sync::Arc;

use lockkeeper::layer::{Faults, Prefix, Traced};
use lockkeeper::store::Store;
use lockkeeper::testing::wrong::Flawed;
use lockkeeper::testing::{AtRest, Crash, Harness, InAStorm, Lives, MemoryHarness, Through, Time, Wrap};
use lockkeeper::time::Clock;
use lockkeeper::{FileStore, KeeperBuilder};
use tempfile::TempDir;

use crate::by_session::BySession;
use crate::spans;

lockkeeper::suite! {
    mod memory_store;
    harness = MemoryHarness;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}

lockkeeper::suite! {
    mod memory_store_through_chaos;
    harness = Through<MemoryHarness, AtRest>;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}

lockkeeper::suite! {
    mod memory_store_under_a_prefix;
    harness = Through<MemoryHarness, UnderAPrefix>;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}

lockkeeper::suite! {
    mod memory_store_traced;
    harness = Through<MemoryHarness, Shown>;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}

lockkeeper::suite! {
    mod memory_store_by_session;
    harness = Flawed<MemoryHarness, BySession>;
    left_out = [
        "life::a_resent_claim_starts_its_life_anew",
        "life::a_resent_waiting_claim_starts_its_life_anew",
        "renew::only_what_is_listed_is_renewed",
        "withdraw::a_tombstone_stands_for_its_time",
    ]
}

lockkeeper::suite! {
    mod file_store;
    harness = FileHarness;
    left_out = [
        "life::a_resent_claim_starts_its_life_anew",
        "life::a_resent_waiting_claim_starts_its_life_anew",
        "renew::only_what_is_listed_is_renewed",
        "withdraw::a_tombstone_stands_for_its_time",
    ]
}

lockkeeper::suite! {
    mod memory_store_by_session_under_a_prefix;
    harness = Through<Flawed<MemoryHarness, BySession>, UnderAPrefix>;
    left_out = [
        "life::a_resent_claim_starts_its_life_anew",
        "life::a_resent_waiting_claim_starts_its_life_anew",
        "renew::only_what_is_listed_is_renewed",
        "withdraw::a_tombstone_stands_for_its_time",
    ]
}

lockkeeper::keeper_suite! {
    mod file_store_on_a_thread_of_its_own;
    harness = Through<FileHarness, OnAThreadOfItsOwn>;
    left_out = []
}

/// In bad weather: without the cases that count on a good connection.
macro_rules! storm_suite {
    (mod $module:ident; harness = $harness:ty) => {
        lockkeeper::keeper_suite! {
            mod $module;
            harness = $harness;
            left_out = [
                "mutex::no_increment_is_lost",
                "mutex::a_dropped_guard_is_released",
                "unfair::a_release_wakes_it",
                "unfair::many_of_them_lose_no_increment",
                "unfair::it_keeps_to_its_lease",
                "multi::a_fixed_lease_begins_when_all_are_held",
                "multi::max_hold_begins_when_all_are_held",
                "multi::a_dropped_one_is_released",
                "rw_lock::a_downgrade_lets_readers_in_and_no_writer",
                "rw_lock::what_cannot_be_downgraded_comes_back",
                "rw_lock::a_lone_reader_becomes_the_writer",
                "rw_lock::a_reader_in_company_stays_a_reader",
                "rw_lock::two_upgraders_stay_readers_until_one_gives_way",
                "rw_lock::an_upgrade_without_an_answer_ends_both",
                "rw_lock::a_fixed_lease_is_upgraded",
                "rw_lock::max_hold_outlives_an_upgrade",
                "reentrant::its_guards_are_lost_together",
                "reentrant::it_is_renewed_for_its_last_guard",
                "election::a_proclaimed_value_is_shown",
                "election::an_observer_hears_of_leaders_and_vacancies",
                "election::a_vanished_leader_is_followed_by_the_next",
                "election::a_broken_leader_is_told",
                "semaphore::permits_are_leased_and_renewed",
                "semaphore::waiting_behind_oneself_is_refused",
                "detached::it_ends_with_its_life_when_nobody_renews_it",
                "detached::a_renewal_begins_its_life_anew",
                "detached::nobody_believes_before_the_store_was_asked",
                "detached::what_was_adopted_is_believed_for_its_life_and_no_longer",
                "detached::one_that_stands_in_line_is_granted_its_whole_life",
                "detached::who_broke_it_is_told_to_who_renews",
                "detached::a_late_release_lets_the_delay_run_out",
                "detached::nobody_renews_it_but_by_hand",
                "tasks::a_place_in_line_is_inherited",
                "loss::a_lock_is_kept_for_many_ttls",
                "loss::a_silent_store_ends_the_belief_in_time",
                "loss::a_short_outage_is_survived",
                "loss::a_renewal_that_hangs_is_told",
                "loss::a_lost_lock_stays_lost",
                "loss::a_late_answer_revives_nothing",
                "loss::a_broken_lock_tells_who_and_why",
                "loss::a_removed_claim_is_found_out",
                "loss::max_hold_ends_a_hold",
                "loss::a_fixed_lease_is_not_renewed",
                "loss::a_fixed_lease_begins_at_the_grant",
                "loss::a_scope_ends_with_the_lock",
                "loss::with_returns_the_loss_or_the_users_error",
                "loss::everybody_hears_of_the_loss",
                "delay::a_release_in_time_is_immediate",
                "delay::a_drop_in_time_is_immediate",
                "delay::a_panic_lets_the_delay_run_out",
                "delay::a_late_release_lets_the_delay_run_out",
                "delay::a_crash_lets_the_delay_run_out",
                "delay::a_pushed_grant_has_its_delay",
                "cancel::a_lock_can_be_dropped_at_any_poll",
                "cancel::a_lock_can_be_dropped_in_a_storm",
                "cancel::a_wait_can_be_dropped_at_any_poll",
                "cancel::an_unfair_wait_can_be_dropped_at_any_poll",
                "cancel::an_upgrade_can_be_dropped_at_any_poll",
                "cancel::a_downgrade_can_be_dropped_at_any_poll",
                "cancel::a_multi_lock_can_be_dropped_at_any_poll",
                "cancel::a_release_of_many_can_be_dropped_at_any_poll",
                "cancel::a_release_can_be_dropped_at_any_poll",
                "cancel::a_detached_attempt_can_be_dropped_at_any_poll",
                "cancel::an_adopted_release_can_be_dropped_at_any_poll",
                "cancel::a_try_can_be_dropped_at_any_poll",
                "cancel::a_task_can_be_aborted",
                "storm::nobody_believes_beside_another",
                "storm::an_outage_breaks_nothing",
                "storm::everybody_gets_it_in_the_end",
            ]
        }
    };
}

storm_suite! {
    mod memory_store_in_a_storm;
    harness = InAStorm<MemoryHarness>
}

storm_suite! {
    mod file_store_in_a_storm;
    harness = InAStorm<FileHarness>
}

/// The file store in a folder of its own. A client that is dropped ends as a process that is killed does: its
/// liveness file is unlocked, and nothing was said.
pub(crate) struct FileHarness {
    folder: TempDir,
}

impl Harness for FileHarness {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Frees;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(FileStore::new(self.folder.path().join("locks.db")).open().await.unwrap())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn short(&self) -> Lives {
        Lives::quick()
    }

    fn weather(&self) -> Faults {
        Faults::none()
    }
}

/// With what is special to file names, SQL, patterns and URLs.
const PREFIX: &str = "a%_*/é'{";

#[derive(Debug)]
struct UnderAPrefix;

impl Wrap for UnderAPrefix {
    const NAME_BYTES: usize = PREFIX.len();

    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        Arc::new(Prefix::new(client, PREFIX).unwrap())
    }
}

/// Traced, with somebody who looks.
#[derive(Debug)]
struct Shown;

impl Wrap for Shown {
    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        spans::watch();
        Arc::new(Traced::new(client))
    }
}

/// Keepers whose engine has a thread of its own, on the store as it is.
#[derive(Debug)]
struct OnAThreadOfItsOwn;

impl Wrap for OnAThreadOfItsOwn {
    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        client
    }

    fn set_up(builder: KeeperBuilder) -> KeeperBuilder {
        builder.dedicated_thread()
    }
}
