//! Requests as they are written, and answers of any kind. With a real server, also the scripts.

#[cfg(feature = "live")]
mod check;

use std::time::Duration;

use proptest::prelude::*;
use redis::Value;

use super::scripts::number;
use super::*;
use crate::store::{
    Claim, ClaimId, ClaimKey, IdHash, Live, LiveState, MAX, Meta, SessionId, Verdict,
};
use crate::{ErrorKind, LockName};
use lockkeeper_core::Effect;

fn a_claim() -> Claim {
    Claim {
        key: ClaimKey {
            name: "stock/42".parse().unwrap(),
            session: SessionId::new("s"),
            id: ClaimId::from_bytes([7; 16]),
        },
        ttl: Duration::from_secs(30),
        wait_ttl: Duration::from_secs(5),
        lock_delay: Duration::ZERO,
        weight: MAX,
        capacity: MAX,
        queue: true,
        resend: false,
        replaces: None,
        max_waiters: 1000,
        meta: Meta { owner: "me".into(), ..Meta::default() },
    }
}

/// Whatever a server, a proxy or another program may answer.
fn values() -> impl Strategy<Value = Value> {
    let letter = prop::sample::select(b"gqbxcefl\x01".to_vec());
    let packed =
        (letter, prop::collection::vec(any::<u8>(), 0..120)).prop_map(|(letter, mut rest)| {
            rest.insert(0, letter);
            rest
        });
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        (-2..3_i64).prop_map(Value::Int),
        any::<f64>().prop_map(Value::Double),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Value::BulkString),
        prop::collection::vec(any::<u8>(), 16).prop_map(Value::BulkString),
        packed.clone().prop_map(Value::BulkString),
        packed.prop_map(|rest| Value::BulkString([vec![7; 8], rest].concat())),
        ".{0,20}".prop_map(Value::SimpleString),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_answer_makes_a_panic(value in values()) {
        let claim = a_claim();
        let live = [Live { key: claim.key.clone(), state: LiveState::Granted }];
        let names = [Keys::of(&claim.key.name)];
        let hash: IdHash = claim.key.id.hash();
        drop(claim_answer(&claim, &value));
        drop(renew_answer(&live, &value));
        drop(withdraw_answer(&value));
        drop(look_answer(&claim.key, &value));
        drop(line_answer(&claim.key.name, &value));
        drop(find(&claim.key.name, &value, hash));
        drop(observe_answer(&value));
        drop(amend_answer(&claim.key, &value));
        drop(id_answer(&value));
        drop(evict_answer(&value));
        drop(holders_answer(&value));
        drop(request_answer(&value));
        drop(lines_answer(&names, &value));
        let location = KeyLocation::of("a");
        drop(load_answer(&location, &value));
        drop(swap_answer(&location, &value));
    }

    #[test]
    fn an_integer_or_an_answer_for_another_claim_is_no_grant_and_no_state(
        micros in 1_u64..1 << 53,
        other: [u8; 8],
    ) {
        let (claim, number) = (a_claim(), Value::Int(micros.cast_signed()));
        prop_assume!(other != [7; 8]);
        let raw = [other.to_vec(), numbers(b'g', &[1e15, micros as f64])].concat();
        for value in [&number, &Value::BulkString(raw)] {
            let error = claim_answer(&claim, value).unwrap_err();
            prop_assert_eq!((error.kind(), error.effect()), (ErrorKind::Internal, Effect::Unknown));
            prop_assert!(look_answer(&claim.key, value).is_err());
        }
        let live = [Live { key: claim.key, state: LiveState::Granted }];
        for now in [number.clone(), Value::BulkString([&other[..], &1e15_f64.to_le_bytes()].concat())] {
            prop_assert!(renew_answer(&live, &Value::Array(vec![number.clone(), now])).is_err());
        }
    }
}

/// The answer of the script about `a_claim`.
fn reply(kind: u8, of: &[f64]) -> Vec<u8> {
    [vec![7; 8], numbers(kind, of)].concat()
}

fn numbers(kind: u8, numbers: &[f64]) -> Vec<u8> {
    std::iter::once(kind).chain(numbers.iter().flat_map(|number| number.to_le_bytes())).collect()
}

#[test]
fn refusals_say_what_others_use() {
    let claim = a_claim();
    let answer = |kind, number| {
        claim_answer(&claim, &Value::BulkString(reply(kind, &[1e15, number]))).unwrap_err()
    };
    assert!(answer(b'c', 0.0).to_string().contains("others use it as a semaphore"));
    assert!(answer(b'e', 7.0).to_string().contains("epoch 7"));
    assert_eq!(answer(b'f', 1000.0).kind(), ErrorKind::QueueFull);
}

