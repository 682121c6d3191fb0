use std::slice;

use super::*;

fn plan(join: &[&str], leave: &[&str]) -> Plan {
    let names = |list: &[&str]| list.iter().map(|name| Arc::from(*name)).collect();
    Plan { join: names(join), leave: names(leave) }
}

#[test]
fn a_channel_is_joined_once_and_left_by_the_last() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.want("a");
    assert_eq!(registry.plan(), plan(&["a"], &[]));
    assert_eq!(registry.joined(slice::from_ref(&a)).len(), 1);
    assert_eq!(registry.state("a"), State::On);
    assert!(!registry.unwant(&a));
    assert_eq!(registry.plan(), plan(&[], &[]));
    assert!(registry.unwant(&a));
    assert_eq!(registry.plan(), plan(&[], &["a"]));
    assert!(registry.is_empty());
}

#[test]
fn leaving_while_joining_waits_for_the_answer() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    registry.unwant(&a);
    assert_eq!(registry.plan(), plan(&[], &[]));
    assert!(registry.joined(&[a]).is_empty());
    assert_eq!(registry.plan(), plan(&[], &["a"]));
}

#[test]
fn coming_back_before_the_leave_is_sent_changes_nothing() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    registry.joined(slice::from_ref(&a));
    registry.unwant(&a);
    registry.want("a");
    assert_eq!(registry.state("a"), State::On);
    assert_eq!(registry.plan(), plan(&[], &[]));
}

#[test]
fn coming_back_after_the_leave_is_sent_joins_anew() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    registry.joined(slice::from_ref(&a));
    registry.unwant(&a);
    assert_eq!(registry.plan(), plan(&[], &["a"]));
    registry.want("a");
    assert_eq!(registry.state("a"), State::Off);
    assert_eq!(registry.plan(), plan(&["a"], &[]));
}

#[test]
fn a_new_connection_starts_from_what_is_wanted() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    let (b, _) = registry.want("b");
    registry.plan();
    registry.joined(slice::from_ref(&a));
    registry.unwant(&b);
    registry.disconnected();
    assert_eq!(registry.state("a"), State::Off);
    assert_eq!(registry.plan(), plan(&["a"], &[]));
}

#[test]
fn a_dropped_wish_that_was_never_sent_is_forgotten() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.unwant(&a);
    assert_eq!(registry.plan(), plan(&[], &[]));
    assert!(registry.is_empty());
}

#[test]
fn what_the_server_takes_back_is_asked_for_again_in_a_while() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    // The answer to a leave that was sent before this join.
    assert!(registry.taken_back("a").is_none());
    registry.joined(slice::from_ref(&a));
    assert!(registry.taken_back("a").is_some());
    assert!(registry.taken_back("a").is_none());
    assert_eq!((registry.state("a"), registry.has_put_off()), (State::Off, true));
    assert_eq!(registry.plan(), plan(&[], &[]));
    registry.resume();
    assert_eq!(registry.plan(), plan(&["a"], &[]));
}

#[test]
fn what_was_put_off_and_is_not_wanted_is_forgotten() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    registry.put_off(&a);
    assert!(registry.unwant(&a));
    assert_eq!(registry.plan(), plan(&[], &[]));
    assert!(registry.is_empty());
    registry.resume();
    assert_eq!(registry.plan(), plan(&[], &[]));
}

#[test]
fn a_refused_channel_is_asked_for_again_by_the_next_who_wants_it() {
    let mut registry = Registry::default();
    let (a, _) = registry.want("a");
    registry.plan();
    let why = Error::new(crate::ErrorKind::Config, "no");
    assert_eq!(registry.refused(&[a], why).len(), 1);
    assert_eq!(registry.plan(), plan(&[], &[]));
    registry.want("a");
    assert_eq!(registry.plan(), plan(&["a"], &[]));
}
