//! The contract of a store, on real etcd servers.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::testing::{Crash, Crowded, Harness, InAStorm, Lives, Time, unique_prefix};
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, EtcdStore, LockName};

use crate::crowd;
use crate::servers::Servers;

/// In every way to reach it, and on every number of members.
macro_rules! etcd_suite {
    (mod $module:ident; servers = $servers:ty) => {
        lockkeeper::suite! {
            mod $module;
            harness = On<$servers>;
            left_out = [
                life::a_resent_claim_starts_its_life_anew,
                life::a_resent_waiting_claim_starts_its_life_anew,
                renew::only_what_is_listed_is_renewed,
                withdraw::a_tombstone_stands_for_its_time,
            ]
        }
    };
}

etcd_suite! {
    mod etcd_one;
    servers = One
}

etcd_suite! {
    mod etcd_three;
    servers = Three
}

etcd_suite! {
    mod etcd_behind_tls;
    servers = BehindTls
}

etcd_suite! {
    mod etcd_oldest;
    servers = Oldest
}

etcd_suite! {
    mod etcd_of_debian;
    servers = OfDebian
}

/// In line with others there are exclusive claims only.
macro_rules! suite_shared_with_go {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper::suite! {
        mod $module;
        harness = $harness;
        left_out = [
            claim::a_try_is_not_refused_for_another,
            claim::a_mutex_and_a_semaphore_do_not_mix,
            claim::a_reader_and_a_semaphore_do_not_mix,
            life::a_resent_claim_starts_its_life_anew,
            life::a_resent_waiting_claim_starts_its_life_anew,
            life::who_finds_a_dead_holder_wakes_the_others,
            hold::what_was_released_is_kept,
            hold::what_was_kept_is_the_next_ones,
            hold::who_waits_gets_it_when_it_is_over,
            hold::a_dead_holders_lock_is_kept,
            hold::a_crashed_holders_lock_is_kept,
            hold::a_closed_session_leaves_it,
            hold::a_late_release_is_immediate,
            hold::it_begins_when_it_is_asked_for,
            hold::a_waiter_has_none,
            hold::what_is_kept_is_nobodys,
            hold::a_reader_keeps_its_share,
            hold::permits_are_kept_one_by_one,
            hold::permits_that_were_kept_let_the_next_in,
            hold::a_replacement_inherits_it,
            hold::what_was_lowered_is_kept_as_it_is,
            hold::what_is_kept_is_not_replaced,
            hold::what_is_broken_gets_none,
            hold::a_break_ends_it,
            renew::only_what_is_listed_is_renewed,
            withdraw::a_tombstone_stands_for_its_time,
            withdraw::a_release_wakes_all_who_can_go_on,
            withdraw::a_waiter_that_leaves_lets_others_go_on,
            token::readers_have_tokens_of_their_own,
            weights::readers_share,
            weights::a_writer_is_alone,
            weights::a_writer_is_not_starved,
            weights::a_try_does_not_overtake,
            weights::permits_are_counted,
            weights::a_large_claim_holds_up_smaller_ones,
            weights::a_release_of_many_permits_lets_many_in,
            weights::the_number_ahead_counts_everybody,
            weights::a_lone_reader_can_be_replaced,
            weights::a_replacement_is_of_the_same_kind,
            weights::a_reader_in_company_is_not_replaced,
            weights::a_reader_before_a_waiter_is_not_replaced,
            weights::a_broken_reader_is_not_replaced,
            sizes::a_larger_number_counts_when_the_smaller_has_left,
            sizes::a_smaller_number_waits_until_it_is_kept_to,
            sizes::a_larger_number_behind_lifts_no_limit,
            sizes::a_small_number_at_the_head_is_not_overtaken,
            sizes::a_small_number_that_gives_up_lets_others_in,
            sizes::a_small_number_that_dies_waiting_lets_others_in,
            sizes::a_small_number_that_leaves_lets_many_in,
            sizes::a_small_number_leaves_with_its_holder,
            sizes::a_small_number_dies_with_its_holder,
            sizes::a_try_keeps_to_everybodys_number,
            sizes::what_is_granted_stays_granted,
            sizes::the_number_that_counts_is_shown,
            sizes::a_replacement_brings_its_own_number,
            amend::a_downgrade_lets_readers_in,
            amend::a_downgrade_twice_is_one,
            amend::permits_that_are_given_back_let_others_in,
            amend::what_was_lowered_is_not_raised,
            amend::a_waiter_is_not_downgraded,
            model::readers_and_writers,
            model::permits,
            model::permits_of_changing_size,
            multi::each_is_held_in_its_own_mode,
            multi::a_name_counts_once_in_its_strongest_mode,
            multi::mixed_modes_never_wait_for_each_other,
            rw_lock::readers_hold_it_together_and_writers_alone,
            rw_lock::neither_readers_nor_writers_starve,
            rw_lock::a_wait_ends_with_its_time,
            rw_lock::a_downgrade_lets_readers_in_and_no_writer,
            rw_lock::what_cannot_be_downgraded_comes_back,
            rw_lock::a_lone_reader_becomes_the_writer,
            rw_lock::a_reader_in_company_stays_a_reader,
            rw_lock::two_upgraders_stay_readers_until_one_gives_way,
            rw_lock::an_upgrade_without_an_answer_ends_both,
            rw_lock::a_fixed_lease_is_upgraded,
            rw_lock::max_hold_outlives_an_upgrade,
            rw_lock::waiting_behind_oneself_is_refused,
            election::an_election_is_the_mutex_of_its_name,
            semaphore::there_are_so_many_permits_and_no_more,
            semaphore::permits_are_given_back_one_by_one,
            semaphore::an_adopted_guard_gives_back_all_or_nothing,
            semaphore::who_wants_many_is_not_overtaken,
            semaphore::permits_are_leased_and_renewed,
            semaphore::the_number_of_permits_may_change_while_it_is_in_use,
            semaphore::another_kind_of_lock_is_refused,
            semaphore::impossible_numbers_are_refused,
            semaphore::unfair_ones_wait_beside_the_line,
            semaphore::many_tasks_share_few_permits,
            semaphore::waiting_behind_oneself_is_refused,
            asking::all_who_hold_are_asked,
            asking::a_leader_and_a_converted_guard_are_asked,
            min_hold::a_release_leaves_the_rest_to_the_store,
            min_hold::a_drop_and_a_shutdown_leave_it,
            min_hold::it_costs_nothing_once_it_is_over,
            min_hold::who_gives_up_keeps_nothing,
            min_hold::each_task_has_its_own,
            min_hold::a_multi_lock_that_gets_not_all_keeps_none,
            min_hold::an_entry_of_its_owner_has_it,
            min_hold::a_conversion_keeps_it,
            min_hold::an_attempt_never_waits_for_what_it_has_kept_itself,
            min_hold::a_multi_lock_never_waits_for_a_part_that_it_has_kept,
            min_hold::who_is_dropped_before_its_answer_keeps_nothing,
            min_hold::nobody_leads_while_it_lasts,
            cancel::a_minimum_hold_can_be_dropped_at_any_poll,
            cancel::an_upgrade_can_be_dropped_at_any_poll,
            cancel::a_downgrade_can_be_dropped_at_any_poll,
            ]
    })*};
}

