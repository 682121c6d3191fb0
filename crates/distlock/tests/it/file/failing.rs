//! A disk that is full, read-only or gone.

use std::path::{Path, PathBuf};
use std::process::Command;

use distlock::{ErrorKind, Locks};

/// A small file system in memory; `None`, and a line on the test's output, where that takes more than this user may do.
struct Small(PathBuf);

impl Small {
    fn mount(dir: &Path) -> Option<Small> {
        let path = dir.join("small");
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&path);
        if !mount.status().is_ok_and(|status| status.success()) {
            super::skipped("a disk that is full or read-only: this user cannot mount one");
            return None;
        }
        Some(Small(path))
    }

    fn url(&self) -> String {
        format!("file:{}", self.0.join("locks").display())
    }

    /// Leaves no room.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1024]).is_ok() {}
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_new_locks_and_keeps_the_old_ones() {
    let (_ground, dir) = super::ground();
    let Some(small) = Small::mount(&dir) else { return };
    let locks = Locks::connect(&small.url()).await.unwrap();
    let held = locks.mutex("held").lock().await.unwrap();
    let filler = small.fill();
    // Of so many names one has a state file of its own.
    let names = (0..20).map(|number| locks.mutex(format!("new:{number}")));
    let mut refused = None;
    for new in names {
        if let Err(error) = new.try_lock().await {
            refused = Some((new, error));
            break;
        }
    }
    let (new, error) = refused.expect("the disk is full");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    // What is there is still read, renewed and released.
    assert!(locks.mutex("held").is_locked().await.unwrap());
    held.unlock().await.unwrap();
    assert!(!locks.mutex("held").is_locked().await.unwrap());
    std::fs::remove_file(filler).unwrap();
    new.lock().await.unwrap().unlock().await.unwrap();
    locks.close().await;
}

#[tokio::test]
async fn a_read_only_file_system_is_named() {
    let (_ground, dir) = super::ground();
    let Some(small) = Small::mount(&dir) else { return };
    std::fs::create_dir(small.0.join("locks")).unwrap();
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,ro"]).arg(&small.0);
    assert!(remount.status().unwrap().success());
    let error = Locks::connect(&small.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("Read-only"), "{error}");
    assert!(error.to_string().contains(small.0.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_outage_with_a_reason() {
    let (ground, dir) = super::ground();
    let locks = ground.open().await;
    let held = locks.mutex("held").lock().await.unwrap();
    std::fs::remove_dir_all(dir.join("locks")).unwrap();
    let error = locks.mutex("k").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("removed"), "{error}");
    // Once it is there again, so are locks; what was held is lost.
    std::fs::create_dir(dir.join("locks")).unwrap();
    locks.mutex("k").lock().await.unwrap().unlock().await.unwrap();
    let error = held.unlock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}
