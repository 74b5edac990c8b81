//! The operations of an administrator.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use percent_encoding::percent_decode_str;

use crate::layout::transaction::{
    changed, delete, get, move_to, nested, only, present, put, ranges, touch, transaction,
};
use crate::layout::{Contender, Layout, Notice, Record, Span, admissions};
use crate::look::to_line;
use crate::store::{Admin, Evict, Evicted, Line, Target};
use crate::wire::messages::{KeyValue, RangeRequest, RequestOp, TxnResponse};
use crate::{Effect, Error, ErrorKind, EtcdStore, LockName, Result, fault, sessions};

/// How many keys are read at once.
const PAGE: i64 = 2000;
/// How many claims are read at once, with their records.
const PAGE_OF_CLAIMS: i64 = 500;
/// A list asks etcd how long the leases last: at most so many leases.
const LISTED: usize = 64;
/// How often an eviction is tried because the claim changes meanwhile.
const TRIES: u32 = 16;
/// How long a mark may be on its way to the disks of a majority: its lease lasts so much longer
/// than the claim's life, until it is known that the mark is there.
const ON_ITS_WAY: Duration = Duration::from_secs(60);
/// How long a notice stays in the notification key of a client, in seconds.
pub(super) const NOTICE_TTL: i64 = 60;

#[async_trait]
impl Admin for EtcdStore {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        self.check_process()?;
        let is_wanted = |name: &LockName| {
            name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after)
        };
        let (mut found, mut revision) = (Vec::new(), 0);
        for span in self.0.lines.spans(prefix) {
            let pages = self.pages(&span, false, revision).await?;
            found.extend(pages.0);
            revision = pages.1;
        }
        let mut lines: BTreeMap<LockName, Vec<KeyValue>> = BTreeMap::new();
        for line in
            found.chunk_by(|a, b| self.0.lines.name_in(&a.key) == self.0.lines.name_in(&b.key))
        {
            let name = line.iter().find_map(|kv| self.name_of(kv)).filter(is_wanted);
            if let Some(name) = name {
                lines.entry(name).or_default().extend_from_slice(line);
            }
        }
        let contenders = |(name, kvs): (LockName, Vec<KeyValue>)| {
            let found = Contender::all(&self.0.lines, &self.0.lines.of(&name), kvs);
            (name, found)
        };
        let lines: Vec<_> = lines.into_iter().take(limit).map(contenders).collect();
        let ttls = self.lease_ttls(lines.iter().map(|(_, found)| &**found), LISTED).await;
        Ok(lines
            .into_iter()
            .map(|(name, found)| (name, Ok(to_line(&found, revision, &ttls))))
            .collect())
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        self.check_process()?;
        let mut may_be_done = false;
        let done = |timer: Option<i64>| {
            // No key is on the timer any more, and no client ends it.
            timer.into_iter().for_each(|timer| self.revoke_unneeded(timer));
            Ok(Evicted::Done)
        };
        for _ in 0..TRIES {
            let Some(victim) = self.find(name, target).await? else {
                // An upgrade may have put another claim on the timer of the one that was found
                // before.
                return Ok(if may_be_done { Evicted::Done } else { Evicted::Absent });
            };
            let timer = victim.keep().map(|keep| keep.lease);
            // A kept claim has no holder that a mark could reach.
            let how = if self.is_kept(&victim).await? { Evict::Now } else { how };
            match how {
                Evict::Mark if victim.is_broken() && may_be_done => {
                    self.shorten(&victim, victim.changed, victim.lease).await;
                    return done(timer);
                }
                Evict::Mark if victim.is_broken() => return Ok(Evicted::Done),
                _ => {}
            }
            let notice = self.notice_to(&victim, how, by, reason).await?;
            let (changes, lease) = match how {
                Evict::Now => (vec![delete(&victim.key)], None),
                Evict::Mark => self.mark(&victim, by, reason).await?,
            };
            let when = vec![changed(&victim.key, victim.changed)];
            let changes = changes.into_iter().chain(notice).collect();
            let request = transaction(when, changes, Vec::new());
            let answer: std::result::Result<TxnResponse, _> = self.txn(request).await;
            match (answer.map_err(fault::of), lease) {
                // The next look finds what was done. A copy that comes later finds that the claim
                // has changed.
                (Err(error), _) if error.effect() == Effect::Unknown => may_be_done = true,
                (Err(error), _) => return Err(error),
                (Ok(answer), lease) if answer.succeeded => {
                    if let Some(lease) = lease {
                        let marked = answer.header.map_or(0, |header| header.revision);
                        self.shorten(&victim, marked, lease).await;
                    }
                    return done(timer);
                }
                (Ok(_), lease) => {
                    if let Some(lease) = lease {
                        self.revoke(lease).await?;
                    }
                }
            }
        }
        Err(fault::always_changes())
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        self.check_process()?;
        for _ in 0..TRIES {
            let (found, _) = self.contenders(name).await?;
            let Some(first) = found.first() else { return Ok(false) };
            let holders =
                admissions(&found).take_while(|(_, granted)| *granted).map(|(holder, _)| holder);
            let (mut is_held, mut is_asked) = (false, false);
            for holder in holders.filter(|holder| !holder.is_over()) {
                // A kept claim has no holder to ask.
                if !self.is_kept(holder).await? {
                    is_held = true;
                    is_asked |= self.ask_for(holder, by, reason).await?;
                }
            }
            if is_held && !is_asked {
                // All of these holders have left before they could be asked.
                continue;
            }
            let when = vec![changed(&first.key, first.changed)];
            let answer = self.txn(transaction(when, vec![touch(&first.key)], Vec::new())).await;
            // If the comparison fails, the key has changed meanwhile, which wakes its watches too.
            return answer.map(|_: TxnResponse| is_asked).map_err(fault::of);
        }
        Err(fault::always_changes())
    }
}

