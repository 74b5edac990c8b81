//! Foreign data around the locks in an etcd: of an application under the same path, of stores with
//! a path inside this one's, and in the place where older versions kept their claims. Each round's
//! keys are younger than all present claims.

use data_encoding::BASE64;
use lockkeeper::LockName;
use serde_json::{Value, json};

/// Keys deeper below a folder: more keys than a client reads that looks for the last key of a line.
const DEEP: [&str; 10] = [
    "41/qty",
    "42/qty",
    "43/qty",
    "44/qty",
    "eu/6c0ffee-0/x",
    ".register/stock/a",
    ".notify/6c0ffee/a",
    ".gone/00000000000000000000000000000000/x",
    "eu/.lock/stock/6c0ffee-0",
    "%/\u{1f512}/garbage",
];

/// Comes to the shared server.
pub(crate) fn comes(url: &str, name: &LockName, round: usize) {
    match url.contains("layout=concurrency") {
        true => comes_to_concurrency(name, round),
        false => comes_to_native(name, round),
    }
}

/// No key under the path may be in the line.
fn comes_to_native(name: &LockName, round: usize) {
    let name = name.encoded();
    let old = format!("/lockkeeper/{name}");
    let mut settlers = vec![format!("/lockkeeper{name}/6c0ffee-0"), format!("{name}/6c0ffee-0")];
    for folder in [&old, &format!("/lockkeeper/.lock/{name}"), &format!("/lockkeeper/.loc/{name}")]
    {
        settlers.extend(["", "0", "!"].map(|end| format!("{folder}{end}")));
    }
    for folder in [old.clone(), format!("{old}/.lock/{name}"), format!("/lockkeeper/.lock0/{name}")]
    {
        settlers.extend(["total", "6c0ffee-0"].map(|key| format!("{folder}/{key}")));
    }
    come(&old, &settlers, round);
}

/// A key directly below a name is a contender for that name there, whichever client wrote it: so
/// all of these keys are one level deeper, below names that no case has.
fn comes_to_concurrency(name: &LockName, round: usize) {
    let mut settlers = ["0", "!", "~"].map(|end| format!("{name}{end}/~/x")).to_vec();
    settlers.extend([format!("/{name}/x"), format!("/lockkeeper/{name}/6c0ffee-0")]);
    come(name.as_str(), &settlers, round);
}

/// Puts all keys there in one step, and removes the deep keys of the last round.
fn come(folder: &str, settlers: &[String], round: usize) {
    let deep = |round: usize| DEEP.iter().map(move |key| format!("{folder}/~{}/{key}", round % 2));
    let mut changes: Vec<_> = deep(round).map(|key| put(&key)).collect();
    match round {
        0 => changes.extend(settlers.iter().map(|key| put(key))),
        _ => changes.extend(deep(round - 1).map(|key| delete(&key))),
    }
    let answer = lockkeeper_live::etcd()
        .unwrap()
        .control()
        .call("kv/txn", &json!({ "success": changes }))
        .unwrap();
    assert_eq!(answer["succeeded"], true, "{answer}");
}

fn put(key: &str) -> Value {
    json!({ "requestPut": { "key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(b"7") } })
}

fn delete(key: &str) -> Value {
    json!({ "requestDeleteRange": { "key": BASE64.encode(key.as_bytes()) } })
}
