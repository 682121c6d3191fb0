use super::*;

#[tokio::test]
async fn listeners_hear_other_stores_and_end_with_the_last_of_them() {
    let temp = Temp::new();
    let (here, there) = (temp.store(), temp.store());
    let a = claim("k");
    there.acquire(&a).await.unwrap();
    let mut one = here.listen(&a).await.unwrap();
    let mut two = here.listen(&a).await.unwrap();
    assert_eq!(here.watches.len(), 1, "one task serves both");
    there.release(&at_depth(&a, 0)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), async { (one.heard().await, two.heard().await) })
        .await
        .expect("the release is heard");
    drop(one);
    assert_eq!(here.watches.len(), 1);
    drop(two);
    let gone = async {
        while here.watches.len() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("nothing is left");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_free_for_a_moment_only_is_heard_of() {
    let temp = Temp::new();
    let (here, there) = (temp.store_in_virtual_time(), temp.store_in_virtual_time());
    let a = claim("k");
    let mut listener = here.listen(&a).await.unwrap();
    for _ in 0..3 {
        // Free before the look, and free at the look: no difference that the look could see.
        there.acquire(&a).await.unwrap();
        there.release(&at_depth(&a, 0)).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(1), listener.heard());
        heard.await.expect("it is free");
    }
}

#[tokio::test(start_paused = true)]
async fn own_releases_are_heard_at_once_and_others_are_counted() {
    let temp = Temp::new();
    let (here, there) = (temp.store_in_virtual_time(), temp.store_in_virtual_time());
    let a = claim("k");
    let free = async || {
        here.acquire(&a).await.unwrap();
        here.release(&at_depth(&a, 0)).await.unwrap()
    };
    assert_eq!(free().await, Released::Freed { heard_by: 0 });
    let mut own = here.listen(&a).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(free().await, Released::Freed { heard_by: 1 });
    own.heard().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    let other = there.listen(&a).await.unwrap();
    assert_eq!(free().await, Released::Freed { heard_by: 2 });
    drop(own);
    assert_eq!(free().await, Released::Freed { heard_by: 1 });
    drop(other);
    assert_eq!(free().await, Released::Freed { heard_by: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_renewal_wakes_nobody() {
    let temp = Temp::new();
    let store = temp.store_in_virtual_time();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let mut listener = store.listen(&a).await.unwrap();
    let renewals = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(renewed(&store, &a).await);
        }
    };
    tokio::select! {
        // A holder that looks after its lock when it hears something would renew it for ever.
        _ = listener.heard() => panic!("it is not free"),
        () = renewals => {}
    }
}
