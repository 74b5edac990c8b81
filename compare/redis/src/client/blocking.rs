//! Clients that block: one connection, one task.

use anyhow::{Result, bail, ensure};
use compare_common::client::one_line;
use compare_common::clock::{nanos, sleep_until};
use compare_common::order::{Go, Order};
use compare_common::trace::{self, Log};

use crate::resp::{Connection, Reply};

/// Locks and releases one lock.
pub(crate) trait Pair {
    /// Sets the lock of the next pairs.
    fn name(&mut self, name: &str) -> Result<()>;
    fn lock(&mut self) -> Result<()>;
    /// Releases the lock. Without `awaited`, the release is sent with the next request, in one
    /// write.
    fn release(&mut self, awaited: bool) -> Result<()>;
    /// Waits for a release that was not awaited.
    fn settle(&mut self) -> Result<()>;
}

pub(crate) fn serve(pair: &mut impl Pair) -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lines() {
        match obey(pair, &line?) {
            Ok(()) => println!("done"),
            Err(error) => println!("failed: {}", one_line(&error)),
        }
    }
    Ok(())
}

fn obey(pair: &mut impl Pair, line: &str) -> Result<()> {
    let Order::Go(go) = line.parse()? else { bail!("a blocking client holds nothing") };
    ensure!(go.clients == 1 && go.tasks == 1, "a blocking client has one task");
    pair.name(&go.name(0, 0))?;
    let mut log = Log::new(0);
    let outcome = cycles(pair, &go, &mut log);
    let cycles = log.into_cycles();
    trace::write(go.trace.as_ref(), &cycles)?;
    outcome
}

fn cycles(pair: &mut impl Pair, go: &Go, log: &mut Log) -> Result<()> {
    ensure!(go.most == 0, "a blocking client goes on until the end");
    let mut next = nanos();
    while nanos() < go.end {
        if go.every > 0 {
            next += go.every;
            sleep_until(next);
        }
        log.ask();
        pair.lock()?;
        log.grant();
        if go.hold > 0 {
            sleep_until(nanos() + go.hold);
        }
        log.give();
        pair.release(go.awaited)?;
        log.done();
    }
    pair.settle()
}

/// The two requests for a lock, made beforehand.
pub(crate) trait Requests {
    /// The request that takes the lock, and the request that releases it.
    fn of(&mut self, connection: &mut Connection, name: &str) -> Result<[Vec<u8>; 2]>;
    fn is_granted(&self, reply: &Reply) -> bool;
    fn is_released(&self, reply: &Reply) -> bool {
        *reply == Reply::Integer(1)
    }
}

/// Repeats the same two requests on one connection.
pub(crate) struct Repeated<R> {
    requests: R,
    connection: Connection,
    claim: Vec<u8>,
    release: Vec<u8>,
    /// A release that is sent with the next request.
    unsent: Vec<u8>,
}

impl<R: Requests> Repeated<R> {
    pub(crate) fn connect(url: &str, requests: R) -> Result<Self> {
        let [claim, release, unsent] = [const { Vec::new() }; 3];
        Ok(Self { requests, connection: Connection::open(url)?, claim, release, unsent })
    }

    fn released(&mut self) -> Result<()> {
        let reply = self.connection.reply()?;
        ensure!(self.requests.is_released(&reply), "a release answered {reply:?}");
        Ok(())
    }
}

impl<R: Requests> Pair for Repeated<R> {
    fn name(&mut self, name: &str) -> Result<()> {
        [self.claim, self.release] = self.requests.of(&mut self.connection, name)?;
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        if self.unsent.is_empty() {
            self.connection.send(&self.claim)?;
        } else {
            self.unsent.extend_from_slice(&self.claim);
            self.settle()?;
        }
        let reply = self.connection.reply()?;
        ensure!(self.requests.is_granted(&reply), "a claim answered {reply:?}");
        Ok(())
    }

    fn release(&mut self, awaited: bool) -> Result<()> {
        if awaited {
            self.connection.send(&self.release)?;
            return self.released();
        }
        self.unsent.extend_from_slice(&self.release);
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        self.connection.send(&self.unsent)?;
        self.unsent.clear();
        self.released()
    }
}
