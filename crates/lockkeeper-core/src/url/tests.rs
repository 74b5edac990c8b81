use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

fn parse(text: &str) -> Result<StoreUrl> {
    super::parse::parse(text, Some("/home/me"))
}

fn refused(text: &str) -> String {
    let error = parse(text).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    error.to_string()
}

#[test]
fn every_part_is_read() {
    let url =
        parse("REDISS+sentinel://us%40er:p%3Aw@s1:26379,[::1]:7,[fe80::2],s-3.example/my%20master/2?layout=plain")
            .unwrap();
    assert_eq!((url.scheme, url.user.as_deref()), ("rediss+sentinel", Some("us@er")));
    assert_eq!(url.password.as_ref().map(Secret::expose), Some("p:w"));
    let hosts: Vec<_> = url.hosts.iter().map(|h| (h.name.as_str(), h.port)).collect();
    assert_eq!(
        hosts,
        [("s1", Some(26379)), ("::1", Some(7)), ("fe80::2", None), ("s-3.example", None)]
    );
    assert_eq!((url.path.as_str(), url.params["layout"].as_str()), ("/my master/2", "plain"));
    assert_eq!(
        url.to_string(),
        "rediss+sentinel://us%40er:***@s1:26379,[::1]:7,[fe80::2],s-3.example/my%20master/2?layout=plain"
    );
}

#[test]
fn common_parameters_are_typed() {
    let url = parse("memory:?prefix=a%26b/&epoch=511&ttl=1m30s&max-waiters=0&unsafe=role,fsync-2")
        .unwrap();
    let expected = CommonParams {
        prefix: Some("a&b/".into()),
        epoch: Some(511),
        ttl: Some(Duration::from_secs(90)),
        max_waiters: Some(0),
        unsafe_checks: vec!["role".into(), "fsync-2".into()],
        open_within: None,
    };
    assert_eq!(url.common, expected);
    assert_eq!(
        url.to_string(),
        "memory:?prefix=a%26b/&epoch=511&ttl=1m30s&max-waiters=0&unsafe=role,fsync-2"
    );
    assert_eq!(parse("memory:?").unwrap().common, CommonParams::default());
}

#[test]
fn what_a_url_sets_is_not_replaced_by_a_default() {
    let url = parse("memory:?ttl=5s&prefix=").unwrap();
    let url =
        [("ttl", "9s"), ("prefix", "p/"), ("epoch", "3"), ("max-waiters", "7"), ("unsafe", "a,b")]
            .into_iter()
            .try_fold(url, |url, (name, value)| url.or_set(name, value))
            .unwrap();
    assert_eq!(url.to_string(), "memory:?prefix=&epoch=3&ttl=5s&max-waiters=7&unsafe=a,b");
    let refused =
        |name, value| parse("memory:").unwrap().or_set(name, value).unwrap_err().to_string();
    assert_eq!(refused("tll", "5s"), "\"tll\" is not a parameter of all stores. Try: ttl=");
    assert!(refused("ttl", "0").starts_with("ttl must be a duration above 0"));
    assert_eq!(refused("epoch", "x"), "epoch must be a number from 0 to 511. Try: 1");
}

#[test]
fn a_secret_that_is_put_in_is_not_shown() {
    let url = parse("https://me@h").unwrap();
    assert!(!url.has_password());
    let with = [
        url.clone().with_password(Secret::new("hunter2")),
        parse("mysql://me:old@h").unwrap().with_password(Secret::new("hunter2")),
    ];
    for url in with {
        let error = url.lacking();
        let shown = format!("{url} {url:?} {url:#?} {error} {error:?}");
        assert!(url.has_password() && !shown.contains("hunter2"), "{shown}");
        assert_eq!(url.password.unwrap().expose(), "hunter2");
    }
}

#[test]
fn paths_of_files_are_relative_absolute_or_below_home() {
    for (text, path, shown) in [
        ("file:locks.db", "locks.db", "file:locks.db"),
        ("file:./a/b.db", "./a/b.db", "file:./a/b.db"),
        ("file:/var/lib/x.db", "/var/lib/x.db", "file:/var/lib/x.db"),
        ("file:///var/lib/x.db", "/var/lib/x.db", "file:/var/lib/x.db"),
        ("file:////x", "//x", "file:////x"),
        ("file:~/x.db?ttl=5", "/home/me/x.db", "file:/home/me/x.db?ttl=5s"),
        ("file:a%20b@c#d%3Fe", "a b@c#d?e", "file:a%20b%40c%23d%3Fe"),
        ("FILE:~other/x", "~other/x", "file:~other/x"),
    ] {
        let url = parse(text).unwrap();
        assert_eq!((url.path.as_str(), url.to_string().as_str()), (path, shown), "{text}");
        assert_eq!(parse(shown).unwrap().path, path);
    }
    for text in ["file:", "file:?ttl=5s", "file:~", "file://host/x", "file://"] {
        refused(text);
    }
    let error = super::parse::parse("file:~/x", None).unwrap_err();
    assert!(error.to_string().contains("HOME is not set"), "{error}");
}

