//! Looks: questions to etcd about the status of claims. A look is one transaction that only reads,
//! so that its answers are of one revision: the claim, and the claims ahead of it.

mod line;
mod neighbours;
mod status;

pub(crate) use self::line::to_line;
pub(crate) use self::neighbours::{Neighbours, Next, SHORT_QUEUE};
pub(crate) use self::status::{ClaimStatus, Found, is_admitted};
use crate::layout::transaction::{all, get, last, only, range, ranges, transaction};
use crate::layout::{Contender, Incarnation, Layout, Span, ahead_of};
use crate::sessions::{ClaimState, Session};
use crate::store::{ClaimKey, MAX};
use crate::wire::messages::{RangeRequest, RangeResponse, RequestOp};
use crate::{EtcdStore, Result, fault};

/// So many claims are looked at in one transaction: etcd takes 128 operations.
const AT_ONCE: usize = 50;

/// A question about a claim.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) line: Span,
    /// The key of the claim, and the revision that created it; 0 if that is not known.
    pub(crate) own: Incarnation,
    /// The revision that recorded the detached session of the claim: an older key is what an
    /// earlier session with the same id has left, and belongs to no client.
    pub(crate) since: i64,
    /// The claim is a writer: it waits for all claims ahead of it.
    pub(crate) exclusive: bool,
    /// All predecessors of a writer are asked for, if there are at most [`SHORT_QUEUE`].
    pub(crate) short_queue: bool,
}

impl EtcdStore {
    /// The question about a claim of this client.
    pub(crate) fn question(
        &self,
        session: &Session,
        key: &ClaimKey,
        state: Option<&ClaimState>,
    ) -> Question {
        let created = state.map_or(0, |state| state.created);
        Question {
            line: self.0.lines.of(&key.name),
            own: Incarnation { key: session.claims.slot_of(&self.0.lines, key).at, created },
            since: session.recorded,
            exclusive: state.is_some_and(|state| state.record.weight == MAX),
            short_queue: false,
        }
    }

    /// The status of these claims now.
    pub(crate) async fn look(&self, questions: &[Question]) -> Result<Vec<ClaimStatus>> {
        let mut found = Vec::with_capacity(questions.len());
        for questions in questions.chunks(AT_ONCE) {
            // Claims of one line may need the same part of the line, which is read once.
            let mut lines: Vec<RangeRequest> = Vec::new();
            let mut line_of = |question: &Question| {
                let line = self.predecessors_of(question);
                lines.iter().position(|known| *known == line).unwrap_or_else(|| {
                    lines.push(line);
                    lines.len() - 1
                })
            };
            let indices: Vec<_> = questions.iter().map(&mut line_of).collect();
            let owns = questions.iter().map(|question| get(&question.own.key));
            let mut answers =
                self.read_together(owns.chain(lines.into_iter().map(range)).collect()).await?;
            let lines = answers.split_off(questions.len().min(answers.len()));
            for ((question, own), line) in questions.iter().zip(answers).zip(indices) {
                found.push(self.status(question, Some(own), lines.get(line).cloned()));
            }
        }
        Ok(found)
    }

    /// Whether a writer still waits right behind the last of these neighbours. etcd reads two keys
    /// for that, and not the line. `false` if only a look can show it.
    pub(crate) async fn is_still_behind(
        &self,
        question: &Question,
        neighbours: &Neighbours,
    ) -> Result<bool> {
        let own = &question.own;
        let Some(last) = neighbours.last().filter(|_| question.exclusive && own.created != 0)
        else {
            return Ok(false);
        };
        let mut answers =
            self.read_together(vec![get(&own.key), get(&last.key)]).await?.into_iter();
        let mut found = |incarnation: &Incarnation| {
            only(answers.next())
                .map(Contender::read)
                .filter(|found| found.created == incarnation.created)
        };
        let (own, last) = (found(own), found(last));
        let is_blocked = last.is_some() && !self.ends_overdue(last.as_slice()).await;
        Ok(is_blocked && own.is_some_and(|own| !own.is_over()))
    }

    /// A claim of this client, unless only its minimum hold is left, and whether the claim is
    /// admitted.
    pub(crate) async fn look_at_own(&self, key: &ClaimKey) -> Result<Option<(Contender, bool)>> {
        let session = self.session(&key.session).await?;
        let at = session.claims.slot_of(&self.0.lines, key).at;
        let line = self.0.lines.of(&key.name);
        let mut answers = self.read_together(vec![get(&at), range(all(&line))]).await?.into_iter();
        let (own, others) = (only(answers.next()), answers.next().unwrap_or_default());
        // A later claim of this client may have the slot, if the answer took longer than a release.
        let is_own = |own: &Contender| {
            own.id == Some(key.id) && !own.is_released() && session.may_have_made(own.created)
        };
        let own = own.map(Contender::read).filter(is_own);
        Ok(own.map(|own| {
            let others = Contender::all(&self.0.lines, &line, others.kvs);
            let admitted = is_admitted(&own, ahead_of(&others, own.created));
            (own, admitted)
        }))
    }

    /// The answers to these reads, all of one revision.
    pub(crate) async fn read_together(&self, reads: Vec<RequestOp>) -> Result<Vec<RangeResponse>> {
        let answer = self.txn(transaction(Vec::new(), reads, Vec::new())).await;
        let answer = answer.map_err(|error| fault::of(error).without_effect())?;
        Ok(ranges(answer.responses).collect())
    }

    /// The part of the line that decides about a claim. For a writer it is the keys of the last few
    /// predecessors, since every key of a native line is a contender.
    fn predecessors_of(&self, question: &Question) -> RangeRequest {
        let (keys_only, created) = (question.exclusive, question.own.created);
        let most = if question.short_queue { SHORT_QUEUE + 1 } else { 2 };
        match question.exclusive && created != 0 && self.0.lines.layout == Layout::Native {
            true => RangeRequest { keys_only, ..last(most, &question.line, Some(created)) },
            false => RangeRequest { keys_only, ..all(&question.line) },
        }
    }

    fn status(
        &self,
        question: &Question,
        own: Option<RangeResponse>,
        line: Option<RangeResponse>,
    ) -> ClaimStatus {
        let Some(own) = only(own) else { return ClaimStatus::Absent };
        let own = Contender::read(own);
        if own.created < question.since {
            return ClaimStatus::Absent;
        }
        let line = Contender::all(
            &self.0.lines,
            &question.line,
            line.map(|line| line.kvs).unwrap_or_default(),
        );
        ClaimStatus::of(&own, ahead_of(&line, own.created), question.short_queue)
    }
}
