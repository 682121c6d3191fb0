//! What is kept in the user's state directory, and where that is.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use distlock::state_dir;

use crate::exit::Failure;
use crate::print;

/// Files in the user's state directory: works on a machine that has nothing but this program.
pub(super) fn default_url() -> Result<String, Failure> {
    let dir = match state_dir::for_locks() {
        Some(dir) => dir,
        None => {
            let dir = own_temporary_directory()?;
            // Who has a home keeps them there: two that should exclude each other may not.
            let shown = print::name(&dir.to_string_lossy());
            print::complain(&format!(
                "neither HOME nor XDG_STATE_HOME names a state directory, so locks are kept in {shown}; set DISTLOCK_URL for all jobs that must exclude each other"
            ));
            dir
        }
    };
    let dir = dir.into_os_string().into_string().map_err(|dir| {
        Failure::Usage(format!("the state directory {} is not UTF-8; use --url", dir.display()))
    })?;
    Ok(format!("file:{dir}"))
}

/// Where it is written down who took locks away. Beside the locks, not among them: there every name may be a lock's.
pub(super) fn audit_log() -> Result<PathBuf, Failure> {
    match env::var_os("DISTLOCK_AUDIT").filter(|path| !path.is_empty()) {
        Some(path) => Ok(path.into()),
        None => state_dir::find().map(|state| state.join("distlock-audit.log")).ok_or_else(|| {
            let text = "neither HOME nor XDG_STATE_HOME names a state directory for the audit log: name a file in DISTLOCK_AUDIT; nothing was freed";
            Failure::Usage(text.to_owned())
        }),
    }
}

/// The last resort. Every user can create this path in `/tmp` first, so it must belong to this user alone.
fn own_temporary_directory() -> Result<PathBuf, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let dir = env::temp_dir().join(format!("distlock-{uid}"));
    let cannot = |cause| Failure::System("create a directory for locks (use --url)", cause);
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(cannot(cause));
        }
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir).map_err(cannot)?;
    if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0 {
        return Ok(dir);
    }
    let dir = dir.display();
    Err(Failure::Usage(format!("{dir} is not a directory that only you can write to; use --url")))
}
