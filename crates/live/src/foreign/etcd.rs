//! Foreign data around the locks in an etcd: of an application under the same path, of stores with
//! a path inside this one's, and in the place where older versions kept their claims. Each round's
//! keys are younger than all present claims.

use anyhow::{Result, ensure};
use data_encoding::BASE64;
use lockkeeper::LockName;
use serde_json::{Value, json};

use crate::etcd::Etcd;

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

impl Etcd {
    /// Puts data of others around the lock of this name, and none below the path of the lock's
    /// queue. Round 0 puts the permanent keys, and a later round what changes.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        let name = name.encoded();
        let old = format!("/lockkeeper/{name}");
        let mut permanent =
            vec![format!("/lockkeeper{name}/6c0ffee-0"), format!("{name}/6c0ffee-0")];
        let (exact, near) =
            (format!("/lockkeeper/.lock/{name}"), format!("/lockkeeper/.loc/{name}"));
        for folder in [&old, &exact, &near] {
            permanent.extend(["", "0", "!"].map(|end| format!("{folder}{end}")));
        }
        let (inner, beside) = (format!("{old}/.lock/{name}"), format!("/lockkeeper/.lock0/{name}"));
        for folder in [&old, &inner, &beside] {
            permanent.extend(["total", "6c0ffee-0"].map(|key| format!("{folder}/{key}")));
        }
        self.put_all(&old, &permanent, round)
    }

    /// The same for the layout that lockkeeper shares with Go. A key directly below a name is a
    /// contender for that name there, whichever client wrote it: so all of these keys are one level
    /// deeper, below names that no case has.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub fn put_foreign_data_beside_go(&self, name: &LockName, round: usize) -> Result<()> {
        let mut permanent = ["0", "!", "~"].map(|end| format!("{name}{end}/~/x")).to_vec();
        permanent.extend([format!("/{name}/x"), format!("/lockkeeper/{name}/6c0ffee-0")]);
        self.put_all(name.as_str(), &permanent, round)
    }

    /// Puts all keys in one step, and removes the deep keys of the last round.
    fn put_all(&self, folder: &str, permanent: &[String], round: usize) -> Result<()> {
        let deep =
            |round: usize| DEEP.iter().map(move |key| format!("{folder}/~{}/{key}", round % 2));
        let mut changes: Vec<_> = deep(round).map(|key| put(&key)).collect();
        match round {
            0 => changes.extend(permanent.iter().map(|key| put(key))),
            _ => changes.extend(deep(round - 1).map(|key| delete(&key))),
        }
        let answer = self.control().call("kv/txn", &json!({ "success": changes }))?;
        ensure!(answer["succeeded"] == true, "{answer}");
        Ok(())
    }
}

fn put(key: &str) -> Value {
    json!({ "requestPut": { "key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(b"7") } })
}

fn delete(key: &str) -> Value {
    json!({ "requestDeleteRange": { "key": BASE64.encode(key.as_bytes()) } })
}
