//! etcd: started, stopped, killed, set up.

mod members;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use lockkeeper_live::{Etcd, etcd, etcd_debian, etcd_oldest, etcd_three, etcd_tls};

#[test]
fn each_of_the_shared_ones_answers() {
    let start = Instant::now();
    for (etcd, version, members) in [
        (etcd(), "3.6.", 1),
        (etcd_three(), "3.6.", 3),
        (etcd_tls(), "3.6.", 1),
        (etcd_oldest(), "3.5.14", 1),
        (etcd_debian(), "3.", 1),
    ] {
        let etcd = etcd.unwrap();
        eprintln!("{} after {:?}", etcd.url(), start.elapsed());
        let printed = etcd.control().version().unwrap();
        assert!(printed.starts_with(version), "{printed}");
        assert_eq!(etcd.addresses().len(), members);
    }
    assert_eq!(etcd().unwrap().pid(0), etcd().unwrap().pid(0));
}

#[test]
fn what_is_put_is_there_until_it_is_deleted() {
    let etcd = etcd().unwrap().control();
    let revision = etcd.put("put/a", "1").unwrap();
    let lease = etcd.grant(60).unwrap();
    assert!(etcd.put_with_lease("put/b", [0, 255], lease).unwrap() > revision);
    let keys = etcd.keys("put/").unwrap();
    assert_eq!(
        keys.iter().map(|entry| entry.key.as_slice()).collect::<Vec<_>>(),
        [b"put/a", b"put/b"]
    );
    assert_eq!(
        (keys[0].create_revision, keys[0].mod_revision, keys[0].lease),
        (revision, revision, 0)
    );
    assert_eq!(
        (keys[1].value.as_slice(), keys[1].version, keys[1].lease),
        (&[0, 255][..], 1, lease)
    );
    assert_eq!(etcd.lease_keys(lease).unwrap(), [b"put/b"]);
    assert!(etcd.leases().unwrap().contains(&lease) && etcd.lease_left(lease).unwrap() > Some(30));
    etcd.revoke(lease).unwrap();
    assert_eq!((etcd.get("put/b").unwrap(), etcd.lease_left(lease).unwrap()), (None, None));
    assert!(etcd.delete("put/a").unwrap() && !etcd.delete("put/a").unwrap());
    let error = etcd.revoke(lease).unwrap_err();
    assert!(format!("{error:#}").contains("lease not found"), "{error:#}");
}

#[test]
fn what_was_before_a_compaction_is_forgotten() {
    let etcd = Etcd::start().unwrap();
    let first = etcd.control().put("a", "1").unwrap();
    etcd.control().put("a", "2").unwrap();
    assert_eq!(etcd.control().compact().unwrap(), etcd.control().revision().unwrap());
    let old = serde_json::json!({ "key": "YQ==", "revision": first.to_string() });
    let error = etcd.control().call("kv/range", &old).unwrap_err();
    assert!(format!("{error:#}").contains("compacted"), "{error:#}");
}

#[test]
fn one_that_does_not_start_shows_what_it_said() {
    let error = Etcd::builder().option("no-such-option", "1").start().unwrap_err();
    assert!(format!("{error:#}").contains("no-such-option"), "{error:#}");
}

#[test]
fn who_logs_in_may_do_what_his_role_allows() {
    let etcd =
        Etcd::builder().login("lk", "hunter2").user("small", "hunter2", "small/").start().unwrap();
    assert!(etcd.url().starts_with("etcd://lk:") && etcd.url().contains("@127.0.0.1:"));
    let [all, small] = ["lk", "small"].map(|name| etcd.control().as_user(name, "hunter2"));
    all.put("a", "1").unwrap();
    small.put("small/a", "2").unwrap();
    assert_eq!((all.keys("").unwrap().len(), small.keys("small/").unwrap().len()), (2, 1));
    for refused in [small.put("a", "3"), small.put("smalm", "3"), small.compact()] {
        assert!(format!("{:#}", refused.unwrap_err()).contains("permission denied"));
    }
    let error = etcd.control().as_user("lk", "a guess").put("a", "3").unwrap_err();
    assert!(format!("{error:#}").contains("invalid user ID or password"), "{error:#}");
    assert_eq!(etcd.control().get("a").unwrap().unwrap().value, b"1");
}

#[test]
fn a_port_that_is_encrypted_has_no_other_clients() {
    let etcd = etcd_tls().unwrap();
    let mut stream = TcpStream::connect(etcd.addresses()[0]).unwrap();
    stream
        .write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.contains("200 OK"), "{answer}");
    assert!(
        etcd.url().starts_with("etcds://") && etcd.certificates().unwrap().authority().is_file()
    );
}

#[test]
fn a_full_one_takes_nothing_until_there_is_room_again() {
    let etcd = Etcd::builder().quota(8 << 20).start().unwrap();
    let much = vec![b'x'; 1 << 20];
    let error = (0..20)
        .find_map(|number| etcd.control().put(format!("big/{number}"), &much).err())
        .unwrap();
    assert!(format!("{error:#}").contains("database space exceeded"), "{error:#}");
    etcd.control().delete_all("big/").unwrap();
    etcd.control().compact().unwrap();
    etcd.control().defragment().unwrap();
    assert!(etcd.control().put("a", "1").is_err());
    etcd.control().disarm().unwrap();
    etcd.control().put("a", "1").unwrap();
}

#[test]
fn a_minimal_lease_has_one_second() {
    let etcd = etcd().unwrap().control();
    let lease = etcd.grant(1).unwrap();
    assert!(etcd.lease_left(lease).unwrap() <= Some(1));
}
