use super::*;

fn grant(mode: Mode, token: u64) -> Sequencer {
    Sequencer::new("stock/42".parse().unwrap(), mode, FencingToken::new(0, token).unwrap())
}

#[test]
fn the_marks_of_a_key_are_in_its_slot() {
    assert_eq!(FencedKey::new("stock:42").unwrap().marks, "{stock:42}:fence");
    for tagged in ["{stock}:42", "a{b}c}"] {
        assert_eq!(FencedKey::new(tagged).unwrap().marks, format!("{tagged}:fence"));
    }
    for bad in ["", "a{}b", "a}b", "a{b", "}{"] {
        assert_eq!(FencedKey::new(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
    }
}

#[test]
fn the_holder_of_a_read_lock_may_read_only() {
    let key = FencedKey::new("k").unwrap();
    let reader = grant(Mode::Shared, 7);
    assert_eq!(key.read(&reader, &["GET"]).unwrap().args, [&b"s"[..], b"7", b"GET"]);
    assert_eq!(key.admit(&reader).unwrap().args, [&b"s"[..], b"7"]);
    assert_eq!(key.write(&reader, &["SET", "1"]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn permits_have_no_gate() {
    let key = FencedKey::new("k").unwrap();
    let error = key.admit(&grant(Mode::Permits(1), 7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("cannot be checked by a gate"), "{error}");
}

#[test]
fn an_answer_says_whether_it_passed() {
    assert_eq!(Answer::of(1, Some("anything")).unwrap(), Answer::Passed);
    let seen = FencingToken::new(0, 35).unwrap();
    assert_eq!(Answer::of(0, Some("35")).unwrap(), Answer::Stale { seen });
    for (first, second) in [(0, None), (0, Some("x")), (2, None)] {
        assert!(Answer::of(first, second).is_err(), "{first} {second:?}");
    }
}
