//! Tests of the suite: each wrong store fails the case that has to find it.

use lockkeeper_testing::wrong::{self, Mutant, Mutated};
use lockkeeper_testing::{MemoryHarness, cases, run};

use crate::by_session::BySession;

/// A store without a defect, through the same wrapper.
#[derive(Debug, Default)]
pub(crate) struct Unmutated;

impl Mutant for Unmutated {}

macro_rules! caught {
    ($($test:ident: $mutant:ident by $group:ident::$case:ident;)*) => {
        $(#[test]
        fn $test() {
            let name = stringify!($group::$case);
            run::<Mutated<MemoryHarness, Unmutated>>(name, &[], async |case| cases::$group::$case(case).await);
            let complaint = wrong::complaint::<MemoryHarness, wrong::$mutant>(
                name,
                async |case| cases::$group::$case(case).await,
            );
            assert!(complaint.is_some(), "{name} finds nothing wrong");
        })*
    };
}

caught! {
    a_release_without_owner_check: ReleaseWithoutOwnerCheck by withdraw::only_the_id_that_is_named_is_removed;
    a_token_from_a_clock: TokenFromAClock by token::they_rise_over_releases;
    no_tombstone: NoTombstone by withdraw::a_late_copy_of_a_released_claim_is_gone;
    no_tombstone_for_a_waiter: NoTombstone by withdraw::a_late_copy_of_a_waiting_claim_is_gone;
    a_resend_that_leaves_no_tombstone: ForgetfulResend by claim::a_resend_that_finds_nothing_spends_the_id;
    a_resend_without_a_new_ttl: ResendWithoutNewTtl by expiry::a_resent_claim_starts_its_ttl_again;
    a_renewal_that_creates: RenewalThatCreates by renew::a_renewal_never_revives_what_was_withdrawn;
    a_renewal_that_revives: RenewalThatCreates by renew::a_renewal_never_revives_what_expired;
    a_renewal_of_the_session_only: RenewalOfTheSession by renew::a_healthy_session_proves_nothing;
    a_waiter_taken_for_a_holder: WaiterTakenForAHolder by renew::a_waiter_learns_that_it_waits;
    any_claim_that_fits: AnyThatFits by weights::a_large_claim_holds_up_smaller_ones;
    any_try_that_fits: AnyThatFits by weights::a_try_does_not_overtake;
    a_starved_writer: AnyThatFits by weights::a_writer_is_not_starved;
    a_claim_that_sees_only_itself: OwnWeightOnly by claim::a_held_lock_is_not_granted_again;
    a_purge_that_wakes_nobody: SilentPurge by expiry::who_finds_a_dead_holder_wakes_the_others;
    a_wake_up_lost_before_the_wait: ListensOnlyWhileItWaits by wait::a_grant_before_the_wait_is_not_missed;
    a_push_that_gives_time: PushThatGivesTime by expiry::a_pushed_grant_gives_no_new_time;
    a_try_that_stays_in_line: TryThatStays by claim::a_try_leaves_no_trace;
    a_grant_that_is_taken_back: UnstickyGrant by claim::a_grant_is_sticky;
    a_number_of_permits_that_is_ignored: FirstCapacityForAll by sizes::a_smaller_number_waits_until_it_is_kept_to;
    a_first_number_that_counts_for_ever: FirstCapacityForAll by sizes::a_larger_number_counts_when_the_smaller_has_left;
    a_limit_of_others_that_is_ignored: OwnCapacityOnly by sizes::a_larger_number_behind_lifts_no_limit;
    a_try_by_its_own_limit_only: OwnCapacityOnly by sizes::a_try_keeps_to_everybodys_number;
    a_kind_that_is_ignored: FirstCapacityForAll by claim::a_mutex_and_a_semaphore_do_not_mix;
    names_without_regard_to_case: FoldedNames by names::near_collisions_are_different_locks;
    an_upgrade_in_two_steps: UpgradeInTwoSteps by weights::a_reader_in_company_is_not_replaced;
    a_downgrade_by_leaving: DowngradeByLeaving by amend::a_downgrade_lets_readers_in;
    permits_that_stay: KeepsWhatIsGivenBack by amend::permits_that_are_given_back_let_others_in;
    a_late_change_that_counts: RaisesWhatWasLowered by amend::what_was_lowered_is_not_raised;
    no_lock_delay: NoLockDelay by expiry::the_lock_delay_is_kept;
    no_minimum_hold: NoMinHold by hold::what_was_released_is_kept;
    no_minimum_hold_for_who_waits: NoMinHold by hold::who_waits_gets_it_when_it_is_over;
    a_minimum_hold_that_a_dead_holder_does_not_keep: MinHoldByTheHolder by hold::a_dead_holders_lock_is_kept;
    a_minimum_hold_that_ends_with_a_crash: MinHoldByTheHolder by hold::a_crashed_holders_lock_is_kept;
    a_minimum_hold_that_begins_at_the_end: MinHoldByTheHolder by hold::a_late_release_is_immediate;
    a_minimum_hold_of_a_waiter: MinHoldOfAWaiter by hold::a_waiter_has_none;
    a_minimum_hold_that_ends_with_an_upgrade: MinHoldLostByAnUpgrade by hold::a_replacement_inherits_it;
    a_lock_that_is_kept_for_its_holder: KeepsForItsHolder by hold::what_is_kept_is_nobodys;
    a_waiter_that_lives_too_long: LongLivedWaiter by expiry::a_silent_waiter_leaves_the_line;
    leftovers_that_go_at_once: HastyLeftovers by session::leftovers_are_removed;
    a_ttl_as_it_was_asked_for: RepeatsTheTtlOfTheRequest by claim::answers_have_the_ttl_that_is_kept;
    a_ttl_of_a_waiter_as_it_was_asked_for: RepeatsTheTtlOfTheRequest by claim::a_waiter_keeps_the_ttl_of_its_first_request;
    a_ttl_with_its_lock_delay: AddsTheLockDelay by claim::the_ttl_of_answers_is_without_the_lock_delay;
    a_ttl_of_the_latest_copy: LatestTtlCounts by expiry::a_longer_ttl_of_a_later_copy_does_not_count;
    a_wake_up_of_the_first_client: WakesTheFirstClient by wait::a_claim_sent_again_elsewhere_is_woken_there;
    a_wake_up_that_is_taken_away: TakesTheWakeUpAwaySilently by wait::no_other_client_takes_a_wake_up_away;
    a_late_change_that_is_applied: AppliesWhatComesLast by amend::a_late_copy_of_an_older_change_changes_nothing;
    numbers_of_each_client: NumbersOfTheClient by amend::a_late_copy_through_another_client_changes_nothing;
    numbers_of_each_kind: NumbersOfTheKind by amend::changes_of_all_kinds_are_numbered_together;
    a_minimum_hold_without_a_number: NumbersOfTheKind by amend::a_minimum_hold_is_numbered_too;
    a_page_that_begins_with_the_last_name: ShowsTheLastOneAgain by admin::names_come_in_pages;
    pages_by_number: CountsTheNamesBefore by admin::a_listing_in_pages_misses_nothing_that_stays;
    an_id_of_each_client: IdOfTheClient by identity::all_clients_see_one_id;
    a_close_by_the_list: CloseByTheList by session::closing_frees_everything;
    an_opening_that_empties_the_session: EmptiesOpenedSessions by session::the_same_id_is_the_same_session;
    an_opening_that_cannot_be_repeated: OpensOnce by session::the_same_id_is_the_same_session;
    a_session_of_the_first_opener: OpensOnce by sharing::two_clients_open_one_session;
    a_closed_session_that_is_opened_again: ReopensWhatWasClosed by session::a_closed_session_is_not_opened_again;
    a_close_that_only_its_client_remembers: RemembersItsOwnCloses by sharing::a_session_is_closed_for_all_clients;
    a_session_of_one_client: SessionOfOneClient by sharing::a_claim_is_renewed_through_another_client;
    a_session_in_which_one_client_claims: SessionOfOneClient by sharing::a_client_claims_in_the_session_of_another;
    a_session_in_which_one_client_waits: SessionOfOneClient by sharing::a_claim_goes_on_waiting_through_another_client;
    a_renewal_of_its_own_claims: RenewsItsOwnOnly by lives::a_claim_lives_on_another_clients_renewals;
    a_renewal_of_its_own_waiters: RenewsItsOwnOnly by lives::a_waiter_lives_on_another_clients_renewals;
    a_close_of_its_own_claims_by_the_list: ClosesItsOwnOnly by sharing::a_close_through_another_client_frees_what_it_lists;
    a_tombstone_of_the_session: TombstoneOfTheSession by session::a_tombstone_outlives_a_close;
}