#[test]
fn the_first_in_line_looks_when_the_next_holder_would_die() {
    let claim = a_claim();
    let look_again = |first: f64| {
        let mut answer = reply(b'q', &[1e15, 1e15, 3.0, 0.0, first]);
        answer.extend_from_slice(&1_u32.to_le_bytes());
        match claim_answer(&claim, &Value::BulkString(answer)).unwrap() {
            Verdict::Queued { ahead: 1, look_again, .. } => look_again,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(look_again(2e6), Duration::from_millis(2001));
    let others = look_again(-1.0);
    assert!(others >= Duration::from_secs(5) && others <= Duration::from_secs(10), "{others:?}");
}

#[test]
fn a_revision_covers_every_part_of_the_state() {
    let revision = |last, left, touched| Seen { last, left, touched }.revision();
    let all = [
        revision(5.0, 1.0, 0.0),
        revision(6.0, 1.0, 0.0),
        revision(5.0, 0.0, 0.0),
        revision(5.0, 1.0, 1.0),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(!all[i + 1..].contains(one));
    }
    assert_eq!(all[0], revision(5.0, 1.0, 0.0));
}

#[test]
fn a_scan_misses_no_name_with_the_prefix() {
    // `lk:{*`, or `lk:{[xh]*`.
    let matches = |pattern: &str, key: &[u8]| {
        let (begin, set) = pattern.strip_suffix('*').unwrap().split_at(4);
        let first = key.strip_prefix(begin.as_bytes()).and_then(|rest| rest.first());
        set.is_empty()
            || first.is_some_and(|first| set.as_bytes()[1..set.len() - 1].contains(first))
    };
    for prefix in ["", "a", "a.", ".", "..", "h", "h.", "a/", "é", "a..b."] {
        let pattern = pattern(prefix);
        assert!(["lk:{*".len(), "lk:{[xh]*".len()].contains(&pattern.len()), "{pattern}");
        for rest in ["", "x", ".", ".x", "/y", &"/".repeat(100)] {
            let Ok(name) = LockName::new(&format!("{prefix}{rest}")) else { continue };
            let keys = Keys::of(&name);
            assert!(matches(&pattern, keys.all()[0]), "{prefix:?} {name:?}");
        }
    }
}

#[test]
fn only_a_plain_first_claim_takes_the_short_way() {
    let channel = Channel { bytes: b"lk:w:me".as_slice().into(), sharded: false };
    let first = |claim: &Claim| super::claim::options(claim, &channel)[0];
    let claim = a_claim();
    assert_eq!(first(&claim), b'1');
    assert_eq!(first(&Claim { queue: false, ..claim.clone() }), b'0');
    assert!(first(&Claim { resend: true, ..claim.clone() }) >= b'2');
    assert!(first(&Claim { ttl: Duration::from_secs(86_401), ..claim.clone() }) >= b'2');
    assert!(first(&Claim { replaces: Some(claim.key.id), ..claim }) >= b'2');
}

#[test]
fn the_scripts_know_where_the_fields_of_a_claim_are() {
    let (client, name) = (ClientId::random(), "/".repeat(100));
    let mut claim =
        Claim { weight: 3, capacity: 5, lock_delay: Duration::from_secs(2), ..a_claim() };
    claim.key.name = LockName::new(&name).unwrap();
    claim.meta = Meta {
        owner: "me".into(),
        reason: Some("why".into()),
        value: Some((*b"value").into()),
        epoch: 7,
    };
    let record = super::claim::record(&claim, &client);
    let from =
        |field| &record[usize::try_from(number(field) - number("SENT_SHIFT") - 1).unwrap()..];
    assert!(from("CAPACITY").starts_with(&5_u32.to_le_bytes()));
    assert!(from("WEIGHT").starts_with(&3_u32.to_le_bytes()));
    assert!(from("LIFE").starts_with(&micros(claim.ttl + claim.lock_delay).to_le_bytes()));
    let shown = from("SHOWN");
    assert!(from("LENGTH").starts_with(&u32::try_from(shown.len()).unwrap().to_le_bytes()));
    assert!(from("CLIENT").starts_with(client.as_bytes()));
    assert!(from("DELAY").starts_with(&2000_u32.to_le_bytes()));
    assert!(from("NAME_LEN").starts_with(&[100]));
    assert!(from("EPOCH").starts_with(&7_u16.to_le_bytes()));
    assert_eq!(u64::from(from("FLAGS")[0]), number("REASON") + number("VALUE"));
    assert!(from("OWNER_LEN").starts_with(&2_u16.to_le_bytes()));
    assert!(from("VALUE_LEN").starts_with(&5_u32.to_le_bytes()));
    assert_eq!(from("TEXTS"), [name.as_bytes(), b"mewhyvalue"].concat());
    assert_eq!(u64::from(ALONE), number("ALONE"));
}
