use super::*;
use crate::env::Virtual;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn client(id: u64) -> ClientId {
    ClientId { id, addr: format!("10.0.0.1:{id}") }
}

fn endpoint(port: u16) -> Endpoint {
    Endpoint::Tcp { host: "h".to_owned(), port }
}

#[test]
fn the_id_and_the_address_are_read_from_client_info() {
    let table = [
        ("id=6 addr=127.0.0.1:42112 laddr=127.0.0.1:1 fd=9 name= age=0", 6, "127.0.0.1:42112"),
        ("id=7 addr=[::1]:5 laddr=[::1]:1 fd=9\n", 7, "[::1]:5"),
        ("id=8 addr=/tmp/s o:0 laddr=/tmp/s o:0 fd=9", 8, "/tmp/s o:0"),
        ("id=9 addr=[/tmp/s:0]:0 laddr=[/tmp/s:0]:0 fd=12", 9, "[/tmp/s:0]:0"),
    ];
    for (said, id, addr) in table {
        let expected = Some(ClientId { id, addr: addr.to_owned() });
        assert_eq!(ClientId::read(&bulk(said)), expected, "{said}");
        let verbatim =
            Value::VerbatimString { format: redis::VerbatimFormat::Text, text: said.to_owned() };
        assert_eq!(ClientId::read(&verbatim), expected, "{said}");
    }
    for odd in ["", "id=", "id=7", "id=x addr=a laddr=b", "id=0 addr=a laddr=b", "addr=a id=7"] {
        assert_eq!(ClientId::read(&bulk(odd)), None, "{odd}");
    }
    assert_eq!(ClientId::read(&bulk("id=7 addr= laddr=b")), None);
    assert_eq!(ClientId::read(&Value::Okay), None);
    assert_eq!(ClientId::read(&Value::Int(7)), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_forgets_what_is_old_and_keeps_the_newest() {
    let lists = KillLists::new(Arc::new(Virtual::new()));
    let list = lists.of(&endpoint(1));
    list.add(Some(&client(1)));
    tokio::time::advance(LISTED_FOR / 2).await;
    list.add(Some(&client(2)));
    list.add(Some(&client(2)));
    assert_eq!(list.due(), [client(1), client(2)]);
    tokio::time::advance(LISTED_FOR * 2 / 3).await;
    assert_eq!(list.due(), [client(2)]);
    tokio::time::advance(LISTED_FOR).await;
    assert!(list.is_pending(), "nobody has looked yet");
    assert!(list.due().is_empty() && !list.is_pending());

    for id in 1..=MOST_LISTED as u64 + 5 {
        list.add(Some(&client(id)));
    }
    let due = list.due();
    assert_eq!(due.len(), MOST_LISTED);
    assert_eq!((due[0].id, due[MOST_LISTED - 1].id), (6, MOST_LISTED as u64 + 5));
    list.remove(&due[1..]);
    assert!(list.is_pending());
    list.remove(&due[..1]);
    assert!(!list.is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_list_whoever_uses_it() {
    let lists = KillLists::new(Arc::new(Virtual::new()));
    let (first, again, other) =
        (lists.of(&endpoint(1)), lists.of(&endpoint(1)), lists.of(&endpoint(2)));
    first.add(Some(&client(1)));
    assert!(again.is_pending() && !other.is_pending());
    // Also if nobody has used it for a while.
    drop((first, again, other));
    assert!(!lists.of(&endpoint(2)).is_pending());
    assert!(lists.of(&endpoint(1)).is_pending());
    tokio::time::advance(LISTED_FOR * 2).await;
    assert!(!lists.of(&endpoint(1)).is_pending());
    assert_eq!(lists.lists.lock().unwrap().len(), 1, "those of nobody are gone");
}
