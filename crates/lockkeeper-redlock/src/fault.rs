//! What is wrong with each node, and the error of a request that too few nodes have answered.

use std::time::Duration;

use lockkeeper_core::duration::format_duration;
use lockkeeper_core::{Effect, Error, ErrorKind};
use lockkeeper_redis_client::fault;
use lockkeeper_redis_client::wire::WireError;

use crate::layout::{BORN_KEY, NodeAnswer};

/// Why a node does not hold a claim, or gives no answer.
#[derive(Clone, Debug)]
pub(crate) enum NodeFault {
    /// Other claims have the lock there.
    Busy,
    /// There is no connection, or the node has not answered. `sent`: the request may have an
    /// effect.
    Unreachable { why: String, sent: bool },
    /// The node has not answered within the time of an attempt.
    Silent(Duration),
    /// The node may have forgotten claims, and counts again after this time.
    Forgot(Duration),
    /// The node does not let this client in, or refuses its requests.
    Refused(Error),
    /// Two of the addresses lead to one server.
    Twin(String),
    /// The value of another program.
    Foreign { key: String, kind: String },
}

impl NodeFault {
    pub(crate) fn of(error: WireError) -> Self {
        let error = fault::of(error);
        let sent = error.effect() == Effect::Unknown;
        match error.kind() {
            ErrorKind::Unavailable => Self::Unreachable { why: error.message().to_owned(), sent },
            _ => Self::Refused(error),
        }
    }

    /// The fault that an answer stands for, if it is one.
    pub(crate) fn of_answer(answer: &NodeAnswer) -> Option<Self> {
        match answer {
            NodeAnswer::Busy { .. } => Some(Self::Busy),
            NodeAnswer::Forgot(left) => Some(Self::Forgot(*left)),
            NodeAnswer::Members(theirs) => Some(Self::Refused(other_members(theirs))),
            NodeAnswer::Foreign { key, kind } => {
                Some(Self::Foreign { key: key.clone(), kind: kind.clone() })
            }
            _ => None,
        }
    }

    /// Whether the request may have changed something on the node, now or later.
    pub(crate) fn may_have_effect(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Unreachable { sent, .. } => *sent,
            Self::Refused(error) => error.effect() == Effect::Unknown,
            _ => false,
        }
    }

    /// What is wrong with this node.
    pub(crate) fn shown_at(&self, node: &str) -> String {
        format!("{node}: {}", self.words())
    }

    fn words(&self) -> String {
        match self {
            Self::Busy => "busy".to_owned(),
            Self::Unreachable { why, .. } => format!("unreachable ({why})"),
            Self::Silent(limit) => format!("no answer within {}", format_duration(*limit)),
            Self::Forgot(left) => format!(
                "it was started again and may have forgotten locks, and counts again in {}",
                format_duration(Duration::from_secs(left.as_secs() + 1))
            ),
            Self::Refused(error) => error.message().to_owned(),
            Self::Twin(other) => format!("the same server as {other}"),
            Self::Foreign { key, kind } => {
                format!("the key {key} holds a {kind} that lockkeeper has not written")
            }
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(error) => error.kind(),
            Self::Twin(_) => ErrorKind::Invalid,
            Self::Foreign { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Forgot(_) => {
                "again then; or lockkeeper doctor --init, if no lock is held".to_owned()
            }
            // Each server may have another password.
            Self::Refused(error) if error.message().contains("(NOAUTH)") => {
                "passwords= in the URL, with one for each server; or LOCKKEEPER_PASSWORD, if all \
                 servers have the same"
                    .to_owned()
            }
            Self::Refused(error) if error.message().contains(" WRONGPASS ") => {
                "the right password of this server, in passwords= of the URL, or in \
                 LOCKKEEPER_PASSWORD for all servers; and its right user"
                    .to_owned()
            }
            Self::Refused(error) => error.remedy().unwrap_or("lockkeeper doctor").to_owned(),
            Self::Twin(_) => "each server once: they have to fail one by one".to_owned(),
            Self::Foreign { key, .. } if key == BORN_KEY => {
                format!("redis-cli RENAME '{key}' there to another name")
            }
            Self::Foreign { key, .. } => format!(
                "redis-cli TYPE '{key}' there, and RENAME of it to another name; or another name \
                 for the lock"
            ),
            Self::Unreachable { why, .. } => {
                let of_one = fault::of(WireError::NotSent(why.clone()));
                let remedy = of_one.remedy().unwrap_or_default().replace("rediss:", "redlocks:");
                remedy.replace("redis:", "redlock:").replace("the server runs", "the servers run")
            }
            _ => "lockkeeper doctor, or a look whether the servers run".to_owned(),
        }
    }
}

