//! Answers of etcd over plain HTTP: its metrics, its version, the number of its keys.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The body of an answer from a port of 127.0.0.1.
fn ask(port: u16, head: &str, body: &str) -> Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    // The answer ends after its length.
    write!(socket, "{head} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("etcd's answer has no body")?;
    ensure!(head.contains(" 200 "), "etcd answered {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

pub(crate) fn version(port: u16) -> Result<String> {
    let answer: Value = serde_json::from_str(&ask(port, "GET /version", "")?)?;
    Ok(answer["etcdserver"].as_str().context("etcd does not say its version")?.to_owned())
}

/// The number of all keys; the answer needs a majority of the members.
pub(crate) fn keys(port: u16) -> Result<u64> {
    let all = r#"{"key":"AA==","range_end":"AA==","count_only":true}"#;
    let answer: Value = serde_json::from_str(&ask(port, "POST /v3/kv/range", all)?)?;
    // The field is missing if there are no keys.
    answer["count"].as_str().map_or(Ok(0), |count| count.parse().map_err(Into::into))
}

/// The metrics of etcd: `name{labels} value`, a line each.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn read(port: u16) -> Result<Self> {
        ask(port, "GET /metrics", "").map(Self)
    }

    /// The sum over all labels.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_whole = rest.starts_with('{') || rest.starts_with(' ');
            is_whole.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        });
        values.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_over_their_labels_and_over_no_other_name() {
        let metrics =
            Metrics("# HELP a\na{x=\"1\"} 2\na{x=\"2 3\"} 1e+01\nab 7\nc 0.5\n".to_owned());
        assert_eq!([metrics.sum("a"), metrics.sum("c"), metrics.sum("d")], [12.0, 0.5, 0.0]);
    }
}
