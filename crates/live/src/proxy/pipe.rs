//! One direction of a connection. The pipe decides each message when it has read the message. The
//! message then waits for its time to be written.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::Mutex;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use super::act::{Act, Message, TO_SERVER};
use super::connection::End;
use super::fates::{Fate, Fates};
use super::{FaultProfile, Shared, lock, resp};

/// The direction from one side to the other.
#[derive(Clone, Copy)]
pub(super) struct Pipe<'a> {
    pub(super) way: usize,
    pub(super) from: &'a TcpStream,
    pub(super) to: &'a TcpStream,
    pub(super) number: u64,
    pub(super) shared: &'a Shared,
    pub(super) fates: &'a Mutex<Fates>,
}

/// A message that waits to be written.
struct Parcel {
    bytes: Vec<u8>,
    due: Instant,
    /// The number of releases when the message was held.
    held: Option<u64>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    GoOn,
    /// No more messages come.
    Close,
    End(End),
}

impl Pipe<'_> {
    /// Runs until no more messages come. An error ends the connection.
    pub(super) async fn run(self) -> Result<(), End> {
        let (sender, parcels) = unbounded_channel();
        tokio::try_join!(self.read(sender), self.write(parcels)).map(|_| ())
    }

    async fn read(self, parcels: UnboundedSender<Parcel>) -> Result<(), End> {
        let (mut buffer, mut number) = (Vec::new(), 0);
        loop {
            let last = match read(self.from, &mut buffer).await {
                Ok(0) => Then::Close,
                Err(_) => Then::End(End::Reset),
                Ok(_) => Then::GoOn,
            };
            while let Some(length) = self.message(&buffer) {
                number += 1;
                let rest = buffer.split_off(length);
                let bytes = std::mem::replace(&mut buffer, rest);
                // After the end of the connection, no task writes the parcel.
                let _ = self.decide(number, bytes).map(|parcel| parcels.send(parcel));
            }
            if !matches!(last, Then::GoOn) {
                let _ = parcels.send(self.parcel(buffer, last));
                return Ok(());
            }
        }
    }

    /// The length of the first message, if it is complete.
    fn message(&self, buffer: &[u8]) -> Option<usize> {
        if self.shared.resp {
            resp::length(buffer)
        } else {
            Some(buffer.len()).filter(|length| *length > 0)
        }
    }

    /// The fate of a message; `None` if the message is lost.
    fn decide(&self, number: u64, bytes: Vec<u8>) -> Option<Parcel> {
        let message = Message { connection: self.number, number, bytes: &bytes };
        let act = if self.way == TO_SERVER { self.request(&message) } else { self.reply(&message) };
        let mut parcel = self.parcel(bytes, Then::GoOn);
        match act {
            Act::Pass | Act::HoldReply => {}
            Act::LoseReply if self.way == TO_SERVER => {}
            Act::Late(delay) => parcel.due += delay,
            Act::Hold => parcel.held = Some(*self.shared.releases.borrow()),
            Act::Drop => {}
            Act::Twice => parcel.bytes = parcel.bytes.repeat(2),
            Act::CutAfter => parcel.then = Then::End(End::Cut),
            Act::CutWithin(bytes) => {
                (parcel.bytes.truncate(bytes), parcel.then = Then::End(End::Cut)).1
            }
            Act::Cut | Act::LoseReply => {
                (parcel.bytes.clear(), parcel.then = Then::End(End::Cut)).1
            }
            Act::Reset => (parcel.bytes.clear(), parcel.then = Then::End(End::Reset)).1,
        }
        self.report(act, parcel.held.is_some());
        (act != Act::Drop).then_some(parcel)
    }

    fn request(&self, request: &Message<'_>) -> Act {
        let act = self.ask(request);
        let mut fates = lock(self.fates);
        match act {
            Act::Drop => return act,
            Act::LoseReply => fates.request(request, Some(Fate::Cut)),
            Act::HoldReply => fates.request(request, Some(Fate::Hold)),
            _ => fates.request(request, None),
        }
        if act == Act::Twice {
            fates.request(request, Some(Fate::Swallow));
        }
        act
    }

    fn reply(&self, reply: &Message<'_>) -> Act {
        match lock(self.fates).reply(reply) {
            Some(Fate::Swallow) => Act::Drop,
            Some(Fate::Cut) => Act::Cut,
            Some(Fate::Hold) => Act::Hold,
            None => match self.ask(reply) {
                Act::HoldReply => Act::Hold,
                act => act,
            },
        }
    }

    fn ask(&self, message: &Message<'_>) -> Act {
        lock(&self.shared.hooks[self.way]).as_mut().map_or(Act::Pass, |decide| decide(message))
    }

    fn report(&self, act: Act, is_held: bool) {
        let is_held = is_held || self.fault_profile().hold;
        let is_lost = matches!(act, Act::Drop | Act::Cut | Act::Reset | Act::CutWithin(_))
            || (act == Act::LoseReply && self.way != TO_SERVER);
        self.shared.seen.send_modify(|seen| {
            *(if self.way == TO_SERVER { &mut seen.requests } else { &mut seen.replies }) += 1;
            seen.held += u64::from(is_held);
            seen.lost += u64::from(is_lost);
        });
    }

    fn fault_profile(&self) -> FaultProfile {
        *self.shared.fault_profile[self.way].borrow()
    }

    fn parcel(&self, bytes: Vec<u8>, then: Then) -> Parcel {
        Parcel { bytes, due: Instant::now() + self.fault_profile().delay, held: None, then }
    }

    async fn write(self, mut parcels: UnboundedReceiver<Parcel>) -> Result<(), End> {
        while let Some(parcel) = parcels.recv().await {
            sleep_until(parcel.due).await;
            self.wait_for_release(parcel.held).await?;
            let fault_profile = self.fault_profile();
            if fault_profile.swallow {
                self.swallow(parcel.then).await?;
                continue;
            }
            self.hand_on(&parcel.bytes, fault_profile).await.map_err(|_| End::Reset)?;
            match parcel.then {
                Then::GoOn => {}
                Then::Close => drop(SockRef::from(self.to).shutdown(Shutdown::Write)),
                Then::End(how) => return Err(how),
            }
        }
        Ok(())
    }

    async fn wait_for_release(&self, held: Option<u64>) -> Result<(), End> {
        let (mut releases, mut fault_profile) =
            (self.shared.releases.subscribe(), self.shared.fault_profile[self.way].subscribe());
        let released = releases.wait_for(|releases| held.is_none_or(|held| *releases > held));
        released.await.map_err(|_| End::Cut)?;
        fault_profile
            .wait_for(|fault_profile| !fault_profile.hold)
            .await
            .map(|_| ())
            .map_err(|_| End::Cut)
    }

    async fn swallow(&self, then: Then) -> Result<(), End> {
        self.shared.seen.send_modify(|seen| seen.lost += 1);
        match then {
            Then::GoOn => Ok(()),
            // The other side does not learn of the end.
            Then::Close | Then::End(_) => pending().await,
        }
    }

    async fn hand_on(&self, bytes: &[u8], fault_profile: FaultProfile) -> io::Result<()> {
        let (size, pause) = fault_profile.slices.unwrap_or((usize::MAX, std::time::Duration::ZERO));
        for slice in bytes.chunks(size) {
            write(self.to, slice).await?;
            let written = slice.len() as u64;
            self.shared.seen.send_modify(|seen| {
                *(if self.way == TO_SERVER {
                    &mut seen.bytes_to_server
                } else {
                    &mut seen.bytes_to_client
                }) += written;
            });
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
        Ok(())
    }
}

/// Appends the available bytes to `buffer`; 0 at the end of the stream.
async fn read(from: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 16 * 1024];
    loop {
        from.readable().await?;
        match from.try_read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => {
                buffer.extend_from_slice(&chunk[..*result.as_ref().unwrap_or(&0)]);
                return result;
            }
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
