//! Opening a store: a member is found that answers, and the members and the layout of the prefix
//! are checked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use data_encoding::HEXLOWER;
use tokio::sync::Notify;

use super::checks;
use crate::client::Shared;
use crate::runtime::Runtime;
use crate::sessions::{Sessions, Tombstones};
use crate::time::Clock;
use crate::wire::messages::{RangeRequest, RangeResponse, StatusRequest, StatusResponse};
use crate::wire::{Calls, WireError};
use crate::{Effect, Error, ErrorKind, EtcdStore, EtcdStoreBuilder, Result, fault, random};
use lockkeeper_core::kit::{Listeners, Process};

/// How long to wait for members that have no leader.
const ELECTION: Duration = Duration::from_millis(100);
/// How long opening a store waits for the status of each member.
const A_LOOK: Duration = Duration::from_secs(1);

impl EtcdStore {
    /// Connects to the members that the builder names.
    pub(crate) async fn open(builder: EtcdStoreBuilder) -> Result<Self> {
        let connecting = async {
            let store = Self::unasked(&builder)?;
            store.try_each_member().await?;
            store.check_members().await?;
            store.check_layout().await?;
            Ok(store)
        };
        connecting.await.map_err(|error: Error| error.at(&builder.to_string()))
    }

    /// The store before its first request.
    pub(crate) fn unasked(builder: &EtcdStoreBuilder) -> Result<Self> {
        let lines = builder.lines();
        lines.check()?;
        Ok(Self(Arc::new(Shared {
            calls: Calls::new(builder.addresses(), builder.settings()?)?,
            lines,
            sessions: Sessions::default(),
            order: Arc::default(),
            tombstones: Tombstones::default(),
            client: HEXLOWER.encode(&random::bits128()).into(),
            address: builder.to_string(),
            timeout: builder.hosts.timeout,
            waived: builder.waived.clone(),
            is_marked: AtomicBool::new(false),
            clock: Clock::boot(),
            process: Process::this(),
            runtime: Runtime::here_or_own()?,
            losses: Listeners::default(),
            listening: AtomicBool::new(false),
            notices: Notify::new(),
        })))
    }

    /// Finds a member that answers and has a majority behind it. While the members elect a leader,
    /// they are asked again, for as long as a request may take.
    async fn try_each_member(&self) -> Result<()> {
        let until = self.0.clock.now() + self.0.timeout;
        loop {
            let (mut last, mut is_there) = (Ok(()), false);
            for _ in self.0.calls.addresses() {
                last = self.try_one().await;
                match &last {
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        is_there |= error.effect() == Effect::Unknown
                    }
                    _ => return last,
                }
            }
            if !is_there || self.0.clock.now() >= until {
                return last.map_err(Error::without_effect);
            }
            self.0.clock.sleep(ELECTION).await;
        }
    }

    /// Checks each member that answers.
    async fn check_members(&self) -> Result<()> {
        let calls = &self.0.calls;
        let asked: Vec<(String, Result<StatusResponse, WireError>)> =
            calls.ask_each("/etcdserverpb.Maintenance/Status", StatusRequest {}, A_LOOK).await;
        let answers: Vec<_> = asked
            .iter()
            .filter_map(|(at, status)| Some((at.as_str(), status.as_ref().ok()?)))
            .collect();
        checks::refuse(&answers, &self.0.waived)
    }

    async fn try_one(&self) -> Result<()> {
        self.0.calls.log_in().await.map_err(fault::of)?;
        let nothing =
            RangeRequest { key: self.0.lines.notice(&self.0.client), ..RangeRequest::default() };
        let asked = self.0.calls.ask("/etcdserverpb.KV/Range", nothing).await;
        asked.map(|_: RangeResponse| ()).map_err(fault::of)
    }
}
