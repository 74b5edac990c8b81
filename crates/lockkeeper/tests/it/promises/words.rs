//! The meaning of the capabilities for a reader who chooses a store.

use std::time::Duration;

use lockkeeper::duration::format_duration;
use lockkeeper::store::{Admission, Capabilities, Expiry, Fencing, Wakes};

/// The rows that follow from the capabilities: the subject, the text, and the tests that show it.
pub(super) fn rows(can: &Capabilities) -> Vec<(&'static str, String, Vec<&'static str>)> {
    vec![locks(can), expiry(can), ttl(can), delay(can), minimum(can), line(can)]
}

fn locks(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    let (says, shown) = match can.admission {
        Admission::Weighted => (
            "Mutex, reentrant mutex, read-write lock, semaphore, several at once, election",
            vec!["suite `weights::a_writer_is_alone`", "suite `weights::permits_are_counted`"],
        ),
        Admission::ReadWrite => (
            "Mutex, reentrant mutex, read-write lock, several at once, election; no semaphore",
            vec!["suite `weights::a_writer_is_alone`", "suite `weights::readers_share`"],
        ),
        Admission::Permits => (
            "Semaphore; no mutex, no read-write lock and no election",
            vec!["`permits_are_shared_and_no_more_than_there_are`"],
        ),
        Admission::Exclusive => (
            "Mutex, reentrant mutex, several at once, election; no read-write lock and no semaphore",
            vec![
                "suite `claim::a_free_lock_is_granted`",
                "suite `multi::a_try_takes_all_or_nothing`",
            ],
        ),
    };
    let changed = if can.amend {
        ""
    } else {
        " A held lock cannot be changed: no downgrade, no proclaimed value."
    };
    ("Locks", format!("{says}.{changed}"), shown)
}

fn expiry(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    let (lease, shown) = match can.expiry {
        Expiry::PerClaim => {
            ("Each lock has its own lease.", "suite `renew::only_what_is_listed_is_renewed`")
        }
        Expiry::Session { .. } => (
            "The locks of a client live and end with its session.",
            "suite `session::an_expired_session_is_lost`",
        ),
    };
    let (detached, shown_too) = if can.resumable {
        let outlives = "A `detached` lock outlives the client that acquired it.";
        (outlives, "suite `detached::it_outlives_its_process`")
    } else {
        let none = "`engine::detached::where_locks_end_with_their_connection_none_is_detached`";
        ("No lock can be `detached`.", none)
    };
    ("Expiry of a lock", format!("{lease} {detached}"), vec![shown, shown_too])
}

fn ttl(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    ("ttl", format!("{}.", range(can)), vec!["suite `session::what_is_out_of_range_is_refused`"])
}

fn delay(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    if can.lock_delay_max.is_zero() {
        return (
            "Lock-delay",
            "None.".to_owned(),
            vec!["suite `session::what_is_out_of_range_is_refused`"],
        );
    }
    // The first two cases have a waiter.
    let mut shown = match can.queue {
        true => vec![
            "suite `expiry::the_lock_delay_is_kept`",
            "suite `delay::a_crash_lets_the_delay_run_out`",
        ],
        false => vec!["suite `expiry::a_release_ends_the_lock_delay`"],
    };
    let mut together = String::new();
    if can.keep_max < can.ttl_max + can.lock_delay_max {
        together = format!(", and {} together with the ttl", duration(can.keep_max));
        shown.push("suite `session::what_is_out_of_range_is_refused`");
    }
    ("Lock-delay", format!("Up to {}{together}.", duration(can.lock_delay_max)), shown)
}

fn minimum(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    let refused = "suite `min_hold::what_the_store_cannot_keep_is_refused`";
    if can.min_hold_max.is_zero() {
        let none = "None: `min_hold` and `run --once-per` are refused. `run --min-hold` then holds the lock itself.";
        return ("Minimum hold", none.to_owned(), vec![refused]);
    }
    let shown = vec![
        "suite `hold::what_was_released_is_kept`",
        "suite `hold::a_crashed_holders_lock_is_kept`",
        refused,
    ];
    let says = "The store keeps the lock without a process, whatever happens to the holder.";
    ("Minimum hold", format!("Up to {}. {says}", duration(can.min_hold_max)), shown)
}

fn line(can: &Capabilities) -> (&'static str, String, Vec<&'static str>) {
    if !can.queue {
        let shown = vec!["`engine::unfair::where_the_store_keeps_no_line_lock_waits_all_the_same`"];
        return (
            "Queue",
            "None: the first attempt after a release gets the lock.".to_owned(),
            shown,
        );
    }
    let shown = vec![
        "suite `claim::a_full_line_takes_nobody`",
        "`engine::waiting::a_line_is_no_longer_than_the_store_bears`",
    ];
    ("Queue", format!("Up to {} waiters, 1000 by default (`max_waiters`).", can.max_waiters), shown)
}

/// The shortest and the longest ttl, as text.
pub(super) fn range(can: &Capabilities) -> String {
    format!("{} to {}", duration(can.ttl_min), duration(can.ttl_max))
}

/// The supported kinds of locks, in a few words.
pub(super) fn kinds(can: &Capabilities) -> &'static str {
    match can.admission {
        Admission::Weighted => "all",
        Admission::ReadWrite => "no semaphore",
        Admission::Permits => "semaphore",
        Admission::Exclusive => "mutex, election",
    }
}

/// For how long fencing tokens rise.
pub(super) fn tokens(can: &Capabilities) -> &'static str {
    match can.fencing {
        Fencing::Durable => "as long as its data is kept",
        Fencing::UntilFailover => "unless data is lost and the server's clock is behind",
        Fencing::None => "for lockkeeper only",
    }
}

/// How a waiter learns that it has the lock.
pub(super) fn waiting(can: &Capabilities) -> &'static str {
    match (can.queue, can.wake) {
        (true, Wakes::Push) => "in a queue, woken by the store",
        (true, Wakes::Poll) => "in a queue, ask the store from time to time",
        (false, Wakes::Push) => "in no order, woken by the store",
        (false, Wakes::Poll) => "in no order, ask the store from time to time",
    }
}

fn duration(d: Duration) -> String {
    const DAY: u64 = 24 * 3600;
    match d.as_secs() {
        seconds if seconds > DAY && seconds.is_multiple_of(DAY) => {
            format!("{} days", seconds / DAY)
        }
        _ => format_duration(d),
    }
}

#[test]
fn what_a_store_has_not_is_said() {
    let weak = Capabilities {
        admission: Admission::Exclusive,
        fencing: Fencing::None,
        queue: false,
        wake: Wakes::Poll,
        expiry: Expiry::Session { proof_lag: 1 },
        resumable: false,
        lock_delay_max: Duration::ZERO,
        min_hold_max: Duration::ZERO,
        amend: false,
        ..Capabilities::full()
    };
    let says: Vec<_> = rows(&weak).into_iter().map(|(_, says, _)| says).collect();
    assert!(says[0].ends_with(
        "no semaphore. A held lock cannot be changed: no downgrade, no proclaimed value."
    ));
    assert!(says[1].ends_with("No lock can be `detached`."));
    assert_eq!(says[2..4], ["100ms to 365 days.", "None."]);
    assert!(says[4].starts_with("None") && says[5].starts_with("None"));
    assert_eq!(waiting(&weak), "in no order, ask the store from time to time");
}
