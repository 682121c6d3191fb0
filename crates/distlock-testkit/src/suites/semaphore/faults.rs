//! What a server, its network and its clients can suffer; each of these has a server of its own.

use distlock::{ErrorKind, Owner};

use super::{done, left, ms};
use crate::proxy::Proxy;
use crate::suites::server::{open, step};
use crate::{Server, assert_clean, worker};

crate::suites::permits::kept_by! {
    Semaphore, faults on Server:
    a_lost_message_hangs_nobody
    a_lost_subscription_wakes_everybody
    a_lost_reply_counts_once
    a_caller_who_leaves_after_a_lost_reply_has_nothing
    an_uncontended_permit_costs_two_commands
    a_server_that_is_gone_is_an_outage
}

/// What cannot be told by sending it again is told: it may have happened.
pub async fn a_change_whose_answer_is_lost_is_not_done_twice(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.semaphore("change"), beside.semaphore("change"));
    theirs.add(0).await.expect("the server answers");
    done(&theirs).await;
    let lose = || proxy.swallow_replies_to(step("change"), 1);
    lose();
    let error = mine.init(10).await.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(left(&theirs).await, 10);
    lose();
    assert_eq!(mine.add(5).await.expect_err("nobody knows").kind(), ErrorKind::Indeterminate);
    assert_eq!(left(&theirs).await, 15);
    lose();
    assert_eq!(mine.release(1).await.expect_err("nobody knows").kind(), ErrorKind::Indeterminate);
    assert_eq!(left(&theirs).await, 16);
    lose();
    assert_eq!(left(&mine).await, 16, "a question is asked again");
    done(&theirs).await;
}

/// R#4462: the permits of a process that was killed stay out, but it is known whose they are.
pub async fn the_permits_of_a_killed_process_can_be_given_back(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.semaphore("dead");
    semaphore.init(3).await.expect("the server answers");
    let mut holder = worker("worker").start().await;
    holder.wait_for("ready").await;
    holder.send(&format!("connect {} 1000", server.url()));
    holder.send("permits dead 2");
    let line = holder.wait_for("taken ").await;
    let owner: Owner = line.trim_start_matches("taken ").parse().expect("an owner");
    holder.kill();
    tokio::time::sleep(ms(1200)).await;
    assert_eq!(left(&semaphore).await, 1, "they have no lease");
    let seen = semaphore.inspect().await.expect("the server answers");
    assert_eq!(seen.depth_of(&owner), 2);
    semaphore.unlock(&owner).await.expect("they are out");
    assert_eq!(left(&semaphore).await, 3);
    done(&semaphore).await;
    assert_clean(&server, "dead").await;
}
