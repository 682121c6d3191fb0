//! Who waited in vain is told who was in the way.

use distlock::ErrorKind;

use super::{ALL, Ground, HOUR, Way, may_read, ms, open, secs};

/// A wait that runs out says who holds it, on which machine, what for and since when.
pub async fn a_wait_timeout_says_who_holds_it(ground: Ground) {
    let holder = open(&ground, "billing").await;
    let (says, silent) = (open(&ground, "other").await, ground.open().await);
    let name = ground.name("k");
    let held = Way::Mutex.take(&holder, &name, Some(HOUR), Some("ship order")).await;
    let pid = format!("pid {}", std::process::id());
    for (locks, may_read) in [(&says, true), (&silent, may_read(&ground))] {
        let error = locks.mutex(&name).lock().wait(ms(50)).await.expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::WaitTimeout);
        let text = error.to_string();
        assert!(text.contains(&held.guard().owner().to_string()), "{text}");
        for word in ["by billing on ", &pid, "\"ship order\"", " (since 20", "; owner "] {
            assert_eq!(text.contains(word), may_read, "{word}: {text}");
        }
    }
    held.unlock().await;
}

/// The same of permits and of readers, of whom there are several.
pub async fn one_of_several_is_named(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "billing").await, open(&ground, "other").await);
    let name = ground.name("s");
    let held = Way::Semaphore.take(&here, &name, None, Some("import")).await;
    let wanted = elsewhere.semaphore(&name).acquire(1).wait(ms(50));
    let text = wanted.await.expect_err("all are out").to_string();
    assert!(text.contains("\"import\"") && text.contains(&format!("has {ALL}")), "{text}");
    held.unlock().await;
    Way::Semaphore.sweep(&here, &name).await;

    let name = ground.name("rw");
    let one = Way::Read.take(&here, &name, Some(secs(30)), Some("report")).await;
    let two = Way::Read.take(&elsewhere, &name, Some(secs(30)), Some("report")).await;
    let text = here.rw(&name).write().wait(ms(50)).await.expect_err("they read").to_string();
    assert!(text.contains("\"report\"") && text.contains("and 1 more"), "{text}");
    one.unlock().await;
    two.unlock().await;
}
