//! Reading the line of a lock, as the contract reports it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::layout::transaction::all;
use crate::layout::unix_ms;
use crate::layout::{Contender, admissions, mark};
use crate::store::{Entry, Line};
use crate::{EtcdStore, LockName, Result, wire};

/// The store asks etcd how long the leases of a line last: at most so many leases.
const LEASES: usize = 8;
/// So many of these requests run at the same time.
const ASKED_TOGETHER: usize = 64;

impl EtcdStore {
    /// The line of a lock at one revision.
    pub(crate) async fn read_line(&self, name: &LockName) -> Result<Line> {
        let (found, revision) = self.contenders(name).await?;
        let ttls = self.lease_ttls(std::iter::once(&*found), LEASES).await;
        Ok(to_line(&found, revision, &ttls))
    }

    /// The claims of a lock, as they are at this revision.
    pub(crate) async fn contenders(&self, name: &LockName) -> Result<(Vec<Contender>, i64)> {
        let line = self.0.lines.of(name);
        let answer = self.range(all(&line)).await?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        Ok((Contender::all(&self.0.lines, &line, answer.kvs), revision))
    }

    /// How long the leases last on which the holders of these lines depend: at most `most` of the
    /// leases that their keys are on, and the lease of the session for each holder of which only
    /// the minimum hold may be left. `None` for a lease that has ended.
    pub(crate) async fn lease_ttls<'a>(
        &self,
        lines: impl Iterator<Item = &'a [Contender]>,
        most: usize,
    ) -> HashMap<i64, Option<Duration>> {
        let (mut on, mut sessions) = (BTreeSet::new(), BTreeSet::new());
        for (holder, _) in
            lines.flat_map(|line| admissions(line).take_while(|(_, admitted)| *admitted))
        {
            if on.len() < most {
                on.insert(holder.lease);
            }
            sessions.extend(holder.session_to_ask());
        }
        let leases: Vec<i64> = on.union(&sessions).copied().collect();
        let mut ttls = HashMap::with_capacity(leases.len());
        for leases in leases.chunks(ASKED_TOGETHER) {
            let asked = wire::all(leases.iter().map(|lease| self.left_of(*lease))).await;
            ttls.extend(
                leases.iter().zip(asked).filter_map(|(lease, ttl)| Some((*lease, ttl.ok()?))),
            );
        }
        ttls
    }
}

/// The line that was read at this revision, as the contract reports it.
pub(crate) fn to_line(
    found: &[Contender],
    revision: i64,
    ttls: &HashMap<i64, Option<Duration>>,
) -> Line {
    let now = unix_ms();
    let entry = |(contender, granted): (&Contender, bool)| {
        let ttl = ttls.get(&contender.lease).copied().flatten();
        let is_gone =
            contender.session_to_ask().is_some_and(|session| ttls.get(&session) == Some(&None));
        // etcd cuts the answer to whole seconds: this is the middle of what it can mean.
        let ttl = ttl.map(|ttl| ttl + Duration::from_millis(500));
        contender.entry(granted, contender.is_released() || is_gone, ttl, now)
    };
    Line {
        revision: mark(found, revision),
        last_token: admissions(found)
            .take_while(|(_, granted)| *granted)
            .map(|(holder, _)| holder.token())
            .max(),
        entries: admissions(found).map(entry).collect::<Vec<Entry>>(),
    }
}