#[test]
fn a_wrong_url_is_refused_with_the_remedy() {
    for (text, message) in [
        ("", "the URL of the store has no scheme. Try: etcd://HOST, redis://HOST or file:PATH"),
        ("prod", "the URL of the store has no scheme. Try: etcd://HOST, redis://HOST or file:PATH"),
        ("reddis://h", "reddis:// is not the scheme of a store. Try: redis://"),
        ("flie:x", "the URL of the store does not begin with the scheme of a store. Try: file:"),
        (
            "nosql://h",
            "nosql:// is not the scheme of a store. Try: etcd://HOST, redis://HOST or file:PATH",
        ),
        ("redis:h", "after redis: two slashes and a host are missing. Try: redis://HOST"),
        ("memory:x", "memory: has neither a host nor a path. Try: memory: alone"),
        ("memory:?ttl", "a parameter of the store's URL has no value. Try: NAME=VALUE"),
        ("memory:?ttl=5&ttl=5", "\"ttl\" is given twice in the store's URL. Try: one of them"),
        (
            "memory:?epoch=512",
            "epoch= of the store's URL must be a number from 0 to 511, and is \"512\". Try: epoch=1",
        ),
        (
            "memory:?max-waiters=-1",
            "max-waiters= of the store's URL must be a number below 2^32, and is \"-1\". Try: max-waiters=1000",
        ),
        (
            "memory:?unsafe=a,,b",
            "unsafe= of the store's URL must be names of checks, separated by commas, and is \"a,,b\". Try: unsafe=NAME,NAME",
        ),
        (
            "redis://",
            "host 1 of the store's URL is empty. Try: localhost, or the name of the store's host",
        ),
        (
            "redis://a,::1",
            "host 2 of the store's URL has more than one colon. Try: […] around an IPv6 address",
        ),
        (
            "redis://a:0",
            "host 1 of the store's URL has the port 0, and a port is a number from 1 to 65535. Try: HOST:PORT, or HOST for the usual port",
        ),
        (
            "redis://b,a:99999",
            "host 2 of the store's URL has the port 99999, and a port is a number from 1 to 65535. Try: HOST:PORT, or HOST for the usual port",
        ),
        (
            "redis://a:123456",
            "host 1 of the store's URL has a port that is not a number from 1 to 65535. Try: HOST:PORT, or HOST for the usual port",
        ),
        (
            "redis://h/%zz",
            "the path of the store's URL has a % without two hexadecimal digits. Try: %25 for a % itself",
        ),
        (
            "redis://h/%00",
            "the path of the store's URL contains a control character. Try: text of one line",
        ),
        (
            "redis://h/%FF",
            "the path of the store's URL is not UTF-8 when decoded. Try: %C3%A4 for an ä",
        ),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
}

#[test]
fn a_ttl_that_is_no_duration_is_refused_with_a_remedy() {
    for ttl in ["0", "0s", "forever", "", "5 s"] {
        assert!(
            refused(&format!("memory:?ttl={ttl}"))
                .starts_with("ttl= of the store's URL must be a duration above 0")
        );
    }
}

#[test]
fn a_host_that_cannot_be_read_is_refused() {
    for host in [
        "a b",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[1.2.3.4]",
        "a:+1",
        "a:65536",
        "a:",
        ",a",
        "a,,b",
        "a,",
        "h%41",
        ":1",
    ] {
        refused(&format!("redis://{host}"));
    }
}

#[test]
fn a_later_versions_store_is_unsupported_and_its_parameters_unchecked() {
    let url = parse("postgres://h/db?sslmode=require&sentinel-password=x").unwrap();
    let error = url.lacking();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "this version of lockkeeper does not have the store of postgres:// yet. Try: etcd://HOST, redis://HOST or file:PATH"
    );
    assert!(url.has_password());
    assert_eq!(url.to_string(), "postgres://h/db?sentinel-password=***&sslmode=require");
}

