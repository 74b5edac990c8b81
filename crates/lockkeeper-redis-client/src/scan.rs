//! A look at all keys of one server.

use crate::wire::{Link, Request, Value};
use crate::{Error, ErrorKind, Result, fault};

/// How many keys the server looks at in one step of `SCAN`.
const STEP: &[u8] = b"10000";
/// How often the scan of a server begins again.
const SCANS: u32 = 4;

/// The keys of one server that match. Each time before the scan begins again, `check` may end it.
///
/// # Errors
/// `Unavailable` if the connection is lost during each scan, and the error of `check`.
pub async fn scan(
    link: &Link,
    pattern: &[u8],
    check: impl Fn() -> Result<()>,
) -> Result<Vec<Vec<u8>>> {
    for _ in 0..SCANS {
        if let Some(found) = scan_at_once(link, pattern).await? {
            return Ok(found);
        }
        check()?;
    }
    let problem =
        format!("the connection to {} was lost during each look at all keys", link.endpoint());
    Err(Error::new(ErrorKind::Unavailable, problem).with_remedy("again in a moment"))
}

/// The same on one connection; `None` if that was lost. The next connection may be to another
/// server, to which the cursor of the first one means nothing: that server would leave out keys,
/// and nobody would notice.
async fn scan_at_once(link: &Link, pattern: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    // The request reports why there is no connection.
    drop(link.ready().await);
    let (mut all, mut cursor, run) = (Vec::new(), b"0".to_vec(), link.run());
    loop {
        let step = Request::command(&[b"SCAN", &cursor, b"MATCH", pattern, b"COUNT", STEP]);
        let answer = link.send(step).await.map_err(fault::of)?;
        // If the run is the same before and after, it has given the answer.
        if run.is_none() || link.run() != run {
            return Ok(None);
        }
        let (next, found) =
            scanned(answer).inspect_err(|_| link.reset("it gave no answer of SCAN"))?;
        all.extend(found);
        if next == b"0" {
            return Ok(Some(all));
        }
        cursor = next;
    }
}

/// The next cursor, and what was found.
fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let garbled = || {
        Error::new(ErrorKind::Internal, "the server's answer to SCAN is none")
            .with_remedy("lockkeeper doctor")
    };
    let bytes = |value| match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    };
    let Value::Array(answer) = answer else { return Err(garbled()) };
    let Ok([cursor, Value::Array(found)]) = <[Value; 2]>::try_from(answer) else {
        return Err(garbled());
    };
    let found = found.into_iter().map(bytes).collect::<Option<_>>();
    bytes(cursor).zip(found).ok_or_else(garbled)
}