suite_shared_with_go! {
    etcd_shared_with_go: On<SharedWithGo>;
    etcd_shared_with_go_crowded: Crowded<On<SharedWithGo>>;
}

lockkeeper::suite! {
    mod etcd_one_crowded;
    harness = Crowded<On<One>>;
    left_out = [
        life::a_resent_claim_starts_its_life_anew,
        life::a_resent_waiting_claim_starts_its_life_anew,
        renew::only_what_is_listed_is_renewed,
        withdraw::a_tombstone_stands_for_its_time,
    ]
}

lockkeeper::storm_suite! {
    mod etcd_one_in_a_storm;
    harness = InAStorm<On<One>>
}

lockkeeper::storm_suite! {
    mod etcd_three_in_a_storm;
    harness = InAStorm<On<Three>>
}

struct One;

impl Servers for One {
    fn url() -> String {
        lockkeeper_live::etcd().unwrap().url()
    }
}

struct Three;

impl Servers for Three {
    fn url() -> String {
        lockkeeper_live::etcd_three().unwrap().url()
    }
}

struct BehindTls;

impl Servers for BehindTls {
    fn url() -> String {
        let etcd = lockkeeper_live::etcd_tls().unwrap();
        format!("{}?ca={}", etcd.url(), etcd.certificates().unwrap().authority().display())
    }
}

struct Oldest;

impl Servers for Oldest {
    fn url() -> String {
        lockkeeper_live::etcd_oldest().unwrap().url()
    }
}

/// 3.4, which has bugs with leases that no case here meets.
struct OfDebian;

impl Servers for OfDebian {
    fn url() -> String {
        lockkeeper_live::etcd_debian().unwrap().url() + "?unsafe=version"
    }
}

struct SharedWithGo;

impl Servers for SharedWithGo {
    fn url() -> String {
        One::url() + "?layout=concurrency"
    }
}

/// Cases have names of their own on servers that they share.
struct On<S>(PhantomData<S>);

impl<S: Servers> Harness for On<S> {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    /// Less the prefix.
    const NAME_MAX: usize = 255 - 13;

    async fn start() -> Self {
        Self(PhantomData)
    }

    async fn client(&self) -> Arc<dyn Store> {
        // A busy machine causes elections: nobody answers until they are over.
        loop {
            match EtcdStore::from_url(&S::url().parse().unwrap()).unwrap().connect().await {
                Ok(store) => return Arc::new(store),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // It closes its connection and says nothing.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::etcd::comes(&S::url(), name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    /// Whole seconds; waiters have a lease of their own where that is shorter by more than one.
    fn short(&self) -> Lives {
        Lives { ttl: Duration::from_secs(4), wait_ttl: Duration::from_secs(2), lock_delay: Duration::from_secs(1) }
    }

    fn weather(&self) -> Faults {
        Faults::none()
    }
}