#[test]
fn a_password_is_not_shown_by_any_mistake_around_it() {
    for text in [
        "redis://user:hunter2@",
        "redis://user:hunter2",
        "redis://hunter2@a b",
        "redis:user:hunter2@h",
        "redis:/user:hunter2@h",
        "user:hunter2@h",
        "hunter2@redis://h",
        "hunter2:x@h",
        "reddis://user:hunter2@h",
        "redis://user:hunter2@h@i",
        "redis://user:hunter2@h,user:hunter2@i",
        "redis://user:12/hunter2@h",
        "redis://user:12?hunter2@h",
        "redis://user:12#hunter2@h",
        "redis://user:12/x?ttl=hunter2@h",
        "redis://user:hunter2%@h",
        "redis://user:hunter2@h:port",
        "redis://user:hunter2@h?ttl=x",
        "redis://user:hunter2\n@h",
        "redis://user:[hunter2",
        "memory://user:hunter2@h",
        "file://user:hunter2@h",
    ] {
        let error = parse(text).expect_err(text);
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("hunter2") && !error.to_string().contains('\n'), "{text}: {shown}");
    }
    let url = parse("redis://user:hunter2@h").unwrap();
    assert!(url.has_password() && !format!("{url} {url:?} {url:#?}").contains("hunter2"));
    assert!(!parse("redis://user:@h").unwrap().has_password());
}

/// The parts of a URL without the secrets.
type Rest =
    (&'static str, Option<String>, bool, Vec<Host>, String, CommonParams, BTreeMap<String, String>);

fn rest(url: &StoreUrl) -> Rest {
    let StoreUrl { scheme, user, password, hosts, path, common, params } = url.clone();
    (scheme, user, password.is_some(), hosts, path, common, params)
}

fn urls() -> impl Strategy<Value = String> {
    let encode = |text: String| utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string();
    let credentials = prop::option::of(("\\PC{0,9}", prop::option::of("\\PC{1,9}")).prop_map(
        move |(user, password)| {
            let password =
                password.map(|password| format!(":{}", encode(password))).unwrap_or_default();
            format!("{}{password}@", encode(user))
        },
    ));
    let host = "([a-z0-9.-]{1,9}|\\[::[1-9a-f]{1,4}\\])(:[1-9][0-9]{0,3})?";
    let query =
        prop::collection::btree_map("[a-m]{1,5}", "\\PC{0,9}", 0..3).prop_map(move |params| {
            let pairs: Vec<_> =
                params.into_iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
            pairs.join("&")
        });
    let common = "(prefix=[a-z/]{1,5}&)?(epoch=[1-9]&)?(ttl=[1-9]{1,3}(ms|s|m|h)?&)?(unsafe=[a-z-]{1,4}(,[a-z]{1,4})?&)?";
    let hosts = prop::collection::vec(host, 1..4).prop_map(|hosts| hosts.join(","));
    let path = "(/\\PC{0,9})?".prop_map(move |path| encode(path).replace("%2F", "/"));
    ("mysql|zk(s)?|postgres", credentials, hosts, path, common, query).prop_map(
        |(scheme, credentials, hosts, path, common, query)| {
            format!("{scheme}://{}{hosts}{path}?{common}{query}", credentials.unwrap_or_default())
        },
    )
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn nothing_that_looks_like_a_url_panics(
        text in "(memory|file|redis|etcd):/{0,3}[a-z:@,%0-9\\[\\]/?&=#~]{0,30}(ttl=|epoch=|prefix=)?\\PC{0,5}"
    ) {
        let _ = parse(&text).map(|url| format!("{url} {url:?}"));
    }

    #[test]
    fn what_is_shown_is_read_back_but_for_the_secrets(text in urls()) {
        let url = parse(&text).unwrap();
        let shown = url.to_string();
        let again = parse(&shown).unwrap();
        prop_assert_eq!(rest(&again), rest(&url), "{} {}", text, shown);
        prop_assert_eq!(again.to_string(), shown);
    }

    #[test]
    fn an_encoded_password_is_kept_and_never_shown(
        user in "\\PC{0,9}", tail in "\\PC{0,9}", host in "[a-z]{1,9}(:[1-9]{1,4})?|\\PC{0,9}", rest in "(/[a-z]{0,3})?"
    ) {
        let password = format!("hunter2{tail}");
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        match parse(&format!("mysql://{}:{}@{host}{rest}", encode(&user), encode(&password))) {
            Ok(url) => {
                prop_assert_eq!(url.password.as_ref().map(Secret::expose), Some(password.as_str()));
                let unsupported = url.lacking();
                let shown = format!("{url} {url:?} {url:#?} {unsupported} {unsupported:?}");
                prop_assert!(!shown.contains("hunter2"), "{}", shown);
            }
            Err(error) => prop_assert!(!format!("{error} {error:?}").contains("hunter2"), "{}", error),
        }
    }

    #[test]
    fn a_bare_password_is_never_shown(
        user in "\\PC{0,6}", head in "\\PC{0,4}|[0-9]{1,4}[/?#,@]", tail in "\\PC{0,6}", host in "[a-z]{1,9}|\\PC{0,9}"
    ) {
        let shown = match parse(&format!("redis://{user}:{head}hunter2{tail}@{host}")) {
            // A user with an unencoded colon makes the password longer, never visible.
            Ok(url) => format!("{url} {url:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains("hunter2"), "{}", shown);
    }
}
