//! The clock of a server that goes on only when a test moves it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::clock;

/// Asks for the time and for the number of commands, in two commands.
const QUESTION: &[u8] = b"TIME\r\nINFO stats\r\n";
const COMMANDS_OF_A_LOOK: u64 = 2;

/// The clock of a [`Redis`](super::Redis), with a connection of its own to the server. All calls
/// must be in one runtime.
#[derive(Debug)]
pub struct StandingClock {
    file: PathBuf,
    socket: PathBuf,
    link: Mutex<Option<Link>>,
}

/// The connection, from the first call on.
#[derive(Debug)]
struct Link {
    stream: UnixStream,
    /// The commands of all looks so far.
    own: u64,
    seen: Look,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    micros: i64,
    commands: u64,
}

impl StandingClock {
    pub(super) fn new(file: PathBuf, socket: PathBuf) -> Self {
        Self { file, socket, link: Mutex::new(None) }
    }

    /// Moves the clock of the server on, and returns when the server uses the later time: Valkey 9
    /// reads its clock only now and then.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn advance(&self, step: Duration) -> Result<()> {
        let mut link = self.link.lock().await;
        let link = self.linked(&mut link).await?;
        let due = link.seen.micros + i64::try_from(step.as_micros())?;
        clock::write(&self.file, due)?;
        while link.look().await?.micros < due {}
        Ok(())
    }

    /// The number of commands that the server has done for other clients.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn requests(&self) -> Result<u64> {
        let mut link = self.link.lock().await;
        let link = self.linked(&mut link).await?;
        let own = link.own;
        Ok(link.look().await?.commands.saturating_sub(own))
    }

    async fn linked<'a>(&self, link: &'a mut Option<Link>) -> Result<&'a mut Link> {
        if link.is_none() {
            let stream = UnixStream::connect(&self.socket)
                .await
                .context("the server takes no connection")?;
            let mut first = Link { stream, own: 0, seen: Look::default() };
            first.look().await?;
            *link = Some(first);
        }
        link.as_mut().context("it was made above")
    }
}

impl Link {
    async fn look(&mut self) -> Result<Look> {
        self.stream.write_all(QUESTION).await.context("a look at the server")?;
        let mut answer = Vec::with_capacity(4096);
        loop {
            if self.stream.read_buf(&mut answer).await.context("a look at the server")? == 0 {
                bail!("the server has ended");
            }
            if let Some(seen) = read(&answer)? {
                self.own += COMMANDS_OF_A_LOOK;
                self.seen = seen;
                return Ok(seen);
            }
        }
    }
}

/// The answers to [`QUESTION`], if they are complete.
fn read(answer: &[u8]) -> Result<Option<Look>> {
    let text = std::str::from_utf8(answer).context("an answer in UTF-8")?;
    let fields: Vec<_> = text.splitn(7, "\r\n").collect();
    let [array, _, seconds, _, micros, length, info] = fields[..] else { return Ok(None) };
    if array != "*2" {
        bail!("no answer to TIME: {text}");
    }
    let length: usize = length.strip_prefix('$').context("no answer to INFO")?.parse()?;
    if info.len() < length + "\r\n".len() {
        return Ok(None);
    }
    let number = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    let commands = number.context("INFO counts no commands")?.trim_end().parse()?;
    Ok(Some(Look {
        micros: seconds.parse::<i64>()? * 1_000_000 + micros.parse::<i64>()?,
        commands,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_when_it_is_complete() {
        let info = "# Stats\r\ntotal_connections_received:3\r\ntotal_commands_processed:42\r\n";
        let whole = format!("*2\r\n$2\r\n17\r\n$1\r\n5\r\n${}\r\n{info}\r\n", info.len());
        for end in 0..whole.len() {
            assert_eq!(read(&whole.as_bytes()[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(
            read(whole.as_bytes()).unwrap(),
            Some(Look { micros: 17_000_005, commands: 42 })
        );
        assert!(read(b"-NOPERM\r\n\r\n\r\n\r\n\r\n\r\n").is_err());
    }
}
