//! Checks the servers when the store is opened.

use std::time::Duration;

use crate::checks::{Check, Info};
use crate::random::jittered;
use crate::route::Route;
use crate::setup::{Deployment, Setup};
use crate::time::Clock;
use crate::wire::{Link, Request};
use crate::{Error, ErrorKind, Result, checks, fault};

/// The pause before another look while a failover is under way.
const PAUSE: Duration = Duration::from_millis(100);

/// Refuses servers on which locks cannot be relied on, and those that `fits` refuses. Waits for a
/// failover that is under way, for as long as for an answer.
///
/// # Errors
/// Why the servers cannot be used: see [`checks::refuse`]. `Unavailable` if none answers.
pub async fn check(route: &Route, setup: &Setup, fits: impl Fn(&Info) -> Result<()>) -> Result<()> {
    let clock = Clock::boot();
    let until = clock.now() + setup.hosts.timeout;
    loop {
        let looked = look(route, setup, &fits).await;
        let passes = looked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        if !passes || setup.topology == Deployment::Standalone || clock.now() >= until {
            return looked;
        }
        clock.sleep(jittered(PAUSE)).await;
    }
}

/// At least one node of a Cluster has to be there. The slots of the other nodes wait for their
/// nodes, and each new connection checks its node.
async fn look(route: &Route, setup: &Setup, fits: &impl Fn(&Info) -> Result<()>) -> Result<()> {
    let (mut found, mut missing) = (false, None);
    for link in route.masters() {
        match master(route, &link, setup).await {
            Ok(info) => {
                checks::refuse(&info, &setup.waived)?;
                fits(&info)?;
            }
            Err(error)
                if setup.topology == Deployment::Cluster
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
async fn master(route: &Route, link: &Link, setup: &Setup) -> Result<Info> {
    link.ready().await.map_err(fault::of)?;
    let info = Info::of(&link.send(Request::command(&[b"INFO"])).await.map_err(fault::of)?)?;
    let was_named =
        setup.topology != Deployment::Standalone && !setup.waived.contains(&Check::Replica);
    if was_named && info.is_replica() {
        route.suspect(link);
        let problem =
            format!("{} is a replica: another server is becoming the master", link.endpoint());
        return Err(Error::new(ErrorKind::Unavailable, problem).with_remedy("again in a moment"));
    }
    Ok(info)
}
