//! Steps of locks.

use distlock_testkit::peer::Kind;
use tokio::time::timeout;

use super::Known::{Left, Life};
use super::{Known, LEASE, LONGER, Twins};
use crate::pairs::{IN_VAIN, ms, secs};

const NEVER_SHORTENS: &str = "Redisson's re-entry sets the newest lease, ours the longest";
const LEVEL: &str = "Redisson's release of one level sets the lease that the Java object knows of, here the watchdog's; ours lets it be";

/// A lock of one owner at a time.
macro_rules! exclusive {
    ($twins:ident, $kind:ident, $java:expr, $channel:expr) => {{
        let [a, b, _] = $twins.java.clone();
        let theirs = $twins.theirs();
        let [me, other, _] = $twins.owners;
        let lock = $twins.rust[0].$kind(&$twins.ours());
        let elsewhere = $twins.rust[1].$kind(&$twins.ours());

        a.lock_for($java, &theirs, LEASE).await;
        let first = lock.lock().owner(&me).lease(LEASE).await.expect("it is free");
        $twins.same("first acquisition").await;

        assert!(b.try_lock($java, &theirs, ms(0), None).await.is_none());
        assert!(b.try_lock($java, &theirs, IN_VAIN, Some(LEASE)).await.is_none());
        assert!(elsewhere.try_lock().owner(&other).await.expect("the server answers").is_none());
        let wait = elsewhere.try_lock().wait(ms(50)).owner(&other).await;
        assert!(wait.expect("the server answers").is_none());
        $twins.same("busy attempts").await;

        a.lock_for($java, &theirs, LONGER).await;
        let second = lock.lock().owner(&me).lease(LONGER).await.expect("it is mine");
        $twins.same("re-entry with a longer lease").await;

        a.lock_for($java, &theirs, LEASE).await;
        let third = lock.lock().owner(&me).lease(LEASE).await.expect("it is mine");
        $twins.same_but("re-entry with a shorter lease", &[Life("L", NEVER_SHORTENS)]).await;

        for guard in [third, second] {
            a.unlock($java, &theirs).await;
            guard.unlock().await.expect("it was held");
            $twins.same_but("release of one level", &[Life("L", LEVEL)]).await;
        }
        a.unlock($java, &theirs).await;
        first.unlock().await.expect("it was held");
        $twins.same("release").await;

        a.lock($java, &theirs).await;
        let guard = lock.lock().owner(&me).await.expect("it is free");
        $twins.same("acquisition without a lease").await;

        let entry = b.lock_for($java, &theirs, LEASE);
        let ours = tokio::spawn(elsewhere.lock().owner(&other).lease(LEASE).into_future());
        let channel: Option<fn(&str) -> String> = $channel;
        if let Some(channel) = channel {
            $twins.listening(channel, 1).await;
            $twins.same("somebody waits").await;
        }
        a.unlock($java, &theirs).await;
        guard.unlock().await.expect("it was held");
        entry.within(secs(20)).await;
        let guard = timeout(secs(20), ours).await.expect("it is called").expect("no panic");
        let _guard = guard.expect("it gets free");
        $twins.same("the next enters").await;

        assert!(a.force_unlock($java, &theirs).await);
        assert!(lock.force_unlock().await.expect("the server answers"));
        $twins.same("forced").await;
    }};
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

pub(super) async fn mutex(twins: &mut Twins) {
    exclusive!(twins, mutex, Kind::Plain, Some(channel));
}

pub(super) async fn spin(twins: &mut Twins) {
    exclusive!(twins, spin, Kind::Spin, None);
}

pub(super) async fn fenced(twins: &mut Twins) {
    exclusive!(twins, fenced, Kind::Fenced, Some(channel));
}

/// What it has in common with the others. Waiters listen on channels of their own: see [`line`].
pub(super) async fn fair(twins: &mut Twins) {
    exclusive!(twins, fair, Kind::Fair, None);
}

/// The queue of a fair lock.
pub(super) async fn line(twins: &mut Twins) {
    let [a, b, c] = twins.java.clone();
    let theirs = twins.theirs();
    let owners = twins.owners;
    let locks = [0, 1, 2].map(|n| twins.rust[n].fair(twins.ours()));
    let request = |n: usize| locks[n].lock().owner(&owners[n]).lease(LEASE);

    a.lock_for(Kind::Fair, &theirs, LEASE).await;
    let first = request(0).await.expect("it is free");
    let second_there = b.lock_for(Kind::Fair, &theirs, LEASE);
    let second_here = tokio::spawn(request(1).into_future());
    queued(twins, 1).await;
    twins.same("one waits").await;
    let third_there = c.lock_for(Kind::Fair, &theirs, LEASE);
    let third_here = tokio::spawn(request(2).into_future());
    queued(twins, 2).await;
    twins.same("two wait").await;

    a.unlock(Kind::Fair, &theirs).await;
    first.unlock().await.expect("it was held");
    second_there.within(secs(20)).await;
    let second = timeout(secs(20), second_here).await.expect("it is called").expect("no panic");
    twins.same("the first in line enters").await;

    b.unlock(Kind::Fair, &theirs).await;
    second.expect("it gets free").unlock().await.expect("it was held");
    third_there.within(secs(20)).await;
    let third = timeout(secs(20), third_here).await.expect("it is called").expect("no panic");
    let third = third.expect("it gets free");
    twins.same("the last in line enters").await;

    // One that gives up, and one behind it that does not.
    let late_there = a.try_lock(Kind::Fair, &theirs, secs(8), Some(LEASE));
    let late = locks[0].try_lock().wait(secs(8)).owner(&owners[0]).lease(LEASE);
    let late_here = tokio::spawn(late.into_future());
    queued(twins, 1).await;
    let next_there = b.lock_for(Kind::Fair, &theirs, LEASE);
    let next_here = tokio::spawn(request(1).into_future());
    queued(twins, 2).await;
    twins.same("one with a wait, one without").await;
    assert!(late_there.await.is_none());
    assert!(late_here.await.expect("no panic").expect("the server answers").is_none());
    twins.same("the first in line gives up").await;

    c.unlock(Kind::Fair, &theirs).await;
    third.unlock().await.expect("it was held");
    next_there.within(secs(20)).await;
    let next = timeout(secs(20), next_here).await.expect("it is called").expect("no panic");
    twins.same("the one behind it enters").await;
    b.unlock(Kind::Fair, &theirs).await;
    next.expect("it gets free").unlock().await.expect("it was held");
    twins.same("everybody has left").await;
}

async fn queued(twins: &Twins, n: usize) {
    twins.pair.queued(&twins.theirs(), n).await;
    twins.pair.queued(&twins.ours(), n).await;
}

const LONGEST: &str = "Redisson adds the leases of a writer up, ours takes the longer one";
const HOLDS: &str =
    "Redisson lets the holds of readers that were forced out end by themselves, ours removes them";

fn rw_channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}

