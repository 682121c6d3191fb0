//! scratch
use distlock::{ErrorKind, Locks, State, env::Virtual};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storm() {
    let locks = Locks::memory();
    let n = Arc::new(AtomicU64::new(0));
    let t = Instant::now();
    let mut js = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (l, n) = (locks.clone(), n.clone());
        js.spawn(async move {
            for _ in 0..1000 {
                let g = l.mutex("k").lock().await.unwrap();
                let v = n.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                n.store(v + 1, Ordering::Relaxed);
                drop(g);
            }
        });
    }
    while let Some(r) = js.join_next().await {
        r.unwrap();
    }
    assert_eq!(n.load(Ordering::Relaxed), 64000);
    println!("storm {:?}", t.elapsed());
    let t = Instant::now();
    for _ in 0..100_000 {
        let g = locks.mutex("k").lock().await.unwrap();
        drop(g);
    }
    println!("100k pairs drop {:?}", t.elapsed());
    let t = Instant::now();
    for _ in 0..100_000 {
        let g = locks.mutex("k").lock().await.unwrap();
        g.unlock().await.unwrap();
    }
    println!("100k pairs unlock {:?}", t.elapsed());
}

#[tokio::test(start_paused = true)]
async fn virtual_time() {
    let locks = Locks::builder().url("memory:v").env(Virtual::new()).connect().await.unwrap();
    let g = locks.mutex("a").lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(g.state(), State::Held);
    let t = tokio::time::Instant::now();
    let e = locks.mutex("a").lock().wait(Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WaitTimeout);
    println!("{e} {:?}", t.elapsed());
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    drop(g);
    assert!(locks.mutex("a").try_lock().await.unwrap().is_some());
    let me = locks.owner();
    let a = locks.mutex("b").lock().owner(&me).await.unwrap();
    let b = locks.mutex("b").lock().owner(&me).lease(Duration::from_secs(1)).await.unwrap();
    assert_eq!(locks.mutex("b").hold_count(&me).await.unwrap(), 2);
    println!("{:?}", locks.mutex("b").ttl().await);
    tokio::time::sleep(Duration::from_secs(100)).await;
    a.unlock().await.unwrap();
    assert_eq!(locks.mutex("b").hold_count(&me).await.unwrap(), 1);
    b.unlock().await.unwrap();
    assert!(!locks.mutex("b").is_locked().await.unwrap());
    let g = locks.mutex("c").lock().lease(Duration::from_secs(2)).await.unwrap();
    let t = tokio::time::Instant::now();
    let w = locks.mutex("c").lock().await.unwrap();
    println!("waited {:?}", t.elapsed());
    assert!(g.is_lost());
    assert_eq!(g.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    w.unlock().await.unwrap();
    let g = locks.mutex("d").lock().await.unwrap();
    assert!(locks.mutex("d").force_unlock().await.unwrap());
    assert_eq!(
        g.while_held(std::future::pending::<()>()).await.unwrap_err().kind(),
        ErrorKind::Lost
    );
    assert_eq!(locks.list("").await.unwrap().len(), 0);
}
