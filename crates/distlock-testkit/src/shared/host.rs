//! The host: starts what test processes ask for, and ends it all when it ends.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io};

use rustix::process::getppid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::relay::Relay;
use super::things::{Refusal, Things};
use super::wanted::Wanted;

/// How often the host looks whether its parent is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long the host waits for a start that is under way before it ends without it: the kernel kills that server then.
const GRACE: Duration = Duration::from_secs(10);

/// Lends servers to the test processes that connect to `socket`, until standard input closes, the parent process ends or a
/// signal asks for it. Says `ready` on standard output. When it returns, every server has been killed.
///
/// # Errors
/// When the socket cannot be made, or a client cannot be accepted.
pub fn run_host(socket: &Path) -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let things = Arc::new(Things::default());
    let served = runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        println!("ready");
        let mut ended = std::pin::pin!(ended());
        tokio::select! {
            refused = serve(listener, &things) => refused,
            reason = &mut ended => reason,
        }
    });
    // The runtime first: its tasks use what is to be stopped.
    runtime.shutdown_timeout(GRACE);
    drop(things);
    let _ = fs::remove_file(socket);
    served
}

async fn serve(listener: UnixListener, things: &Arc<Things>) -> io::Result<()> {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
    loop {
        let (stream, _) = listener.accept().await?;
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(answer(stream, Arc::clone(things), number));
    }
}

/// Has one conversation. A client that goes away meanwhile is none of the host's troubles.
async fn answer(stream: UnixStream, things: Arc<Things>, connection: u64) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let Ok(Some(line)) = lines.next_line().await else { return };
    let asked: Value = serde_json::from_str(&line).unwrap_or_default();
    let by = asked["by"].as_str().unwrap_or("a process without a name");
    let found = match Wanted::from_json(&asked) {
        Some(wanted) => things.get(wanted, by).await,
        None => Err(Refusal::Failed(format!("there is nothing like {line}"))),
    };
    let (answer, peer) = match found {
        Ok(slot) => (slot.description().unwrap_or_default(), slot.peer()),
        Err(Refusal::Missing(why)) => (json!({ "skipped": why }), None),
        Err(Refusal::Failed(why)) => {
            eprintln!("testkit-servers: asked by {by}: {why}");
            (json!({ "error": why }), None)
        }
    };
    if writer.write_all(format!("{answer}\n").as_bytes()).await.is_ok()
        && let Some(peer) = peer
    {
        Relay::new(peer, connection).run(lines, writer).await;
    }
}

/// Returns when no process is left to lend to.
async fn ended() -> io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        () = input_closed() => {}
        () = parent_ended() => {}
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}

async fn input_closed() {
    let (sender, closed) = oneshot::channel::<()>();
    // Not a task: a runtime that shuts down would wait for it to read.
    std::thread::spawn(move || {
        let _sender = sender;
        // Nothing is expected, and an input that cannot be read is as good as closed.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    });
    let _ = closed.await;
}

/// A parent that is killed leaves the input open if another process has inherited its end.
async fn parent_ended() {
    let parent = getppid();
    while getppid() == parent {
        tokio::time::sleep(LOOK).await;
    }
}