/// The error about a node whose clients have other servers than this one. It may pass: the node may
/// get the list of this client.
pub(crate) fn other_members(theirs: &str) -> Error {
    let problem = format!("its clients have the servers {theirs}");
    Error::new(ErrorKind::Unavailable, problem).with_remedy(
        "the same servers for all clients, in any order; members= in the URL, if these are the \
         same servers by other names; lockkeeper doctor --init, if that list was replaced",
    )
}

/// The error of a request that too few nodes have answered: what is wrong with each node. The kind
/// is that of the nodes, if all that fail do so for one reason.
pub(crate) fn too_few(faults: &[(String, NodeFault)], nodes: usize, quorum: usize) -> Error {
    let words: Vec<_> = faults.iter().map(|(node, fault)| fault.shown_at(node)).collect();
    let problem = match nodes {
        1 => words.join("; "),
        _ => format!("{quorum} of {nodes} servers are needed; {}", words.join("; ")),
    };
    let failing = || faults.iter().filter(|(_, fault)| !matches!(fault, NodeFault::Busy));
    let lasting = failing().filter(|(_, fault)| fault.kind() != ErrorKind::Unavailable);
    // Whether the lock could be acquired if the others answered.
    let decides = lasting.clone().count() > nodes - quorum;
    let deciding = if decides { lasting.clone().next() } else { failing().next() };
    let lasts = deciding.filter(|_| decides);
    let kind = lasts.map_or(ErrorKind::Unavailable, |(_, fault)| fault.kind());
    let remedy =
        deciding.map_or_else(|| "again in a moment".to_owned(), |(_, fault)| fault.remedy());
    let error = Error::new(kind, problem).with_remedy(remedy);
    match faults.len() < nodes || faults.iter().any(|(_, fault)| fault.may_have_effect()) {
        true => error.with_unknown_effect(),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(node: &str, fault: NodeFault) -> (String, NodeFault) {
        (node.to_owned(), fault)
    }

    fn denied() -> NodeFault {
        NodeFault::of(WireError::server("WRONGPASS", "no"))
    }

    fn away() -> NodeFault {
        NodeFault::of(WireError::NotSent("h:1: refused".to_owned()))
    }

    #[test]
    fn one_message_says_of_each_node_what_is_wrong_with_it() {
        let forgot = NodeFault::Forgot(Duration::from_millis(4500));
        let faults =
            [at("a", NodeFault::Busy), at("b", away()), at("c", forgot), at("d", denied())];
        let error = too_few(&faults, 5, 3);
        let text = error.to_string();
        for part in [
            "a: busy",
            "b: unreachable (h:1: refused)",
            "counts again in 5s",
            "d: the server says WRONGPASS",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    }

    #[test]
    fn a_password_that_is_missing_or_wrong_may_be_that_of_one_server() {
        for (code, remedy) in [("NOAUTH", "passwords= in the URL"), ("WRONGPASS", "passwords= of")]
        {
            let refused = || NodeFault::of(WireError::server(code, "no"));
            let error = too_few(&[at("a", refused()), at("b", refused())], 3, 2);
            let shown = error.remedy().unwrap();
            assert!(shown.contains(remedy) && shown.contains("LOCKKEEPER_PASSWORD"), "{error}");
        }
    }

    #[test]
    fn the_kind_is_a_lasting_one_only_if_the_others_could_not_help() {
        assert_eq!(
            too_few(&[at("a", denied()), at("b", denied())], 3, 2).kind(),
            ErrorKind::Denied
        );
        assert_eq!(
            too_few(&[at("a", denied()), at("b", away())], 3, 2).kind(),
            ErrorKind::Unavailable
        );
        let none = [at("a", away()), at("b", away()), at("c", away())];
        assert_eq!(too_few(&none, 3, 2).effect(), Effect::None);
    }
}
