//! The order of requests, without a connection.

use std::time::Duration;

use super::super::answer::Answer;
use super::super::nonce::Nonces;
use super::super::queue::{Queue, Slot, Whose};
use super::super::request::Request;
use crate::time::{Clock, Instant};

fn queue(requests: &[&str]) -> (Queue, Instant) {
    let now = Clock::boot().now();
    let mut queue = Queue::default();
    for text in requests {
        queue.push(text.as_bytes().to_vec(), Whose::Request(Answer::new().0, None), now);
    }
    (queue, now)
}

fn waiting(queue: &mut Queue, now: Instant) -> String {
    String::from_utf8(queue.gather(now).to_vec()).unwrap()
}

#[test]
fn whatever_part_was_written_exactly_what_was_not_begun_is_written_again() {
    for written in 0..=6 {
        let (mut queue, now) = queue(&["aa", "bb", "cc"]);
        assert_eq!(queue.gather(now), b"aabbcc");
        queue.wrote(written);
        let broken = queue.lose();
        assert_eq!(broken.len(), written.div_ceil(2), "{written} bytes");
        assert_eq!(
            waiting(&mut queue, now),
            &"aabbcc"[2 * written.div_ceil(2)..],
            "{written} bytes"
        );
    }
}

#[test]
fn requests_that_wait_again_precede_ungathered_ones() {
    let (mut queue, now) = queue(&["aa"]);
    queue.gather(now);
    queue.push(b"bb".to_vec(), Whose::Request(Answer::new().0, None), now);
    assert!(queue.lose().is_empty());
    assert_eq!(waiting(&mut queue, now), "aabb");
}

#[test]
fn the_drivers_own_requests_end_with_their_connection() {
    let (mut queue, now) = queue(&["aa"]);
    queue.push(b"ping".to_vec(), Whose::Ours(Nonces::new().next()), now);
    queue.push_first([(b"sub".to_vec(), Whose::Ours(Nonces::new().next()))].into_iter(), now);
    assert_eq!(queue.gather(now), b"subaaping");
    queue.lose();
    assert_eq!(waiting(&mut queue, now), "aa");
}

/// As calls do whose scripts the server lacks, also if the first call is written or given up before
/// the second is put back.
#[test]
fn what_goes_before_the_others_keeps_its_own_order() {
    let first = |queue: &mut Queue, texts: [&'static str; 2], now| {
        queue.push_first(
            texts.map(|text| (text.as_bytes(), Whose::Request(Answer::new().0, None))).into_iter(),
            now,
        );
    };
    let (mut queue, now) = queue(&["later"]);
    first(&mut queue, ["load1 ", "call1 "], now);
    first(&mut queue, ["load2 ", "call2 "], now);
    assert_eq!(waiting(&mut queue, now), "load1 call1 load2 call2 later");
    queue.wrote(64);
    queue.push(b"later".to_vec(), Whose::Request(Answer::new().0, None), now);
    first(&mut queue, ["load3 ", "call3 "], now);
    assert_eq!(waiting(&mut queue, now), "load3 call3 later");
    // The first requests of the next connection come before the repeated ones.
    queue.lose();
    first(&mut queue, ["sub1 ", "sub2 "], now);
    assert_eq!(waiting(&mut queue, now), "sub1 sub2 load3 call3 later");
    queue.lose();
    queue.push_first([(b"old ".to_vec(), Whose::Request(Answer::new().0, None))].into_iter(), now);
    assert_eq!(queue.expire(now + Duration::from_secs(1), Duration::from_secs(1)).len(), 6);
    queue.push(b"later".to_vec(), Whose::Request(Answer::new().0, None), now);
    first(&mut queue, ["load4 ", "call4 "], now);
    assert_eq!(waiting(&mut queue, now), "load4 call4 later");
}

#[test]
fn the_limit_counts_from_the_request_through_all_tries() {
    let second = Duration::from_secs(1);
    let (mut queue, now) = queue(&["aa", "bb"]);
    queue.gather(now + second);
    queue.lose();
    assert_eq!(queue.waits_since(), Some(now));
    assert!(queue.expire(now + second, 2 * second).is_empty());
    let expired: Vec<Slot> = queue.expire(now + 2 * second, 2 * second);
    assert_eq!(expired.len(), 2);
    assert!(queue.is_empty());
}

#[test]
fn a_request_is_unanswered_since_it_was_written() {
    let second = Duration::from_secs(1);
    let (mut queue, now) = queue(&["aa"]);
    assert_eq!(queue.unanswered_since(), None);
    queue.gather(now + second);
    assert_eq!(queue.unanswered_since(), Some(now + second));
}

#[test]
fn one_write_has_a_limit_and_a_large_request_is_not_split() {
    let now = Clock::boot().now();
    let mut queue = Queue::default();
    let large = Request::command(&[&vec![b'x'; 1 << 20]]).bytes;
    queue.push(b"small".to_vec(), Whose::Ours(Nonces::new().next()), now);
    queue.push(large.clone(), Whose::Ours(Nonces::new().next()), now);
    queue.push(b"small".to_vec(), Whose::Ours(Nonces::new().next()), now);
    for expected in [5, large.len(), 5] {
        assert_eq!(queue.gather(now).len(), expected);
        queue.wrote(expected);
    }
    assert!(queue.gather(now).is_empty());
}

/// TLS may have sent a part of the gathered bytes when it fails.
#[test]
fn what_may_have_been_written_is_not_written_again() {
    let (mut queue, now) = queue(&["aa", "bb"]);
    queue.gather(now);
    queue.may_be_written();
    assert_eq!(queue.lose().len(), 2);
    assert_eq!(queue.gather(now), b"");
}
