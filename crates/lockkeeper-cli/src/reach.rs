//! How far a file store on this machine reaches: to all of the host, or to one container.

use std::path::Path;

use rustix::fs::statfs;

/// File systems of one container, or of one boot of it, by their magic numbers.
const OF_A_CONTAINER: [u32; 3] = [OVERLAY, TMPFS, RAMFS];
const OVERLAY: u32 = 0x794c_7630;
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
/// Files that container engines put into every container.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// Variables that a container has: of Kubernetes, and of Podman, LXC and systemd-nspawn.
const VARIABLES: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "container"];

/// Which processes share this file, in words: a process of a container sees another file at the
/// same path.
pub(crate) fn of(file: &Path) -> &'static str {
    if is_in_container() || is_on_a_containers_file_system(file) {
        "in this container only"
    } else {
        "on this host only"
    }
}

fn is_in_container() -> bool {
    MARKS.iter().any(|mark| Path::new(mark).exists())
        || VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
}

/// The file and its folder may not exist yet.
fn is_on_a_containers_file_system(file: &Path) -> bool {
    let there = file.ancestors().find_map(|path| statfs(path).ok());
    // The field has another type on each architecture; the numbers have 32 bits.
    there.is_some_and(|system| {
        u32::try_from(system.f_type & 0xffff_ffff).is_ok_and(|it| OF_A_CONTAINER.contains(&it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_belongs_to_one_container_with_or_without_its_folder() {
        let memory = Path::new("/dev/shm");
        assert!(is_on_a_containers_file_system(memory), "this test needs a tmpfs at /dev/shm");
        assert!(is_on_a_containers_file_system(&memory.join("not/there/locks.db")));
        assert!(!is_on_a_containers_file_system(Path::new("/proc/self")));
        assert_eq!(of(&memory.join("locks.db")), "in this container only");
    }
}
