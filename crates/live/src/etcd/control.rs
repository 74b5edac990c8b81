//! Requests of tests to a member, through etcd's HTTP gateway.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use data_encoding::BASE64;
use serde_json::{Value, json};
use ureq::Agent;

use super::answer::{Entry, bytes, entries, list, number, revision};
use super::builder::User;

/// The longest time of a request. A stopped member answers no request.
const REQUEST: Duration = Duration::from_secs(10);

/// The user with all rights, if clients have to log in.
const ROOT: &str = "root";
const ROOT_PASSWORD: &str = "the password of root";

/// A client of one member, which uses neither the port for clients nor a proxy.
#[derive(Clone, Debug)]
pub struct Control {
    agent: Agent,
    address: SocketAddr,
    /// The name and the password.
    login: Option<(String, String)>,
}

impl Control {
    pub(super) fn new(address: SocketAddr) -> Self {
        let settings = Agent::config_builder()
            .timeout_global(Some(REQUEST))
            .http_status_as_error(false)
            .proxy(None);
        Self { agent: settings.build().into(), address, login: None }
    }

    /// The keys with this prefix, in order.
    ///
    /// # Errors
    /// The member's error, or no answer within 10 s; a member without a leader never answers.
    pub fn keys(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        entries(&self.range(prefix.as_ref(), &end_of(prefix.as_ref()), false)?)
    }

