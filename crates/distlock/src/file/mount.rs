//! Which file system a directory is on: `file:` locks hold on one machine, and some are shared by several.

use std::fs;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// What a file system is to locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Local,
    /// Anything can be behind it: a program, or a host that shares its disk with one container or with many.
    Opaque(&'static str),
    /// Several machines share it.
    Network(&'static str),
}

impl System {
    pub(super) fn of(path: &Path) -> System {
        let Some(magic) = magic(path) else { return System::Local };
        System::told_by(magic, || fuse_behind(&fs::read_to_string(MOUNTS).ok()?, device(path)?))
    }

    /// By the magic number that `statfs` gives; only FUSE needs to be asked `who` it is.
    fn told_by(magic: u32, who: impl FnOnce() -> Option<&'static str>) -> System {
        let known = |systems: &[(u32, &'static str)]| {
            systems.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
        };
        match (known(&NETWORK), known(&OPAQUE)) {
            (Some(network), _) => System::Network(network),
            (None, Some(FUSE)) => who().map_or(System::Opaque(FUSE), System::Network),
            (None, Some(opaque)) => System::Opaque(opaque),
            (None, None) => System::Local,
        }
    }

    /// An expiry counts from one machine's boot: on another machine it would look like one of an earlier boot, and both
    /// would hold the lock.
    pub(super) fn refuse_network(self, path: &Path) -> Result<()> {
        let System::Network(system) = self else { return Ok(()) };
        let message = format!(
            "file: {} is on {system}, but file: locks hold on one machine only; name a local directory, or use redis://",
            path.display()
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// What is behind it cannot be told, and nobody looks at the doctor before something has gone wrong.
    pub(super) fn warn_if_opaque(self, path: &Path) {
        if let System::Opaque(system) = self {
            tracing::warn!(
                target: "distlock", path = %path.display(), %system,
                "the directory of the locks may be shared with other machines: if it is, a process of each machine can hold the same lock"
            );
        }
    }
}

/// File systems that several machines share, by their magic number.
const NETWORK: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
];

const FUSE: &str = "FUSE";

const OPAQUE: [(u32, &str); 2] = [(0x6573_5546, FUSE), (0x0102_1997, "9p")];

/// What FUSE calls those that several machines share: `fuse.NAME`, or `fuse` and the name as what is mounted.
const NETWORK_FUSE: [&str; 26] = [
    "sshfs",
    "glusterfs",
    "ceph-fuse",
    "ceph",
    "s3fs",
    "rclone",
    "davfs",
    "davfs2",
    "goofys",
    "gcsfuse",
    "blobfuse",
    "blobfuse2",
    "mountpoint-s3",
    "juicefs",
    "mfs",
    "moosefs",
    "lizardfs",
    "saunafs",
    "seaweedfs",
    "curlftpfs",
    "cvmfs2",
    "xtreemfs",
    "smbnetfs",
    "gvfsd-fuse",
    "fuse_dfs",
    "quobyte",
];

const MOUNTS: &str = "/proc/self/mountinfo";

/// Which of those that several machines share is mounted as this device. [`MOUNTS`] has a line for each mount:
/// `36 35 0:52 / /mnt rw,noatime shared:1 - fuse.sshfs me@host:/dir rw,user_id=0`
fn fuse_behind(mounts: &str, device: (u32, u32)) -> Option<&'static str> {
    let device = format!("{}:{}", device.0, device.1);
    mounts.lines().find_map(|line| {
        // Blanks in what is mounted, and where, stand there as `\040`.
        let (mount, system) = line.split_once(" - ")?;
        mount.split(' ').nth(2).filter(|known| **known == device)?;
        let mut system = system.split(' ');
        let (kind, source) = (system.next()?, system.next()?);
        let name = kind.strip_prefix("fuse.").unwrap_or(source);
        let known = NETWORK_FUSE.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
        // WebDAV says nothing but `fuse`, and the address.
        known.or_else(|| source.contains("://").then_some("an address in a network"))
    })
}

fn device(path: &Path) -> Option<(u32, u32)> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn magic(path: &Path) -> Option<u32> {
    rustix::fs::statfs(path).ok().map(|stat| stat.f_type as u32)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn magic(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_system_that_machines_share_is_refused_by_name() {
        let path = Path::new("/mnt/locks");
        for (magic, name) in NETWORK {
            let system = System::told_by(magic, || panic!("only FUSE is asked"));
            assert_eq!(system, System::Network(name));
            let error = system.refuse_network(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let text = error.to_string();
            assert!(text.contains(&format!("/mnt/locks is on {name}, ")), "{text}");
            assert!(text.contains("name a local directory, or use redis://"), "{text}");
        }
        // ext4, tmpfs, overlay.
        for magic in [0xef53, 0x0102_1994, 0x794c_7630] {
            let system = System::told_by(magic, || panic!("only FUSE is asked"));
            assert_eq!(system, System::Local);
            assert!(system.refuse_network(path).is_ok());
        }
    }

    #[test]
    fn fuse_is_refused_if_machines_share_what_is_behind_it() {
        let fuse = OPAQUE[0].0;
        for name in NETWORK_FUSE {
            let system = System::told_by(fuse, || Some(name));
            let error = system.refuse_network(Path::new("/mnt")).unwrap_err().to_string();
            assert!(error.contains(&format!("/mnt is on {name}, ")), "{error}");
        }
        for (magic, name) in OPAQUE {
            let system = System::told_by(magic, || None);
            assert_eq!(system, System::Opaque(name));
            assert!(system.refuse_network(Path::new("/mnt")).is_ok());
        }
    }

    #[test]
    fn mounts_say_what_is_behind_fuse() {
        let mounts = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 0:52 / /mnt/a\\040b rw,noatime shared:1 master:2 - fuse.sshfs me@host:/dir rw,user_id=0
37 35 0:53 / /mnt/dav rw - fuse https://example.org/dav rw
38 35 0:54 / /mnt/s3 rw - fuse mountpoint-s3 rw
39 35 0:55 / /mnt/jfs rw - fuse.JuiceFS JuiceFS:volume rw
40 35 0:56 / /mnt/bind rw - fuse.bindfs /srv rw
41 35 8:1 / /mnt/ntfs rw - fuseblk /dev/sda1 rw
42 35 0:57 / /mnt/vm rw - virtiofs share rw
what is this
43 35 0:58 / /mnt/short rw - fuse.sshfs
";
        let behind = |minor| fuse_behind(mounts, (0, minor));
        assert_eq!(behind(52), Some("sshfs"));
        assert_eq!(behind(53), Some("an address in a network"));
        assert_eq!(behind(54), Some("mountpoint-s3"));
        assert_eq!(behind(55), Some("juicefs"));
        for other in [5, 21, 56, 57, 58, 99] {
            assert_eq!(behind(other), None, "0:{other}");
        }
        assert_eq!(fuse_behind(mounts, (8, 1)), None);
        assert_eq!(fuse_behind("", (0, 52)), None);
    }

    #[test]
    fn where_this_runs_is_found_among_the_mounts() {
        // /proc has a device of its own everywhere.
        let device = device(Path::new("/proc")).unwrap();
        let mounts = fs::read_to_string(MOUNTS).unwrap();
        let as_sshfs = mounts.replace(" - proc ", " - fuse.sshfs ");
        assert_eq!(fuse_behind(&as_sshfs, device), Some("sshfs"));
    }
}
