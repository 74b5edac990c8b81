//! The members of the cluster: which of them answer, and which leader they follow.

use std::collections::BTreeSet;

use lockkeeper_core::kit::{fail, ok, warn};

use crate::builder::checks::{Check, ONE_CLUSTER, or_waive};
use crate::fault;
use crate::store::{Finding, Level};
use crate::wire::WireError;
use crate::wire::messages::{Member, StatusResponse};

/// What a member says of itself, by its address in the URL.
pub(super) type MemberStatus = (String, Result<StatusResponse, WireError>);

/// The members that do not answer.
pub(super) fn silent(statuses: &[MemberStatus]) -> Vec<Finding> {
    let nobody_answers = statuses.iter().all(|(_, status)| status.is_err());
    let finding = |(at, status): &MemberStatus| {
        let error = fault::of(status.as_ref().err()?.clone());
        // The user runs the doctor already.
        let remedy =
            error.remedy().unwrap_or_default().trim_start_matches("lockkeeper doctor, or ");
        // The message may begin with the address.
        let finding = match error.message() {
            named if named.starts_with(at.as_str()) => named.to_owned(),
            other => format!("{at}: {other}"),
        };
        Some(match nobody_answers {
            true => Finding::fail("open", finding, remedy),
            false => Finding::warn("member", finding, remedy),
        })
    };
    statuses.iter().filter_map(finding).collect()
}

/// The members that answer, beside the members of the cluster. `list` is empty if no member has
/// listed them.
pub(super) fn look(statuses: &[MemberStatus], list: &[Member]) -> Vec<Finding> {
    let answers: Vec<_> = statuses
        .iter()
        .filter_map(|(at, status)| Some((at.as_str(), status.as_ref().ok()?)))
        .collect();
    let mut findings = vec![leadership(&answers, statuses, list)];
    let is_led = findings[0].level != Level::Fail;
    for (at, status) in &answers {
        if status.leader == 0 && is_led {
            let finding = format!("{at} has no leader: the other members do not reach it");
            findings.push(warn(finding, "check the network between this member and the others"));
        }
        if !list.is_empty() && !list.iter().any(|member| member.id == id(status)) {
            let finding = format!(
                "{at} is of another cluster than {}: each has locks of its own",
                answers[0].0
            );
            findings.push(fail(finding, or_waive(ONE_CLUSTER, Check::Members)));
        }
        if status.is_learner {
            let finding = format!("{at} is a learner: it does not vote, and serves no locks");
            findings.push(warn(finding, "etcdctl member promote"));
        }
    }
    findings.extend(list.iter().any(is_new).then(|| {
        let finding =
            "a member that was added has never started: it counts as a member that is down";
        warn(finding, "start the member, or etcdctl member remove")
    }));
    findings.extend(unnamed(&answers, statuses, list));
    findings
}

/// How many members the cluster has, which one leads, and how many may fail.
fn leadership(
    answers: &[(&str, &StatusResponse)],
    statuses: &[MemberStatus],
    list: &[Member],
) -> Finding {
    let voters = list.iter().filter(|member| !member.is_learner).count();
    let voters = if list.is_empty() { statuses.len() } else { voters };
    let count = if voters == 1 { "1 member".to_owned() } else { format!("{voters} members") };
    let Some(leader) = answers.iter().map(|(_, status)| status.leader).find(|leader| *leader != 0)
    else {
        let finding =
            format!("{count}, {} reachable, and no leader: no lock can be acquired", answers.len());
        return fail(
            finding,
            "start the others: more than half of the members have to reach each other",
        );
    };
    let at =
        answers.iter().find(|(_, status)| id(status) == leader).map(|(at, _)| (*at).to_owned());
    let named = || list.iter().find(|member| member.id == leader).map(|member| member.name.clone());
    let led = at.or_else(named).unwrap_or_else(|| "a member that the URL does not name".to_owned());
    let spare = (voters.saturating_sub(1) / 2).saturating_sub(statuses.len() - answers.len());
    match (voters, spare) {
        (1, _) => ok("1 member: while it is down, no lock can be acquired"),
        (2, _) => {
            let finding =
                format!("2 members, led by {led}: when either is down, no lock can be acquired");
            warn(finding, "a third member")
        }
        (_, 0) => ok(format!("{count}, led by {led}; if another fails, no lock can be acquired")),
        (_, spare) => ok(format!("{count}, led by {led}; {spare} may fail")),
    }
}

/// The members that the cluster knows and the URL does not name.
fn unnamed(
    answers: &[(&str, &StatusResponse)],
    statuses: &[MemberStatus],
    list: &[Member],
) -> Option<Finding> {
    let known: BTreeSet<_> = answers.iter().map(|(_, status)| id(status)).collect();
    // Only its address may show which member a silent one is.
    let mut silent: Vec<_> =
        statuses.iter().filter(|(_, status)| status.is_err()).map(|(at, _)| at).collect();
    let mut others: Vec<_> =
        list.iter().filter(|member| !is_new(member) && !known.contains(&member.id)).collect();
    others.retain(|member| {
        match silent.iter().position(|at| addresses(member).any(|other| other == **at)) {
            Some(named) => {
                silent.remove(named);
                false
            }
            None => true,
        }
    });
    if others.len() <= silent.len() {
        return None;
    }
    let names = others.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ");
    let all: Vec<_> = list.iter().filter_map(|member| addresses(member).next()).collect();
    let finding =
        format!("the URL does not name {names}: lockkeeper asks only the members in the URL");
    Some(warn(finding, format!("all members in the URL: {}", all.join(","))))
}

