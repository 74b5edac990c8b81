//! File systems, and whether one belongs to this machine alone. File locks, shared memory and
//! inotify reach the processes of one kernel. On a file system that two kernels use, each kernel
//! would grant the lock.

use std::path::Path;

use crate::{Error, ErrorKind, Result};

/// Whether other machines can reach a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The file system is on a disk, or in the memory, of this machine.
    Local,
    /// Other machines can reach the file system.
    Shared,
    /// The file system is on top of another one, which cannot be determined.
    Stacked,
}
use Reach::{Local, Shared, Stacked};

pub(super) const OVERLAY: u32 = 0x794c_7630;
pub(super) const TMPFS: u32 = 0x0102_1994;
pub(super) const RAMFS: u32 = 0x8584_58f6;

/// The known file systems, by their number in `statfs`.
const KNOWN: &[(u32, &str, Reach)] = &[
    (0x0000_ef53, "ext4", Local),
    (0x5846_5342, "XFS", Local),
    (0x9123_683e, "btrfs", Local),
    (0x2fc1_2fc1, "ZFS", Local),
    (0xf2f5_2010, "F2FS", Local),
    (0xca45_1a4e, "bcachefs", Local),
    (TMPFS, "tmpfs", Local),
    (RAMFS, "ramfs", Local),
    // The kernel accepts few network file systems for its upper layer.
    (OVERLAY, "overlay", Local),
    (0x3153_464a, "JFS", Local),
    (0x5265_4973, "ReiserFS", Local),
    (0x0000_3434, "NILFS", Local),
    (0x2405_1905, "UBIFS", Local),
    (0x0000_72b6, "JFFS2", Local),
    (0x2011_bab0, "exFAT", Local),
    (0x0000_4d44, "FAT", Local),
    (0x5346_544e, "NTFS", Local),
    (0x7366_746e, "NTFS", Local),
    (0x0000_482b, "HFS+", Local),
    (0x1501_3346, "UDF", Local),
    (0x5346_4846, "the file system of WSL", Local),
    (0x0000_6969, "NFS", Shared),
    (0x0000_517b, "SMB", Shared),
    (0xff53_4d42, "CIFS", Shared),
    (0xfe53_4d42, "SMB2", Shared),
    (0x5346_414f, "AFS", Shared),
    (0x6b41_4653, "AFS", Shared),
    (0x00c3_6400, "Ceph", Shared),
    (0x0102_1997, "9P", Shared),
    (0x0bd0_0bd0, "Lustre", Shared),
    (0x0116_1970, "GFS2", Shared),
    (0x7461_636f, "OCFS2", Shared),
    (0x7375_7245, "Coda", Shared),
    (0x4750_4653, "GPFS", Shared),
    (0x1983_0326, "BeeGFS", Shared),
    (0x786f_4256, "a shared folder of VirtualBox", Shared),
    (0xbacb_acbc, "a shared folder of VMware", Shared),
    (0x7c7c_6673, "a shared folder of Parallels", Shared),
    (0x00c0_ffee, "a folder of the host of this virtual machine", Shared),
    (0x2003_0528, "OrangeFS", Shared),
    (0xaad7_aaea, "PanFS", Shared),
    (0x6163_6673, "ACFS", Shared),
    (0xbeef_dead, "StorNext", Shared),
    (0x0131_11a8, "IBRIX", Shared),
    (0xa501_fcf5, "VxFS", Shared),
    (0x0000_564c, "NetWare", Shared),
    // sshfs, GlusterFS, virtiofs and others.
    (0x6573_5546, "FUSE", Stacked),
    (0x0000_f15f, "eCryptfs", Stacked),
    (0x6175_6673, "aufs", Stacked),
    (0x6a65_6a62, "shiftfs", Stacked),
    (0x5dca_2df5, "sdcardfs", Stacked),
];

/// The name of a file system of this machine alone. All others are refused, unknown ones too.
///
/// # Errors
/// `Unsupported`: other machines can reach the file system, or may be able to.
pub(super) fn local(folder: &Path, magic: u32) -> Result<&'static str> {
    let what = match KNOWN.iter().find(|(number, ..)| *number == magic) {
        Some((_, name, Local)) => return Ok(name),
        Some((_, name, Shared)) => {
            format!(
                "{name}, a file system that other machines can reach: each would grant the lock"
            )
        }
        Some((_, name, Stacked)) => {
            format!(
                "{name}, which hides what is below: on a file system of many machines each would grant the lock"
            )
        }
        None => format!(
            "a file system that is not known to be of this machine alone ({magic:#x}): if other machines can reach it, \
             each would grant the lock"
        ),
    };
    let problem = format!("file:{} is on {what}", folder.display());
    Err(Error::new(ErrorKind::Unsupported, problem).with_remedy(
        "a path on a disk of this machine, a store for many machines, or unsafe=network-fs",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(magic: u32) -> Error {
        local(Path::new("/srv"), magic).unwrap_err()
    }

    #[test]
    fn a_file_system_that_others_can_reach_is_refused() {
        for magic in
            [0x6969, 0x786f_4256, 0xbacb_acbc, 0x7c7c_6673, 0x2003_0528, 0x6573_5546, 0xf15f]
        {
            let error = refused(magic);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.remedy().unwrap().contains("unsafe=network-fs"), "{error}");
        }
        assert!(refused(0x6969).to_string().contains("NFS"));
        assert_eq!(local(Path::new("/srv"), 0xef53).unwrap(), "ext4");
    }

    #[test]
    fn a_file_system_that_nobody_knows_is_refused_with_its_number() {
        let error = refused(0x1234_5678);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("not known to be of this machine alone (0x12345678)"),
            "{error}"
        );
        assert!(error.remedy().unwrap().contains("unsafe=network-fs"), "{error}");
    }

    #[test]
    fn each_number_has_one_meaning() {
        for (at, (magic, name, _)) in KNOWN.iter().enumerate() {
            assert!(!KNOWN[..at].iter().any(|(other, ..)| other == magic), "{name}");
        }
    }
}
