//! Checks the servers when the store is opened.

use std::time::Duration;

use super::checks::{Check, Info};
use super::servers::Servers;
use super::setup::{Setup, Topology};
use super::wire::{Link, Request};
use super::{checks, fault, replicas};
use crate::random::jittered;
use crate::time::Clock;
use crate::{Error, ErrorKind, Result};

/// The pause before another look while a failover is under way.
const PAUSE: Duration = Duration::from_millis(100);

/// Refuses servers on which locks cannot be relied on. Waits for a failover that is under way, for
/// as long as for an answer.
pub(super) async fn check(servers: &Servers, setup: &Setup) -> Result<()> {
    let clock = Clock::boot();
    let until = clock.now() + setup.hosts.timeout;
    loop {
        let looked = look(servers, setup).await;
        let passes = looked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        if !passes || setup.topology == Topology::Standalone || clock.now() >= until {
            return looked;
        }
        clock.sleep(jittered(PAUSE)).await;
    }
}

/// At least one node of a Cluster has to be there. The slots of the other nodes wait for their
/// nodes, and each new connection checks its node.
async fn look(servers: &Servers, setup: &Setup) -> Result<()> {
    let (mut found, mut missing) = (false, None);
    for link in servers.masters() {
        match master(servers, &link, setup).await {
            Ok(info) => {
                checks::refuse(&info, &setup.waived)?;
                replicas::check(&info, setup.min_replicas)?;
            }
            Err(error)
                if setup.topology == Topology::Cluster
                    && error.kind() == ErrorKind::Unavailable =>
            {
                missing = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        found = true;
    }
    missing.filter(|_| !found).map_or(Ok(()), Err)
}

/// The `INFO` of a server. A server that was named as the master, and is a replica, has just given
/// way to another master.
async fn master(servers: &Servers, link: &Link, setup: &Setup) -> Result<Info> {
    link.ready().await.map_err(fault::of)?;
    let info = Info::of(&link.send(Request::command(&[b"INFO"])).await.map_err(fault::of)?)?;
    let was_named =
        setup.topology != Topology::Standalone && !setup.waived.contains(&Check::Replica);
    if was_named && info.is_replica() {
        servers.suspect(link);
        let problem =
            format!("{} is a replica: another server is becoming the master", link.endpoint());
        return Err(Error::new(ErrorKind::Unavailable, problem).with_remedy("again in a moment"));
    }
    Ok(info)
}
