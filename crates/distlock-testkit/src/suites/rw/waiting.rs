//! Who is next.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use distlock::Locks;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{HOUR, may_read, may_write, ms, secs};
use crate::cancel::poll_once;
use crate::suites::{Ground, eventually};

/// Redisson: testWriteRead. R#1542: all readers that wait come in together when the writer leaves, not one by one, wherever
/// they wait.
pub async fn twenty_readers_enter_together_when_the_writer_leaves(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for writer in [&here, &elsewhere] {
        let writing = writer.rw(&name).write().await.expect("it is free");
        let together = Arc::new(Barrier::new(20));
        let mut readers = JoinSet::new();
        for number in 0..20 {
            let locks = if number % 4 == 0 { &elsewhere } else { &here };
            let mut reader = locks.rw(&name).read().into_future();
            poll_once(&mut reader).await;
            let together = together.clone();
            readers.spawn(async move {
                let guard = reader.await.expect("it gets free");
                together.wait().await; // nobody leaves before all are inside
                guard.unlock().await.expect("it was held");
            });
        }
        tokio::time::sleep(ms(50)).await; // those who were refused listen by now
        let since = Instant::now();
        writing.unlock().await.expect("it was held");
        let all = async { while readers.join_next().await.is_some_and(|read| read.is_ok()) {} };
        timeout(secs(10), all).await.expect("all are inside at one time");
        // Far below the ten seconds after which those who wait look again by themselves.
        assert!(since.elapsed() < secs(1) + ground.slack(), "{:?}", since.elapsed());
    }
}

/// Readers that come and go so that somebody always reads, from two processes: each leaves when the next is inside, or when
/// the next is not let in.
struct Stream {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU32>,
    tasks: JoinSet<()>,
}

impl Stream {
    fn of(readers: [&Locks; 2], name: &str) -> Stream {
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let mut tasks = JoinSet::new();
        for locks in readers {
            let (rw, stop, reads) = (locks.rw(name), stop.clone(), reads.clone());
            tasks.spawn(async move {
                let mut inside = rw.read().await.expect("it gets free");
                while !stop.load(Ordering::SeqCst) {
                    tokio::time::sleep(ms(5)).await;
                    let next = rw.try_read().wait(ms(50)).await.expect("the store answers");
                    inside.unlock().await.expect("it was held");
                    inside = match next {
                        Some(next) => next,
                        None => rw.read().await.expect("it gets free"),
                    };
                    reads.fetch_add(1, Ordering::SeqCst);
                }
                inside.unlock().await.expect("it was held");
            });
        }
        Stream { stop, reads, tasks }
    }

    /// Waits until some more have come and gone.
    async fn flows(&self) {
        let before = self.reads.load(Ordering::SeqCst);
        let more = || async { self.reads.load(Ordering::SeqCst) > before + 5 };
        eventually("readers come and go", more).await;
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no task panics");
        }
    }
}

/// madelson#125: readers that come and go for ever do not keep a writer out that waits, and are not kept out by it for ever.
pub async fn a_stream_of_readers_does_not_keep_a_waiting_writer_out(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let stream = Stream::of([&here, &elsewhere], &name);
    for round in 0..3 {
        stream.flows().await;
        // One time beside the readers, one time elsewhere.
        let writer = if round % 2 == 0 { &here } else { &elsewhere };
        let writing = writer.rw(&name).write().wait(secs(20)).await;
        let writing = writing.unwrap_or_else(|error| panic!("kept out in round {round}: {error}"));
        writing.unlock().await.expect("it was held");
    }
    stream.flows().await;
    stream.end().await;
}