/// Like `caught!`, on a store whose claims live as long as their session.
macro_rules! caught_by_session {
    ($($test:ident: $mutant:ident by $group:ident::$case:ident;)*) => {
        $(#[test]
        fn $test() {
            let name = stringify!($group::$case);
            run::<Mutated<MemoryHarness, BySession>>(name, &[], async |case| cases::$group::$case(case).await);
            let complaint = wrong::complaint::<Mutated<MemoryHarness, BySession>, wrong::$mutant>(
                name,
                async |case| cases::$group::$case(case).await,
            );
            assert!(complaint.is_some(), "{name} finds nothing wrong");
        })*
    };
}

caught_by_session! {
    other_durations_that_are_taken: TakesAnyDurations by session::other_durations_are_refused;
    an_opening_without_a_new_ttl: OpeningWithoutNewTtl by lives::a_repeated_opening_starts_its_life_again;
    an_expired_session_that_takes_its_locks_back: RevivesTheExpired by lives::an_expired_session_comes_back_without_its_claims;
    leftovers_of_one_list: LeftoversOfOneList by lives::two_lists_lose_nothing;
    a_close_of_its_own_claims: ClosesItsOwnOnly by sharing::a_close_through_another_client_frees_everything;
}

/// The random walk against the model finds the same defects without a case for each.
macro_rules! found_at_random {
    ($($test:ident: $mutant:ident by $case:ident;)*) => {
        $(#[test]
        fn $test() {
            let complaint = wrong::complaint::<MemoryHarness, wrong::$mutant>(
                "model",
                async |case| cases::model::$case(case).await,
            );
            assert!(complaint.is_some(), "the model finds nothing wrong");
        })*
    };
}

found_at_random! {
    the_model_finds_any_that_fits: AnyThatFits by permits;
    the_model_finds_a_limit_of_others_that_is_ignored: OwnCapacityOnly by permits_of_changing_size;
    the_model_finds_a_missing_tombstone: NoTombstone by readers_and_writers;
    the_model_finds_a_release_without_owner_check: ReleaseWithoutOwnerCheck by readers_and_writers;
    the_model_finds_a_try_that_stays: TryThatStays by permits;
    the_model_finds_a_resend_without_a_new_ttl: ResendWithoutNewTtl by readers_and_writers;
    the_model_finds_an_upgrade_in_two_steps: UpgradeInTwoSteps by readers_and_writers;
}