/// Readers and writers.
pub(super) async fn rw(twins: &mut Twins) {
    let [a, b, c] = twins.java.clone();
    let theirs = twins.theirs();
    let owners = twins.owners;
    let locks = [0, 1, 2].map(|n| twins.rust[n].rw(twins.ours()));

    a.lock_for(Kind::Read, &theirs, LEASE).await;
    let first = locks[0].read().owner(&owners[0]).lease(LEASE).await.expect("it is free");
    twins.same("a reader").await;
    b.lock_for(Kind::Read, &theirs, LONGER).await;
    let second = locks[1].read().owner(&owners[1]).lease(LONGER).await.expect("readers share");
    twins.same("a second reader").await;
    a.lock_for(Kind::Read, &theirs, LEASE).await;
    let again = locks[0].read().owner(&owners[0]).lease(LEASE).await.expect("it is mine");
    twins.same("a reader reads again").await;
    assert!(c.try_lock(Kind::Write, &theirs, ms(0), None).await.is_none());
    let write = locks[2].try_write().owner(&owners[2]).await;
    assert!(write.expect("the server answers").is_none());
    twins.same("a writer is refused").await;
    a.unlock(Kind::Read, &theirs).await;
    again.unlock().await.expect("it was held");
    twins.same("a reader leaves one level").await;

    let entry = c.lock_for(Kind::Write, &theirs, LEASE);
    let ours = tokio::spawn(locks[2].write().owner(&owners[2]).lease(LEASE).into_future());
    twins.listening(rw_channel, 1).await;
    twins.same("a writer waits").await;
    b.unlock(Kind::Read, &theirs).await;
    second.unlock().await.expect("it was held");
    twins.same("the reader with the longer lease leaves").await;
    a.unlock(Kind::Read, &theirs).await;
    first.unlock().await.expect("it was held");
    entry.within(secs(20)).await;
    let writing = timeout(secs(20), ours).await.expect("it is called").expect("no panic");
    let writing = writing.expect("it gets free");
    twins.same("the writer enters").await;

    let known = [Life("L", LONGEST)];
    c.lock_for(Kind::Write, &theirs, LEASE).await;
    let again = locks[2].write().owner(&owners[2]).lease(LEASE).await.expect("it is mine");
    twins.same_but("the writer writes again", &known).await;
    c.unlock(Kind::Write, &theirs).await;
    again.unlock().await.expect("it was held");
    twins.same_but("the writer leaves one level", &[Life("L", LEVEL)]).await;
    c.lock_for(Kind::Read, &theirs, LEASE).await;
    let reading = locks[2].read().owner(&owners[2]).lease(LEASE).await.expect("it is mine");
    twins.same("the writer reads as well").await;
    c.unlock(Kind::Write, &theirs).await;
    writing.unlock().await.expect("it was held");
    twins.same("it reads on").await;
    c.unlock(Kind::Read, &theirs).await;
    reading.unlock().await.expect("it was held");
    twins.same("the last reader leaves").await;

    c.lock_for(Kind::Write, &theirs, LEASE).await;
    c.lock_for(Kind::Read, &theirs, LEASE).await;
    c.unlock(Kind::Write, &theirs).await;
    let writing = locks[2].write().owner(&owners[2]).lease(LEASE).await.expect("it is free");
    let reading = writing.downgrade().await.expect("it was held");
    twins.same("a downgrade").await;
    c.unlock(Kind::Read, &theirs).await;
    reading.unlock().await.expect("it was held");
    twins.same("after a downgrade").await;

    a.lock(Kind::Read, &theirs).await;
    let reading = locks[0].read().owner(&owners[0]).await.expect("it is free");
    twins.same("a reader without a lease").await;
    a.unlock(Kind::Read, &theirs).await;
    reading.unlock().await.expect("it was held");
    a.lock(Kind::Write, &theirs).await;
    let _writing = locks[0].write().owner(&owners[0]).await.expect("it is free");
    twins.same("a writer without a lease").await;
    assert!(b.force_unlock(Kind::Write, &theirs).await);
    assert!(locks[1].force_unlock_write().await.expect("the server answers"));
    twins.same("a writer is forced out").await;

    a.lock_for(Kind::Read, &theirs, LEASE).await;
    let _reading = locks[0].read().owner(&owners[0]).lease(LEASE).await.expect("it is free");
    assert!(b.force_unlock(Kind::Read, &theirs).await);
    assert!(locks[1].force_unlock_read().await.expect("the server answers"));
    let known: [Known; 1] = [Left("{L}:A:rwlock_timeout:1", HOLDS)];
    twins.same_but("a reader is forced out", &known).await;
}
