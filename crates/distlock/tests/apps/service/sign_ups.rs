//! One member per e-mail address.

use std::sync::Arc;

use distlock::ErrorKind;
use distlock_testkit::service::Service;
use distlock_testkit::suites::Section;
use tokio::sync::Notify;

use crate::service::{Answers, CROWD, EMAIL, Place, on_every_profile, sign_up_all};

on_every_profile! {
    many_sign_ups_with_one_e_mail_make_one_member
    sign_ups_with_different_e_mails_do_not_wait_for_each_other
    whoever_lost_the_lock_does_not_commit
}

async fn many_sign_ups_with_one_e_mail_make_one_member(place: Place) {
    let section = Section::new();
    let mut services = Vec::new();
    for _ in 0..3 {
        let section = section.clone();
        // Panics if two are between reading and committing.
        services.push(place.service().await.before_commit(move || {
            let section = section.clone();
            async move { section.visit().await }
        }));
    }
    let crowd = place.ground.crowd(CROWD);
    let answers = sign_up_all(&services, crowd).await;
    assert_eq!(answers, Answers { yes: 1, no: crowd - 1 });
    assert_eq!(place.database.members(EMAIL), (1, 1), "one member, one gift");
    assert_eq!(section.entries(), crowd as u64);
}

async fn sign_ups_with_different_e_mails_do_not_wait_for_each_other(place: Place) {
    let (inside, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = place.service().await.before_commit({
        let (inside, go_on) = (inside.clone(), go_on.clone());
        move || {
            let (inside, go_on) = (inside.clone(), go_on.clone());
            async move {
                inside.notify_one();
                go_on.notified().await;
            }
        }
    });
    let slow = tokio::spawn(async move { slow.sign_up(EMAIL).await });
    inside.notified().await;
    // Would never end if there were one lock for all.
    let other = place.service().await.sign_up("bob@example.org").await;
    assert!(other.expect("nothing is wrong"));
    go_on.notify_one();
    assert!(slow.await.expect("no panic").expect("nothing is wrong"));
    assert_eq!(place.database.members(EMAIL), (1, 1));
}

async fn whoever_lost_the_lock_does_not_commit(place: Place) {
    let doorman = place.doorman().await;
    let robbed = Service::new(doorman.clone(), place.database.clone());
    let robbed = robbed.before_commit({
        let doorman = doorman.clone();
        move || {
            let doorman = doorman.clone();
            async move {
                let forced = doorman.force(&format!("member:{EMAIL}")).await;
                assert!(forced.expect("an operator may do that"));
            }
        }
    });
    let refused = robbed.sign_up(EMAIL).await.expect_err("it held nothing any more");
    let error = refused.downcast_ref::<distlock::Error>().expect("the locks say so");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(place.database.members(EMAIL), (0, 0));
    assert!(place.service().await.sign_up(EMAIL).await.expect("the lock is free"));
}
