//! How fast a member's disk is, by the member's metrics for Prometheus on the port for clients.

use std::time::Duration;

use lockkeeper_core::kit::{ok, warn, warn_if};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::net::{self, Endpoint, Stream, TlsSettings};
use crate::store::Finding;
use crate::time::Clock;

/// A few hundred kB are usual.
const LARGEST: u64 = 8 << 20;
/// What etcd asks of a disk, for 99 of 100.
const FSYNC: f64 = 0.010;
const COMMIT: f64 = 0.025;
const FSYNC_TIMES: &str = "etcd_disk_wal_fsync_duration_seconds";
const COMMIT_TIMES: &str = "etcd_disk_backend_commit_duration_seconds";
/// With fewer waits than this, a slow wait proves nothing.
const ENOUGH: f64 = 100.0;

/// How often a member has waited for its disk.
pub(super) async fn waits(
    at: &Endpoint,
    tls: Option<&TlsSettings>,
    within: Duration,
) -> Option<f64> {
    let text = asked(at, tls, within).await.ok()?;
    Histogram::read(&text, FSYNC_TIMES).map(|fsync| fsync.count)
}

/// The report about the disk of a member, some writes after the member had waited `before` times.
pub(super) async fn look(
    at: &Endpoint,
    tls: Option<&TlsSettings>,
    within: Duration,
    before: Option<f64>,
) -> Finding {
    match asked(at, tls, within).await {
        Ok(text) => judge(&text, before),
        // Nothing hangs on it.
        Err(why) => ok(format!("etcd does not report the speed of the disk ({why})")),
    }
}

async fn asked(
    at: &Endpoint,
    tls: Option<&TlsSettings>,
    within: Duration,
) -> Result<String, String> {
    let asked = Clock::boot().timeout(within, metrics(at, tls, within)).await;
    asked.unwrap_or_else(|| Err("/metrics did not answer".to_owned()))
}

async fn metrics(
    at: &Endpoint,
    tls: Option<&TlsSettings>,
    within: Duration,
) -> Result<String, String> {
    match net::connect(at, tls, within).await? {
        Stream::Plain(socket) => get(socket, at).await,
        Stream::Tls(stream) => get(stream, at).await,
    }
}

/// HTTP/1.0: what comes is in one piece, and the end of the connection is its end.
async fn get(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    at: &Endpoint,
) -> Result<String, String> {
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {at}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|e| net::said(&e))?;
    stream.flush().await.map_err(|e| net::said(&e))?;
    let mut answer = Vec::new();
    stream.take(LARGEST).read_to_end(&mut answer).await.map_err(|e| net::said(&e))?;
    let text = String::from_utf8(answer).map_err(|_| "/metrics is no text".to_owned())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("the answer is no HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(format!("HTTP {status} for /metrics")) }
}

fn judge(text: &str, before: Option<f64>) -> Finding {
    let found = Histogram::read(text, FSYNC_TIMES).zip(Histogram::read(text, COMMIT_TIMES));
    let Some((fsync, commit)) = found else {
        return ok("etcd does not report the speed of the disk");
    };
    if before == Some(fsync.count) {
        let finding =
            "etcd does not wait for its writes (--unsafe-no-fsync): a power cut may lose locks";
        return warn(finding, "etcd without that option");
    }
    let finding = format!("fsync {}; commit {}", fsync.summary(), commit.summary());
    let is_slow = fsync.is_slower_than(FSYNC) || commit.is_slower_than(COMMIT);
    warn_if(
        is_slow,
        finding,
        "a faster disk that nothing else writes to: etcd asks for 10ms and 25ms",
    )
}

/// How long something took, how often.
struct Histogram {
    /// So many took at most so many seconds.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

impl Histogram {
    fn read(text: &str, name: &str) -> Option<Self> {
        let mut found = Self { buckets: Vec::new(), sum: f64::NAN, count: f64::NAN };
        for line in text.lines().filter_map(|line| line.strip_prefix(name)) {
            let (what, value) = line.rsplit_once(' ')?;
            let value: f64 = value.parse().ok()?;
            match what {
                "_sum" => found.sum = value,
                "_count" => found.count = value,
                _ => {
                    let Some(bound) = what
                        .strip_prefix("_bucket{le=\"")
                        .and_then(|rest| rest.strip_suffix("\"}"))
                    else {
                        continue;
                    };
                    found.buckets.push((bound.parse().ok()?, value));
                }
            }
        }
        found.count.is_finite().then_some(found)
    }

    /// Within how many seconds 99 of 100 were done.
    fn most(&self) -> f64 {
        let most = self.buckets.iter().find(|(_, count)| *count >= 0.99 * self.count);
        most.map_or(f64::INFINITY, |(bound, _)| *bound)
    }

    fn is_slower_than(&self, seconds: f64) -> bool {
        self.count >= ENOUGH && self.most() > seconds
    }

    fn summary(&self) -> String {
        let mean = Duration::try_from_secs_f64(self.sum / self.count).unwrap_or_default();
        match Duration::try_from_secs_f64(self.most()) {
            Ok(most) => format!("{mean:.1?}, 99 % up to {most:.0?}"),
            Err(_) => format!("{mean:.1?}, some very long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn metrics(slow: u32, all: u32) -> String {
        let histogram = |name: &str| {
            format!(
                "# TYPE {name} histogram\n{name}_bucket{{le=\"0.008\"}} {}\n{name}_bucket{{le=\"0.032\"}} {all}\n\
                 {name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {}\n{name}_count {all}\n",
                all - slow,
                f64::from(all) * 0.002,
            )
        };
        histogram(FSYNC_TIMES) + "etcd_other_seconds_count 7\n" + &histogram(COMMIT_TIMES)
    }

    #[test]
    fn a_slow_disk_is_reported_once_there_is_enough_to_say_so() {
        let well = judge(&metrics(1, 1000), Some(990.0));
        assert_eq!(well.level, Level::Ok);
        assert_eq!(well.finding, "fsync 2.0ms, 99 % up to 8ms; commit 2.0ms, 99 % up to 8ms");
        assert_eq!(judge(&metrics(20, 1000), None).level, Level::Warn);
        assert_eq!(judge(&metrics(20, 50), None).level, Level::Ok);
    }

    #[test]
    fn one_that_waits_for_no_disk_is_reported() {
        assert!(judge(&metrics(1, 7), Some(7.0)).finding.contains("--unsafe-no-fsync"));
    }

    #[test]
    fn an_unknown_metrics_text_gives_no_finding() {
        for text in [
            "",
            "etcd_disk_wal_fsync_duration_seconds_count",
            "etcd_disk_wal_fsync_duration_seconds_count x",
        ] {
            assert_eq!(
                judge(text, None).finding,
                "etcd does not report the speed of the disk",
                "{text}"
            );
        }
    }
}
