use std::io::Write;

use super::super::bell::{Bell, Call, Wire, ring};
use super::super::record::Ear;
use super::*;

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), work).await.unwrap_or_else(|_| panic!("{what}"))
}

fn ears(store: &FileStore, name: &str) -> Vec<Ear> {
    let records = store.hub.try_read(Place::of(name).stripe).unwrap().unwrap();
    records.into_iter().filter(|(known, _)| known == name).flat_map(|(_, r)| r.ears).collect()
}

#[tokio::test]
async fn listeners_hear_releases_and_leave_nothing_behind() {
    let temp = Temp::new();
    let (here, there) = (temp.store(), temp.store());
    let a = claim("k");
    let free = async || {
        there.acquire(&a).await.unwrap();
        there.release(&at_depth(&a, 0)).await.unwrap()
    };
    assert_eq!(free().await, Released::Freed { heard_by: 0 });
    let mut one = here.listen(&a).await.unwrap();
    assert_eq!(free().await, Released::Freed { heard_by: 1 });
    soon("it is heard", one.heard()).await;
    let mut two = here.listen(&a).await.unwrap();
    assert_eq!(ears(&here, "k").len(), 1, "one ear for all who are here");
    assert_eq!(free().await, Released::Freed { heard_by: 2 });
    soon("both hear it", async { (one.heard().await, two.heard().await) }).await;
    drop(one);
    assert_eq!(free().await, Released::Freed { heard_by: 1 });
    drop(two);
    assert_eq!(free().await, Released::Freed { heard_by: 0 });
    assert_eq!(ears(&here, "k"), []);
    drop((here, there));
    // The thread that hears may be looking just now.
    soon("nothing is left", async {
        while !temp.files().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_renewal_wakes_nobody_and_neither_does_another_name() {
    let temp = Temp::new();
    let store = temp.store();
    let (a, b) = (claim("k"), claim("l"));
    store.acquire(&a).await.unwrap();
    let mut listener = store.listen(&a).await.unwrap();
    for _ in 0..20 {
        assert!(renewed(&store, &a).await);
        store.acquire(&b).await.unwrap();
        store.release(&at_depth(&b, 0)).await.unwrap();
    }
    // Also not when it is looked whether a call was missed.
    store.hub.look_for_missed_calls();
    // A holder that looks after its lock when it hears something would renew it for ever.
    let heard = std::pin::pin!(listener.heard())
        .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(heard.is_pending());
}

/// Calls as if another process had.
fn call_from_elsewhere(store: &FileStore, name: &str) {
    let mut work = Some(|turn: &mut Turn<'_>| {
        turn.record.ears.iter_mut().for_each(|ear| ear.calls += 1);
        Ok(())
    });
    let clock = || store.env.now();
    store.hub.try_step(name, &clock, &mut work).unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_did_not_arrive_is_made_up_for() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    let mut listener = store.listen(&a).await.unwrap();
    // Whoever was to call was killed after its step and before the call.
    call_from_elsewhere(&store, "k");
    soon("it is found within seconds", listener.heard()).await;
    call_from_elsewhere(&store, "k");
    soon("and the next one as well", listener.heard()).await;
}

#[tokio::test]
async fn a_flood_of_calls_and_garbage_is_outlived() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    let listener = store.listen(&a).await.unwrap();
    let bell = temp.files().into_iter().find(|file| file.starts_with("bell-")).unwrap();
    let mut pipe = fs::File::options().write(true).open(temp.0.join(bell)).unwrap();
    for _ in 0..4096 {
        pipe.write_all(&[7; 64]).unwrap(); // blocks until it is read
    }
    // Calls of another process, by the pipe: nothing else counts as so many heard. One that is still full takes none.
    let (ear, place) = (ears(&store, "k").remove(0), Place::of("k"));
    let call = Call { hash: place.hash, waiter: None, calls: ear.calls + 1 };
    let heard = || store.hub.shard(place.stripe).topics[&(place.hash, None)].heard;
    soon("it still hears", async {
        while heard() < call.calls {
            assert!(ring(&store.hub.dir, ear.process, &call));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    drop(listener);
}

/// Where a signal would end the program, which is what a pipe without a reader sends whoever writes to it.
#[test]
fn a_call_to_one_that_has_just_ended_is_no_error() {
    let temp = Temp::new();
    let dir = super::super::dir::Dir::open(&temp.0).unwrap();
    let process = Uuid::new_v4();
    let bell = Bell::hang(&dir, process).unwrap();
    let wire = Wire::to(&dir, process).unwrap();
    drop(bell);
    let call = Call { hash: 7, waiter: None, calls: 1 };
    wire.call(&call).unwrap();
    drop(wire);
    // A child that another test starts in this moment has the pipe open until it runs its program.
    let began = std::time::Instant::now();
    while ring(&dir, process, &call) {
        assert!(began.elapsed() < Duration::from_secs(10), "nobody hears it");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_not_a_pipe_is_not_written_to() {
    let temp = Temp::new();
    let dir = super::super::dir::Dir::open(&temp.0).unwrap();
    let (file, link) = (Uuid::new_v4(), Uuid::new_v4());
    let path = |process: Uuid| temp.0.join(format!("bell-{}", process.simple()));
    fs::write(path(file), "precious").unwrap();
    std::os::unix::fs::symlink(path(file), path(link)).unwrap();
    for process in [file, link] {
        ring(&dir, process, &Call { hash: 7, waiter: None, calls: 1 });
        assert_eq!(fs::read(path(file)).unwrap(), b"precious");
    }
}

#[tokio::test]
async fn an_ear_is_taken_down_once_whoever_is_inside_has_left() {
    let temp = Temp::new();
    let store = temp.store();
    let waiting = Claim { kind: ClaimKind::Fair { patience: None }, ..claim("k") };
    let leave_while_locked = async || {
        let listener = store.listen(&waiting).await.unwrap();
        let other = fs::File::open(temp.state_file("k")).unwrap();
        rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
        drop(listener);
        unlock(other);
    };
    leave_while_locked().await;
    soon("it is gone", async {
        while !ears(&store, "k").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Nor does it stay if the store goes before that.
    leave_while_locked().await;
    drop(store);
    soon("nothing is left", async {
        while !temp.files().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_ear_that_was_left_is_taken_down_when_it_is_called() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    let keeper = store.listen(&claim("other")).await.unwrap();
    let process = store.hub.id().unwrap();
    let mut work = Some(|turn: &mut Turn<'_>| {
        turn.record.ears.push(Ear { process, waiter: None, calls: 0 });
        Ok(())
    });
    store.hub.try_step("k", &|| store.env.now(), &mut work).unwrap().unwrap();
    let call = Call { hash: Place::of("k").hash, waiter: None, calls: 1 };
    assert!(ring(&store.hub.dir, process, &call));
    soon("it is gone", async {
        while !ears(&store, "k").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    drop((keeper, a));
}

/// Adds to the page of a name's state file, or cuts that off again.
fn garble(temp: &Temp, name: &str, garbage: &[u8]) -> Vec<u8> {
    use super::super::header::sum;
    let path = temp.state_file(name);
    let good = fs::read(&path).unwrap();
    let mut bytes = good.clone();
    let number = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().unwrap()) as usize;
    let (capacity, len, base) = (number(12), number(24), number(28));
    let slot = base + usize::from(good[16] & 1) * capacity;
    bytes[slot + len..][..garbage.len()].copy_from_slice(garbage);
    let longer = len + garbage.len();
    bytes[24..28].copy_from_slice(&(longer as u32).to_le_bytes());
    let page = sum(&bytes[slot..][..longer]).to_le_bytes();
    bytes[32..40].copy_from_slice(&page);
    let header = sum(&bytes[..56]).to_le_bytes();
    bytes[56..64].copy_from_slice(&header);
    fs::write(&path, &bytes).unwrap();
    good
}

#[tokio::test]
async fn whoever_could_not_listen_can_later() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    // What stands under the name can be read, but the page cannot be written anew.
    let good = garble(&temp, "k", &[1, 2, 3]);
    let error = store.listen(&a).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(!store.hub.is_listening());
    fs::write(temp.state_file("k"), good).unwrap();
    let mut listener = store.listen(&a).await.unwrap();
    assert_eq!(ears(&store, "k").len(), 1);
    // Somebody has cleared up too much: the next one to listen hears, and so does the first.
    fs::remove_file(temp.state_file("k")).unwrap();
    let _second = store.listen(&a).await.unwrap();
    assert_eq!(ears(&store, "k").len(), 1);
    soon("it looks again", listener.heard()).await;
    drop((listener, _second));
    assert!(!store.hub.is_listening());
    assert_eq!(ears(&store, "k"), []);
}

#[tokio::test]
async fn a_late_call_for_an_earlier_ear_hides_no_later_one() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    let calls = async || {
        let _listener = store.listen(&a).await.unwrap();
        ears(&store, "k")[0].calls
    };
    let first = calls().await;
    assert!(calls().await > first);
}

#[tokio::test]
async fn whoever_listens_is_called_in_a_directory_that_was_made_anew() {
    let temp = Temp::new();
    let dir = temp.0.join("locks");
    let store = FileStore::open(&dir, Arc::new(System)).unwrap();
    let a = claim("k");
    let mut listener = store.listen(&a).await.unwrap();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    soon("it looks again by itself", listener.heard()).await;
    // From here on by its pipe: as another process would.
    let ear = ears(&store, "k").remove(0);
    let call = Call { hash: Place::of("k").hash, waiter: None, calls: ear.calls + 1 };
    assert!(ring(&store.hub.dir, ear.process, &call));
    soon("it is called", listener.heard()).await;
}
