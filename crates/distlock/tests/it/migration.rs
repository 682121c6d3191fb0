//! A lock moves from one server to another while processes fight for it, as `docs/migration.md` says.
use std::time::Duration;

use distlock::{ErrorKind, Locks, MultiLock};
use distlock_testkit::{Flavor, Server, Worker, assert_clean, worker};
use tokio::time::timeout;

const NAME: &str = "ledger";
const TASKS: &str = "2";
/// How long something that must happen may take.
const SOON: Duration = Duration::from_secs(30);

/// What a process locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Old,
    Both,
    New,
}

/// The old server, the new one, and one for the number that the lock guards.
struct Scene {
    old: Server,
    new: Server,
    third: Server,
    counted: u64,
}

impl Scene {
    async fn new() -> Scene {
        let newer = Flavor::Valkey.program().map_or(Flavor::Redis, |_| Flavor::Valkey);
        let (old, new) = (Server::redis().await, Server::builder(newer).start().await);
        Scene { old, new, third: Server::redis().await, counted: 0 }
    }

    async fn start(&self, step: Step) -> Worker {
        let mut process = worker("counter").arg("all").arg(NAME).arg(self.third.url()).arg(TASKS);
        if step != Step::New {
            process = process.arg(self.old.url());
        }
        if step != Step::Old {
            process = process.arg(self.new.url());
        }
        let mut process = process.start().await;
        process.wait_for("ready").await;
        process
    }

    /// Everybody gets something done: nobody is locked out.
    async fn all_get_on(&self, processes: &mut [Worker]) {
        for process in processes.iter_mut() {
            process.send("more");
        }
        for process in processes {
            process.wait_for_within("counted", SOON).await;
        }
    }

    /// One process ends as one does in a deployment: it finishes what it is at.
    async fn stop(&mut self, mut process: Worker) {
        process.close();
        let done = process.wait_for_within("done", SOON).await;
        let counted: u64 = done["done ".len()..].parse().expect("a number");
        self.counted += counted;
        assert!(process.finish().await.success());
    }

    /// One process after the other goes to the next step, under load.
    async fn roll(&mut self, processes: &mut Vec<Worker>, step: Step) {
        for at in 0..processes.len() {
            let process = processes.remove(at);
            self.stop(process).await;
            processes.insert(at, self.start(step).await);
            self.all_get_on(&mut processes[at..=at]).await;
        }
        self.all_get_on(processes).await;
    }

    /// The number is exact, and nothing is left on either server.
    async fn assert_exact(&self) {
        let number: u64 = self.third.ask(&["GET", NAME]).await;
        assert_eq!(number, self.counted, "updates were lost");
        for server in [&self.old, &self.new] {
            assert_clean(server, NAME).await;
        }
    }
}

/// Four processes go through the three steps one after another, one step back and on again: nearly always two steps run side
/// by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_move_a_lock_under_load_and_no_update_is_lost() {
    let mut scene = Scene::new().await;
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(scene.start(Step::Old).await);
    }
    scene.all_get_on(&mut processes).await;
    for step in [Step::Both, Step::New, Step::Both, Step::New] {
        scene.roll(&mut processes, step).await;
    }
    // Nobody needs the old one any more.
    scene.old.kill();
    scene.all_get_on(&mut processes).await;
    while let Some(process) = processes.pop() {
        scene.stop(process).await;
    }
    scene.old.restart().await;
    scene.assert_exact().await;
}

/// Why there is a step in between: without it, updates are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_step_in_between_updates_are_lost() {
    let mut scene = Scene::new().await;
    let mut processes = Vec::new();
    for step in [Step::Old, Step::New, Step::Old, Step::New] {
        processes.push(scene.start(step).await);
    }
    for _ in 0..10 {
        scene.all_get_on(&mut processes).await;
    }
    while let Some(process) = processes.pop() {
        scene.stop(process).await;
    }
    let number: u64 = scene.third.ask(&["GET", NAME]).await;
    assert!(number < scene.counted, "old and new have excluded each other: what by?");
}

/// A process that dies in the middle of step 2 leaves both servers as its leases do, and keeps nobody out for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_in_the_middle_keeps_nobody_out_for_longer_than_its_lease() {
    let (old, new) = (Server::redis().await, Server::redis().await);
    let watchdog = Duration::from_secs(6);
    let connect = async |server: &Server| {
        let builder = Locks::builder().url(server.url()).watchdog(watchdog);
        builder.connect().await.expect("a connection")
    };
    let here = [connect(&old).await, connect(&new).await];
    let both = MultiLock::new([here[0].mutex(NAME).into(), here[1].mutex(NAME).into()]);
    let dead = worker("testkit-holder").arg(old.url()).arg(watchdog.as_millis().to_string());
    let mut dead = dead.arg(NAME).start().await;
    dead.wait_for("held").await;
    let busy = both.lock().wait(Duration::from_millis(100)).await.expect_err("old is held");
    assert_eq!(busy.kind(), ErrorKind::WaitTimeout);
    assert!(!new.exists(NAME).await, "whoever waits for the old one holds the new one");
    dead.kill();
    let guard = timeout(watchdog + SOON, async { both.lock().await }).await;
    guard.expect("its lease ends").expect("both are free").unlock().await.expect("held");
}

/// Both addresses the same, by mistake or because the move is over: the lock is taken once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_on_the_same_server_is_the_lock_on_that_server() {
    let server = Server::redis().await;
    let old = Locks::connect(&server.url()).await.expect("a connection");
    let new = Locks::connect(&server.url()).await.expect("a connection");
    let both = MultiLock::new([old.mutex(NAME).into(), new.mutex(NAME).into()]);
    for _ in 0..2 {
        let guard = timeout(SOON, async { both.lock().await }).await;
        let guard = guard.expect("it does not wait for itself").expect("it is free");
        assert!(both.try_lock().await.expect("an answer").is_none());
        assert!(new.mutex(NAME).try_lock().await.expect("an answer").is_none());
        guard.unlock().await.expect("it was held");
    }
    assert_clean(&server, NAME).await;
}

/// Two names of one server cannot be told apart beforehand: nobody waits for itself, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_of_one_server_still_exclude() {
    let server = Server::redis().await;
    let old = Locks::connect(&server.url()).await.expect("a connection");
    let new = Locks::connect(&server.unix_url()).await.expect("a connection");
    let both = MultiLock::new([old.mutex(NAME).into(), new.mutex(NAME).into()]);
    let guard = timeout(SOON, async { both.lock().await }).await;
    let guard = guard.expect("it does not wait for itself").expect("it is free");
    assert!(new.mutex(NAME).try_lock().await.expect("an answer").is_none());
    // The first release frees it for both; the second finds nothing, and says so.
    assert_eq!(guard.unlock().await.expect_err("one found nothing").kind(), ErrorKind::Lost);
    assert_clean(&server, NAME).await;
}