/// The other way round: those who wait to write do not keep a reader out for ever.
pub async fn a_stream_of_writers_does_not_keep_a_waiting_reader_out(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let stop = Arc::new(AtomicBool::new(false));
    let writes = Arc::new(AtomicU32::new(0));
    let mut writers = JoinSet::new();
    for number in 0..6 {
        let locks = if number % 2 == 0 { &here } else { &elsewhere };
        let (rw, stop, writes) = (locks.rw(&name), stop.clone(), writes.clone());
        writers.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = rw.write().await.expect("it gets free");
                tokio::time::sleep(ms(5)).await;
                guard.unlock().await.expect("it was held");
                writes.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let written = || async { writes.load(Ordering::SeqCst) > 6 };
    eventually("they write one after the other", written).await;
    for round in 0..3 {
        let reader = if round % 2 == 0 { &here } else { &elsewhere };
        let reading = reader.rw(&name).read().wait(secs(20)).await;
        let reading = reading.unwrap_or_else(|error| panic!("kept out in round {round}: {error}"));
        reading.unlock().await.expect("it was held");
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(writer) = writers.join_next().await {
        writer.expect("no task panics");
    }
}

/// Readers that come while a writer waits stand behind it; whoever reads already may go deeper.
pub async fn new_readers_stand_behind_a_writer_that_waits(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let outer = mine.read().owner(&me).lease(HOUR).await.expect("it is free");
    let writer = tokio::spawn(theirs.write().into_future());
    let behind = || async { !may_read(&mine).await && !may_read(&theirs).await };
    eventually("new readers stand behind the writer", behind).await;
    let inner = mine.try_read().owner(&me).await.expect("the store answers");
    inner.expect("who reads may go deeper").unlock().await.expect("it was held");
    // It stays so for longer than the writer is remembered without coming again, which is two seconds: a writer that the
    // machine kept from coming for half of that may be forgotten, and such a look does not count.
    let (mut looks, mut good) = (0..30, 0);
    while good < 6 && looks.next().is_some() {
        let since = Instant::now();
        tokio::time::sleep(ms(550)).await;
        let is_behind = behind().await;
        let overran = since.elapsed() > ms(1000);
        assert!(is_behind || overran, "the writer was forgotten");
        match overran {
            true => eventually("it is known again", behind).await,
            false => good += 1,
        }
    }
    assert_eq!(good, 6, "the machine stands still all the time");
    outer.unlock().await.expect("it was held");
    let writing = timeout(secs(10), writer).await.expect("it gets free").expect("no panic");
    writing.expect("it gets free").unlock().await.expect("it was held");
    assert!(may_read(&mine).await && may_read(&theirs).await);
}

/// A writer that gives up, or whose future is dropped, lets those who stand behind it in at once.
pub async fn a_writer_that_gives_up_lets_the_readers_behind_it_in(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let inside = mine.read().lease(HOUR).await.expect("it is free");
    for drops in [false, true] {
        let began = Instant::now();
        let wait = if drops { HOUR } else { secs(5) };
        let writer = tokio::spawn(theirs.try_write().wait(wait).into_future());
        let behind = || async { !may_read(&mine).await };
        eventually("new readers stand behind the writer", behind).await;
        let mut readers = JoinSet::new();
        for locks in [&here, &elsewhere] {
            let reader = locks.rw(ground.name("k")).read();
            readers.spawn(async move { reader.await.expect("it gets free").unlock().await });
        }
        tokio::time::sleep(ms(100)).await;
        // One that the machine kept from coming again is forgotten.
        let passed = readers.try_join_next().is_some();
        assert!(!passed || began.elapsed() > ms(1500), "a reader went past the writer");
        if drops {
            writer.abort();
            assert!(writer.await.is_err(), "it got in beside a reader");
        } else {
            let gave_up = writer.await.expect("no panic").expect("the store answers");
            assert!(gave_up.is_none());
        }
        let since = ground.stopwatch();
        while let Some(read) = timeout(secs(10), readers.join_next()).await.expect("they get in") {
            read.expect("no panic").expect("it was held");
        }
        // Well before it would have been forgotten.
        assert!(since.elapsed() < ms(1800), "{:?}", since.elapsed());
    }
    inside.unlock().await.expect("it was held");
}

/// A single try to write is stood behind by nobody; nor is an owner that reads and would wait for itself.
pub async fn a_writer_that_cannot_get_in_holds_up_nobody(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    let me = locks.owner();
    let reading = rw.read().owner(&me).await.expect("it is free");
    assert!(!may_write(&rw).await);
    assert!(may_read(&rw).await);
    let stuck = rw.try_write().owner(&me).wait(ms(100));
    let beside = async {
        tokio::time::sleep(ms(50)).await;
        may_read(&rw).await
    };
    let (stuck, beside) = tokio::join!(stuck.into_future(), beside);
    assert!(stuck.expect("the store answers").is_none());
    assert!(beside, "a reader stood behind somebody who waits for itself");
    reading.unlock().await.expect("it was held");
}