impl EtcdStore {
    async fn find(&self, name: &LockName, target: &Target) -> Result<Option<Contender>> {
        let (found, _) = self.contenders(name).await?;
        let is_meant = |(contender, granted): &(&Contender, bool)| match target {
            Target::Token(token) => *granted && contender.token() == *token,
            Target::Id(hash) => contender.hash() == *hash,
        };
        let victim = admissions(&found).find(is_meant).map(|(contender, _)| contender.clone());
        Ok(victim)
    }

    /// Marks a claim, and moves it to a lease of its own. No client renews that lease, and the
    /// session's renewals do not either. A close of a detached session finds the claim by a key of
    /// the session.
    async fn mark(
        &self,
        victim: &Contender,
        by: &str,
        reason: &str,
    ) -> Result<(Vec<RequestOp>, Option<i64>)> {
        let Some(mut record) = victim.record.clone() else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "its holder is no client of lockkeeper, and would not learn of the break",
            )
            .with_remedy("break --now, once it is known that nobody works under it"));
        };
        record.mark(by, reason);
        let lease = self.grant(sessions::seconds(record.lease_time() + ON_ITS_WAY)).await?.id;
        let mut changes = vec![put(&victim.key, record.written(), lease)];
        changes.extend(victim.session_lease().map(|first| {
            let naming = put(&self.0.lines.marked(first, &victim.key), victim.key.clone(), lease);
            let is_detached = vec![present(&self.0.lines.session_on(first))];
            nested(transaction(is_detached, vec![naming], Vec::new()))
        }));
        Ok((changes, Some(lease)))
    }

    /// Moves a claim that was marked by this revision to a lease of its own ttl. The holder may
    /// have renewed its claim until a moment before the mark, and the ttl begins after the mark. If
    /// this fails, the claim stays for longer.
    async fn shorten(&self, victim: &Contender, marked: i64, on: i64) {
        let Some(ttl) = victim.record.as_ref().map(Record::lease_time) else { return };
        let shortening = async {
            let lease = self.grant(sessions::seconds(ttl)).await?.id;
            let mut moves = vec![move_to(&victim.key, lease)];
            moves.extend(victim.session_lease().map(|first| {
                let name = self.0.lines.marked(first, &victim.key);
                nested(transaction(vec![present(&name)], vec![move_to(&name, lease)], Vec::new()))
            }));
            let request = transaction(vec![changed(&victim.key, marked)], moves, Vec::new());
            let answer: std::result::Result<TxnResponse, _> = self.txn(request).await;
            // The holder may have released the claim meanwhile.
            let unused = if answer.map_err(fault::of)?.succeeded { on } else { lease };
            self.revoke(unused).await
        };
        if let Err(error) = shortening.await {
            tracing::debug!(target: "lockkeeper", store = %self, %error, "a broken claim stands for a minute longer");
        }
    }

    /// The notice to the client of a removed or marked claim.
    async fn notice_to(
        &self,
        victim: &Contender,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Option<RequestOp>> {
        let (Some(record), Some(id)) = (&victim.record, victim.id) else { return Ok(None) };
        let lease = self.grant(NOTICE_TTL).await?.id;
        let notice = Notice::new(HEXLOWER.encode(id.as_bytes()), by, reason, how == Evict::Now);
        Ok(Some(put(&self.0.lines.notice(&record.client), notice.written(), lease)))
    }

    /// Asks a holder to let go; `false` if its claim is not there any more. A holder that is no
    /// client of lockkeeper has nowhere to find a request, and counts as asked. The key of the
    /// request stays as long as the claim may live without a renewal, so a client that has no watch
    /// at present finds it later.
    ///
    /// The request goes to the client that the claim names. Another client may take the claim over
    /// meanwhile, so the claim must be as it was read.
    async fn ask_for(&self, holder: &Contender, by: &str, reason: &str) -> Result<bool> {
        let (Some(record), Some(id)) = (&holder.record, holder.id) else { return Ok(true) };
        let id = HEXLOWER.encode(id.as_bytes());
        let lease = self.grant(sessions::seconds(record.lease_time()).max(NOTICE_TTL)).await?.id;
        let asking = Notice::asking(id.clone(), by, reason).written();
        let (mut record, mut read) = (record.clone(), holder.changed);
        for _ in 0..TRIES {
            let key = self.0.lines.request(&record.client, &id);
            let when = vec![changed(&holder.key, read)];
            let then = vec![put(&key, asking.clone(), lease)];
            let request = transaction(when, then, vec![get(&holder.key)]);
            let answer: TxnResponse = self.txn(request).await.map_err(fault::of)?;
            if answer.succeeded {
                return Ok(true);
            }
            let found = only(ranges(answer.responses).next()).map(Contender::read);
            let found = found.filter(|found| found.created == holder.created && !found.is_over());
            let Some(Contender { record: Some(now), changed, .. }) = found else {
                self.revoke_unneeded(lease);
                return Ok(false);
            };
            (record, read) = (now, changed);
        }
        self.revoke_unneeded(lease);
        Err(fault::always_changes())
    }

    /// Every key of the range, without its value.
    pub(super) async fn keys(&self, span: &Span) -> Result<Vec<KeyValue>> {
        Ok(self.pages(span, true, 0).await?.0)
    }

    /// Every key of the range, as it was at this revision; at 0, at the revision of the first page.
    async fn pages(&self, span: &Span, keys_only: bool, at: i64) -> Result<(Vec<KeyValue>, i64)> {
        let (mut found, mut from, mut revision) = (Vec::new(), span.from.clone(), at);
        loop {
            let page = RangeRequest {
                key: from.clone(),
                range_end: span.to.clone(),
                limit: if keys_only { PAGE } else { PAGE_OF_CLAIMS },
                keys_only,
                revision,
                ..RangeRequest::default()
            };
            let answer = self.range(page).await?;
            if revision == 0 {
                revision = answer.header.as_ref().map_or(0, |header| header.revision);
            }
            if let Some(last) = answer.kvs.last() {
                from = [&last.key[..], b"\0"].concat().into();
            }
            found.extend(answer.kvs);
            if !answer.more {
                return Ok((found, revision));
            }
        }
    }

    /// The name of the line in which a claim is.
    fn name_of(&self, kv: &KeyValue) -> Option<LockName> {
        let written = self.0.lines.name_in(&kv.key)?;
        if self.0.lines.layout == Layout::Concurrency {
            // Other programs may have other keys beside the locks.
            return is_lock(kv).then(|| LockName::new(written).ok()).flatten();
        }
        if !written.starts_with("h.") {
            return percent_decode_str(written)
                .decode_utf8()
                .ok()
                .and_then(|name| LockName::new(&name).ok());
        }
        let name = Record::read(&kv.value)?.name?;
        LockName::new(&name).ok()
    }
}

/// Whether a key is a claim of Go's layout: it is on a lease, and its last part names a lease.
fn is_lock(kv: &KeyValue) -> bool {
    let last = kv.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let lease = last.split(|byte| *byte == b'-').next().unwrap_or_default();
    kv.lease != 0 && !lease.is_empty() && lease.iter().all(u8::is_ascii_hexdigit)
}
