//! The owner of a keeper that sets none.

/// The maximum length of an owner, in bytes.
pub(super) const OWNER_MAX: usize = 255;

/// `user@host:pid`, with the known parts.
pub(super) fn default_owner(variable: impl Fn(&str) -> Option<String>) -> String {
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    let user = user.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut owner = format!("{user}@{host}:{}", std::process::id());
    owner.retain(|c| !c.is_control());
    while owner.len() > OWNER_MAX {
        owner.remove(0);
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_without_a_name_is_called_by_its_uid() {
        let of = |set: &'static str| default_owner(|name| (name == set).then(|| "ann".to_owned()));
        assert!(of("USER").starts_with("ann@") && of("LOGNAME").starts_with("ann@"));
        let uid = rustix::process::geteuid().as_raw();
        assert!(of("").starts_with(&format!("{uid}@")), "{}", of(""));
    }
}