/// The addresses of a member, as a URL of lockkeeper has them.
fn addresses(member: &Member) -> impl Iterator<Item = &str> {
    member.client_ur_ls.iter().filter_map(|url| url.split_once("://")).map(|(_, address)| address)
}

/// Whether the member has never started: it has reported neither a name nor an address.
fn is_new(member: &Member) -> bool {
    member.name.is_empty() && member.client_ur_ls.is_empty()
}

fn id(status: &StatusResponse) -> u64 {
    status.header.map_or(0, |header| header.member_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::ResponseHeader;

    fn member(id: u64) -> Member {
        let client_ur_ls = vec![format!("http://m{id}:2379")];
        Member { id, name: format!("m{id}"), client_ur_ls, is_learner: false }
    }

    fn here(id: u64, leader: u64) -> MemberStatus {
        let header =
            Some(ResponseHeader { cluster_id: 1, member_id: id, revision: 1, raft_term: 1 });
        (format!("m{id}:2379"), Ok(StatusResponse { header, leader, ..StatusResponse::default() }))
    }

    fn down(id: u64) -> MemberStatus {
        let at = format!("m{id}:2379");
        (
            at.clone(),
            Err(WireError::not_sent(format!("{at} cannot be reached: connection refused"))),
        )
    }

    fn found(statuses: &[MemberStatus], list: &[Member]) -> Vec<(Level, String)> {
        look(statuses, list).into_iter().map(|found| (found.level, found.finding)).collect()
    }

    #[test]
    fn a_cluster_that_is_well_is_one_line() {
        let list: Vec<_> = (1..=3).map(member).collect();
        let all = [here(1, 2), here(2, 2), here(3, 2)];
        assert_eq!(
            found(&all, &list),
            [(Level::Ok, "3 members, led by m2:2379; 1 may fail".to_owned())]
        );
        assert!(silent(&all).is_empty());
        let one_down = [here(1, 2), here(2, 2), down(3)];
        assert!(
            found(&one_down, &list)[0].1.ends_with("if another fails, no lock can be acquired")
        );
        assert_eq!(found(&one_down, &list).len(), 1);
        assert_eq!((silent(&one_down).len(), silent(&one_down)[0].level), (1, Level::Warn));
        assert!(found(&[here(1, 1)], &list[..1])[0].1.starts_with("1 member: "));
        assert_eq!(found(&[here(1, 1), here(2, 1)], &list[..2])[0].0, Level::Warn);
    }

    #[test]
    fn without_a_leader_nothing_can_be_had() {
        let list: Vec<_> = (1..=3).map(member).collect();
        let alone = [here(1, 0), down(2), down(3)];
        let (level, finding) = &found(&alone, &list)[0];
        assert!(
            *level == Level::Fail && finding.starts_with("3 members, 1 reachable, and no leader"),
            "{finding}"
        );
        assert_eq!(found(&alone, &list).len(), 1);
        assert!(
            silent(&[down(1), down(2)])
                .iter()
                .all(|found| found.level == Level::Fail && found.check == "open")
        );
    }

    #[test]
    fn who_is_apart_or_of_another_cluster_or_a_learner_is_named() {
        let list: Vec<_> = (1..=3).map(member).collect();
        let cut_off = found(&[here(1, 2), here(2, 2), here(3, 0)], &list);
        assert_eq!(
            cut_off[1],
            (Level::Warn, "m3:2379 has no leader: the other members do not reach it".to_owned())
        );
        let strange = found(&[here(1, 1), here(9, 9)], &list[..1]);
        assert!(
            strange[1].0 == Level::Fail
                && strange[1].1.starts_with("m9:2379 is of another cluster than m1:2379")
        );
        let mut learner = here(3, 2);
        learner.1.as_mut().unwrap().is_learner = true;
        let learning = found(&[here(1, 2), here(2, 2), learner], &list);
        assert!(learning[1].0 == Level::Warn && learning[1].1.starts_with("m3:2379 is a learner"));
    }

    #[test]
    fn members_that_the_url_does_not_name_are_named() {
        let mut list: Vec<_> = (1..=3).map(member).collect();
        let two = look(&[here(1, 3), down(2)], &list);
        assert!(two[0].finding.starts_with("3 members, led by m3;"), "{two:?}");
        assert!(two[1].finding.starts_with("the URL does not name m3: "), "{two:?}");
        assert_eq!(
            two[1].remedy.as_deref(),
            Some("all members in the URL: m1:2379,m2:2379,m3:2379")
        );
        // A member with another address than in the URL may be the member that is down.
        let other = ("10.0.0.2:2379".to_owned(), down(2).1);
        assert_eq!(look(&[here(1, 1), other, here(3, 1)], &list).len(), 1);
        list[2] = Member { name: String::new(), client_ur_ls: Vec::new(), ..list[2].clone() };
        assert!(found(&[here(1, 1), here(2, 1)], &list)[1].1.contains("never started"));
    }
}