    /// The entry of this key, if there is one.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        Ok(entries(&self.range(key.as_ref(), &[], false)?)?.pop())
    }

    /// The entry of this key in the data of this member, which may be old.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys), but the member needs no leader.
    pub fn get_stale(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        Ok(entries(&self.range(key.as_ref(), &[], true)?)?.pop())
    }

    /// Writes a key without a lease, and returns the revision.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<i64> {
        self.put_with_lease(key, value, 0)
    }

    /// Writes a key that ends with a lease, and returns the revision.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn put_with_lease(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lease: i64,
    ) -> Result<i64> {
        let body = json!({ "key": text(key), "value": text(value), "lease": lease.to_string() });
        revision(&self.call("kv/put", &body)?)
    }

    /// Deletes a key, and returns whether the key existed.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(number(&self.call("kv/deleterange", &json!({ "key": text(key) }))?["deleted"])? > 0)
    }

    /// Deletes the keys with this prefix.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn delete_all(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let body =
            json!({ "key": text(prefix.as_ref()), "range_end": text(end_of(prefix.as_ref())) });
        self.call("kv/deleterange", &body).map(|_| ())
    }

    /// The revision of the store.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn revision(&self) -> Result<i64> {
        revision(&self.range(b"\0", &[], false)?)
    }

    /// Compacts all revisions before the present one, and returns the present revision.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn compact(&self) -> Result<i64> {
        let revision = self.revision()?;
        self.call("kv/compaction", &json!({ "revision": revision.to_string(), "physical": true }))?;
        Ok(revision)
    }

    /// A new lease of this many seconds, without renewals.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn grant(&self, seconds: u32) -> Result<i64> {
        number(&self.call("lease/grant", &json!({ "TTL": seconds.to_string() }))?["ID"])
    }

    /// All leases, in no order.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn leases(&self) -> Result<Vec<i64>> {
        let answer = self.call("lease/leases", &json!({}))?;
        list(&answer["leases"]).map(|lease| number(&lease["ID"])).collect()
    }

    /// Ends a lease, and removes all its keys.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys), and if the lease does not exist.
    pub fn revoke(&self, lease: i64) -> Result<()> {
        self.call("lease/revoke", &json!({ "ID": lease.to_string() })).map(|_| ())
    }

    /// The keys that end with a lease.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn lease_keys(&self, lease: i64) -> Result<Vec<Vec<u8>>> {
        let answer =
            self.call("lease/timetolive", &json!({ "ID": lease.to_string(), "keys": true }))?;
        list(&answer["keys"]).map(bytes).collect()
    }

    /// The seconds that a lease has left, if the lease exists.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn lease_left(&self, lease: i64) -> Result<Option<i64>> {
        let answer = self.call("lease/timetolive", &json!({ "ID": lease.to_string() }))?;
        // The member answers -1 for a lease that does not exist, and leaves 0 out.
        Ok(Some(number(&answer["TTL"])?).filter(|left| *left >= 0))
    }

    /// The version: `3.6.16`.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn version(&self) -> Result<String> {
        let answer = self.call("maintenance/status", &json!({}))?;
        Ok(answer["version"].as_str().context("etcd tells no version")?.to_owned())
    }

    /// Lifts the alarms that full members have raised.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn disarm(&self) -> Result<()> {
        let raised = self.call("maintenance/alarm", &json!({ "action": "GET" }))?;
        list(&raised["alarms"]).try_for_each(|alarm| {
            let whose = json!({ "action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": alarm["alarm"] });
            self.call("maintenance/alarm", &whose).map(|_| ())
        })
    }

    /// Frees the room of deleted keys.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn defragment(&self) -> Result<()> {
        self.call("maintenance/defragment", &json!({})).map(|_| ())
    }

    /// The same member, with requests as this user.
    #[must_use]
    pub fn as_user(&self, name: &str, password: &str) -> Self {
        Self { login: Some((name.to_owned(), password.to_owned())), ..self.clone() }
    }

    /// Sends any request: `path` is the path after `/v3/`.
    ///
    /// # Errors
    /// As for [`keys`](Self::keys).
    pub fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let Some((name, password)) = &self.login else { return self.send(path, body, None) };
        let token =
            self.send("auth/authenticate", &json!({ "name": name, "password": password }), None)?;
        self.send(path, body, token["token"].as_str())
    }

    /// The member's own id, and the id of its leader, if any.
    pub(super) fn leader(&self) -> Result<(u64, Option<u64>)> {
        let answer = self.call("maintenance/status", &json!({}))?;
        let id = |value: &Value| {
            value.as_str().and_then(|id| id.parse::<u64>().ok()).filter(|id| *id > 0)
        };
        Ok((
            id(&answer["header"]["member_id"]).context("a member without a number")?,
            id(&answer["leader"]),
        ))
    }

    /// Makes clients log in as one of these users from now on.
    pub(super) fn admit_only(&self, users: &[User]) -> Result<()> {
        self.call("auth/user/add", &json!({ "name": ROOT, "password": ROOT_PASSWORD }))?;
        self.call("auth/role/add", &json!({ "name": ROOT }))?;
        self.call("auth/user/grant", &json!({ "user": ROOT, "role": ROOT }))?;
        for User { name, password, prefix } in users {
            // An empty prefix means all keys. The range needs a first key, which is a zero byte.
            let first = if prefix.is_empty() { "\0" } else { prefix };
            let keys = json!({ "permType": "READWRITE", "key": text(first), "range_end": text(end_of(prefix.as_bytes())) });
            self.call("auth/role/add", &json!({ "name": name }))?;
            self.call("auth/role/grant", &json!({ "name": name, "perm": keys }))?;
            self.call("auth/user/add", &json!({ "name": name, "password": password }))?;
            self.call("auth/user/grant", &json!({ "user": name, "role": name }))?;
        }
        self.call("auth/enable", &json!({})).map(|_| ())
    }

    pub(super) fn as_root(&self) -> Self {
        self.as_user(ROOT, ROOT_PASSWORD)
    }

    fn range(&self, key: &[u8], end: &[u8], serializable: bool) -> Result<Value> {
        // An empty key cannot be the first key of a range either.
        let key = if key.is_empty() { b"\0" } else { key };
        self.call(
            "kv/range",
            &json!({ "key": text(key), "range_end": text(end), "serializable": serializable }),
        )
    }

    fn send(&self, path: &str, body: &Value, token: Option<&str>) -> Result<Value> {
        let mut request = self.agent.post(format!("http://{}/v3/{path}", self.address));
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let mut response = request.send_json(body).with_context(|| path.to_owned())?;
        let answer: Value = response.body_mut().read_json().with_context(|| path.to_owned())?;
        match answer.get("message").and_then(Value::as_str) {
            Some(message) if !response.status().is_success() => bail!("{path}: {message}"),
            _ if !response.status().is_success() => bail!("{path}: {answer}"),
            _ => Ok(answer),
        }
    }
}

/// The first key after all keys with this prefix. A zero byte means all keys that follow.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0]
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    BASE64.encode(bytes.as_ref())
}
