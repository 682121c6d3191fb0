//! What every lock of one owner at a time promises beside Redisson's lock of that kind.

/// The promises of the kind with this accessor, beside Redisson's, whose waiters are seen by that line.
macro_rules! exclusive_beside_java {
    ($kind:ident, $java:expr, $line:expr) => {
        use distlock::ErrorKind;
        use distlock_testkit::Pair;
        use distlock_testkit::peer::Kind;
        use tokio::time::timeout;

        use crate::pairs::{HOUR, IN_VAIN, Line, SOON, hearing, ms, secs};

        const JAVA: Kind = $java;
        const LINE: Line = $line;

        /// What Java throws when a thread unlocks what it does not hold.
        const NOT_THE_OWNER: &str = "IllegalMonitorStateException";

        /// What Java holds Rust does not get, and sees whose it is.
        pub(super) async fn java_keeps_rust_out(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let lock = pair.rust().await.$kind(&name);
            let held = java.lock_for(JAVA, &name, HOUR).await;
            assert!(lock.try_lock().await.expect("the server answers").is_none());
            let wait = lock.try_lock().wait(ms(100)).await.expect("the server answers");
            assert!(wait.is_none(), "two are inside");
            let late = lock.lock().wait(ms(50)).await.expect_err("it is held");
            assert_eq!(late.kind(), ErrorKind::WaitTimeout);
            assert!(late.to_string().contains(&held.owner), "{late}");
            let holder = lock.holder().await.expect("the server answers").expect("it is held");
            assert_eq!((holder.owner, holder.depth), (held.owner, 1));
            let ttl = lock.ttl().await.expect("the server answers").expect("it is held");
            assert!(ttl > HOUR / 2 && ttl <= HOUR, "{ttl:?}");
            java.unlock(JAVA, &name).await;
            let guard = lock.try_lock().await.expect("the server answers").expect("it is free");
            guard.unlock().await.expect("it was held");
        }

        /// What Rust holds Java does not get, and cannot let go of.
        pub(super) async fn rust_keeps_java_out(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let lock = pair.rust().await.$kind(&name);
            let guard = lock.lock().lease(HOUR).await.expect("it is free");
            for wait in [ms(0), IN_VAIN] {
                for lease in [None, Some(HOUR)] {
                    let got = java.try_lock(JAVA, &name, wait, lease).await;
                    assert!(got.is_none(), "two are inside");
                }
            }
            assert!(java.is_locked(JAVA, &name).await);
            assert!(!java.is_held(JAVA, &name).await);
            assert_eq!(java.hold_count(JAVA, &name).await, 0);
            let ttl = java.ttl(JAVA, &name).await;
            assert!((1_800_000..=3_600_000).contains(&ttl), "{ttl}");
            let refused = java.unlock(JAVA, &name).result().await.expect_err("it is Rust's");
            assert_eq!(refused.class, NOT_THE_OWNER);
            assert!(lock.is_held_by(guard.owner()).await.expect("the server answers"));
            guard.unlock().await.expect("it was held");
            assert!(!java.is_locked(JAVA, &name).await);
            assert!(java.try_lock(JAVA, &name, ms(0), None).await.is_some());
            java.unlock(JAVA, &name).await;
        }

        /// Whoever waits is called: the lease would last for an hour.
        pub(super) async fn each_gets_in_when_the_other_leaves(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let lock = hearing(&pair).await.$kind(&name);
            for how in 0..6 {
                let guard = lock.lock().lease(HOUR).await.expect("it gets free");
                // Who has left must not be taken for one who waits.
                LINE.forms(&pair, &name, 0).await;
                let mut waiter = java.lock_for(JAVA, &name, HOUR);
                LINE.forms(&pair, &name, 1).await;
                assert!(!waiter.is_done(), "two are inside");
                match how % 2 {
                    0 => guard.unlock().await.expect("it was held"),
                    _ => drop(guard),
                }
                waiter.within(secs(20)).await;

                LINE.forms(&pair, &name, 0).await;
                let waiter = tokio::spawn(lock.lock().lease(HOUR).into_future());
                LINE.forms(&pair, &name, 1).await;
                assert!(!waiter.is_finished(), "two are inside");
                java.unlock(JAVA, &name).await;
                let guard = timeout(SOON, waiter).await.expect("it is called");
                let guard = guard.expect("no panic").expect("it gets free");
                guard.unlock().await.expect("it was held");
            }
        }

        /// Rust sees how often Java is inside, and gets in when it has left as often.
        pub(super) async fn javas_holds_are_counted(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let lock = pair.rust().await.$kind(&name);
            for depth in 1..=3 {
                let held = java.lock_for(JAVA, &name, HOUR).await;
                let holder = lock.holder().await.expect("the server answers");
                let holder = holder.expect("it is held");
                assert_eq!((holder.owner, holder.depth), (held.owner, depth));
                assert_eq!(java.hold_count(JAVA, &name).await, i64::from(depth));
            }
            for _ in 0..2 {
                java.unlock(JAVA, &name).await;
                assert!(lock.try_lock().await.expect("the server answers").is_none());
            }
            assert_eq!(java.hold_count(JAVA, &name).await, 1);
            java.unlock(JAVA, &name).await;
            let guard = lock.try_lock().await.expect("the server answers").expect("it is free");
            guard.unlock().await.expect("it was held");
        }

        /// The same the other way round.
        pub(super) async fn rusts_holds_are_counted(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let locks = pair.rust().await;
            let (lock, me) = (locks.$kind(&name), locks.owner());
            let mut guards = Vec::new();
            for depth in 1..=3 {
                let guard = lock.lock().owner(&me).lease(HOUR).await.expect("it is mine");
                let stay = guard.stay().to_string();
                guards.push(guard);
                let hash = pair.hgetall(&name).await;
                assert_eq!(hash.get(&stay), Some(&depth.to_string()));
                assert_eq!(lock.hold_count(&me).await.expect("the server answers"), depth);
            }
            while let Some(guard) = guards.pop() {
                assert!(java.try_lock(JAVA, &name, ms(0), None).await.is_none());
                guard.unlock().await.expect("it was held");
            }
            assert!(java.try_lock(JAVA, &name, ms(0), None).await.is_some());
            java.unlock(JAVA, &name).await;
        }

        /// A watchdog keeps what it guards for longer than its timeout, which is 9 s on both sides.
        pub(super) async fn whoever_renews_keeps_the_other_out(pair: Pair) {
            let (java, other) = (pair.java("a"), pair.java("b"));
            let locks = pair.rust().await;
            let (javas, rusts) = (pair.name("java"), pair.name("rust"));
            java.lock(JAVA, &javas).await;
            let guard = locks.$kind(&rusts).lock().await.expect("it is free");
            let late = other.try_lock(JAVA, &rusts, secs(12), None);
            let got = locks.$kind(&javas).try_lock().wait(secs(12)).await;
            assert!(got.expect("the server answers").is_none(), "two are inside");
            assert!(late.await.is_none(), "two are inside");
            assert!(!guard.is_lost());
            guard.unlock().await.expect("it was held");
            java.unlock(JAVA, &javas).await;
        }

        /// The end of a lease lets the other in, and the slow holder is told.
        pub(super) async fn a_lease_that_ends_lets_the_other_in(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let lock = pair.rust().await.$kind(&name);
            java.lock_for(JAVA, &name, ms(500)).await;
            let guard = lock.lock().wait(secs(20)).lease(HOUR).await.expect("it ends");
            let late = java.unlock(JAVA, &name).result().await.expect_err("it is Rust's");
            assert_eq!(late.class, NOT_THE_OWNER);
            guard.unlock().await.expect("it was held");

            let guard = lock.lock().lease(ms(500)).await.expect("it is free");
            // Several times: a fair lock's waiter of Redisson before 3.32 may miss the end of a lease by a millisecond, and
            // then waits for as long as it may.
            let mut next = None;
            for _ in 0..5 {
                if next.is_none() {
                    next = java.try_lock(JAVA, &name, secs(2), Some(HOUR)).await;
                    assert!(next.is_none() || guard.is_lost(), "two are inside");
                }
            }
            assert!(next.is_some());
            let late = guard.unlock().await.expect_err("it is Java's");
            assert_eq!(late.kind(), ErrorKind::Lost);
            assert!(java.is_held(JAVA, &name).await);
            java.unlock(JAVA, &name).await;
        }

        /// Force frees what Java holds, and calls a waiter of Java's.
        pub(super) async fn rust_forces_java_out(pair: Pair) {
            let (holder, waiter) = (pair.java("a"), pair.java("b"));
            let name = pair.name("k");
            let lock = pair.rust().await.$kind(&name);
            holder.lock_for(JAVA, &name, HOUR).await;
            let mut next = waiter.lock_for(JAVA, &name, HOUR);
            LINE.forms(&pair, &name, 1).await;
            assert!(!next.is_done(), "two are inside");
            assert!(lock.force_unlock().await.expect("the server answers"));
            next.within(secs(20)).await;
            let late = holder.unlock(JAVA, &name).result().await.expect_err("it was taken away");
            assert_eq!(late.class, NOT_THE_OWNER);
            waiter.unlock(JAVA, &name).await;
            assert!(!lock.force_unlock().await.expect("the server answers"));
        }

        /// Force frees what Rust holds, calls a waiter of Rust's, and the holder learns of it.
        pub(super) async fn java_forces_rust_out(pair: Pair) {
            let (java, name) = (pair.java("a"), pair.name("k"));
            let guard = pair.rust().await.$kind(&name).lock().await.expect("it is free");
            let elsewhere = hearing(&pair).await;
            let next = elsewhere.$kind(&name).lock().lease(HOUR);
            let next = tokio::spawn(next.into_future());
            LINE.forms(&pair, &name, 1).await;
            assert!(!next.is_finished(), "two are inside");
            assert!(java.force_unlock(JAVA, &name).await);
            let next = timeout(SOON, next).await.expect("it is called");
            let next = next.expect("no panic").expect("it gets free");
            timeout(secs(15), guard.lost()).await.expect("the watchdog finds out");
            let late = guard.unlock().await.expect_err("it was taken away");
            assert_eq!(late.kind(), ErrorKind::Lost);
            next.unlock().await.expect("it was held");
            assert!(!java.force_unlock(JAVA, &name).await);
        }
    };
}
