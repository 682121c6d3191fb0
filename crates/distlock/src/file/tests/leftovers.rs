//! What stays behind, and what must not.

use super::*;

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_no_name_of_whoever_leaves() {
    let temp = Temp::new();
    fs::write(temp.state_file("bad"), "not ours").unwrap();
    let store = temp.store();
    let a = claim("good");
    assert_ne!(temp.state_file("good"), temp.state_file("bad"));
    store.acquire(&a).await.unwrap();
    store.release(&at_depth(&a, 0)).await.unwrap();
    drop(store);
    let left = temp.files();
    assert!(!left.iter().any(|file| file.starts_with("life-")), "{left:?}");
    // What is held keeps it.
    let store = temp.store();
    store.acquire(&a).await.unwrap();
    drop(store);
    assert!(temp.files().iter().any(|file| file.starts_with("life-")));
}
