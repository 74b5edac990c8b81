//! Taking over a claim that an earlier request has put: the claim starts its life again, and this
//! client gets the notices about it.

use std::sync::Arc;
use std::time::Duration;

use super::Claiming;
use crate::admin::NOTICE_TTL;
use crate::layout::transaction::{
    changed, delete, get, leased, only, put, ranges, rewrite, transaction,
};
use crate::layout::{Contender, Notice, Record};
use crate::wire::messages::{Compare, RequestOp};
use crate::{Error, Result, fault, sessions};

/// How often a claim is read again because another client changes it too.
const TRIES: u32 = 16;

impl Claiming {
    /// Makes the claim one that this client has sent, and returns the record of the claim.
    ///
    /// The client that got the notices about the claim before looks at the claim: if it waits, and
    /// this request is a late copy, it claims again. If the claim changes all the time, the other
    /// client goes on getting the notices, which costs time only.
    ///
    /// # Errors
    /// `Unavailable` if a client has reported that it has missed the claim, and the claim changes
    /// all the time. The report has to go: the claim ends once the report has stood for a ttl, and
    /// the caller counts a whole ttl from this request on.
    pub(super) async fn takes_over(
        &self,
        own: &mut Contender,
        is_reported: bool,
    ) -> Result<Arc<Record>> {
        let mut fresh = false;
        for _ in 0..TRIES {
            let Some(mut record) = own.record.clone() else { break };
            let is_ours = record.client == self.store.0.client;
            if own.is_over() || (is_ours && !is_reported) {
                return Ok(Arc::new(record));
            }
            let mut when = vec![changed(&self.key, own.changed), leased(&self.key, own.lease)];
            let mut then: Vec<_> = self.report.as_ref().map(delete).into_iter().collect();
            if !is_ours {
                let handing_over = self.hand_over(&record, fresh).await;
                let (is_unasked, notices) = handing_over.map_err(Error::with_unknown_effect)?;
                when.push(is_unasked);
                then.extend(notices);
                record.client = Arc::clone(&self.store.0.client);
                then.push(rewrite(&self.key, record.written()));
            }
            let request = transaction(when, then, vec![get(&self.key)]);
            let answer = match self.store.txn(request).await {
                // The lease of the notice has ended before its time, and etcd has done nothing.
                Err(error) if error.is_no_lease() && !is_ours && !fresh => {
                    fresh = true;
                    continue;
                }
                answer => answer.map_err(fault::of_a_put).map_err(Error::with_unknown_effect)?,
            };
            if answer.succeeded {
                if !is_ours {
                    own.changed = answer.header.map_or(own.changed, |header| header.revision);
                    own.record = Some(record.clone());
                }
                return Ok(Arc::new(record));
            }
            let now = only(ranges(answer.responses).next()).map(Contender::read);
            let Some(now) = now.filter(|now| now.created == own.created) else {
                // The claim is gone, as the next read of the line finds.
                return Ok(Arc::new(record));
            };
            *own = now;
        }
        match is_reported {
            true => Err(fault::always_changes().with_unknown_effect()),
            false => Ok(own.record.clone().map_or_else(|| Arc::clone(&self.record), Arc::new)),
        }
    }

    /// What a take-over writes beside the record: the notice to the client of before, and an
    /// operator's request to let go, which the new client finds only in its own folder. Neither key
    /// may be on a lease of the session, where only the session's own keys are.
    ///
    /// The notice is on the lease of this client's tombstones, or on a `fresh` one.
    ///
    /// The comparison says that no operator has written another request since.
    async fn hand_over(&self, record: &Record, fresh: bool) -> Result<(Compare, Vec<RequestOp>)> {
        let (store, lines) = (&self.store, &self.store.0.lines);
        let request = lines.request(&record.client, record.hex());
        let asked = store.read(&request).await?;
        let is_unasked = changed(&request, asked.as_ref().map_or(0, |kv| kv.mod_revision));
        let lasts = Duration::from_secs(NOTICE_TTL.unsigned_abs());
        let lease = store.tombstone_lease(lasts, fresh).await.map_err(fault::of)?;
        let notice = Notice::elsewhere(record.hex().to_owned());
        let mut then = vec![put(&lines.notice(&record.client), notice.written(), lease)];
        if let Some(asked) = asked {
            let request = lines.request(&store.0.client, record.hex());
            let lasts =
                store.grant(sessions::seconds(record.lease_time()).max(NOTICE_TTL)).await?.id;
            then.push(put(&request, asked.value, lasts));
        }
        Ok((is_unasked, then))
    }
}
