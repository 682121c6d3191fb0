use std::collections::BTreeSet;

use super::*;

/// What a script calls by name. Ways of calling that this does not see are refused by the test below.
fn calls(script: &str) -> BTreeSet<String> {
    let path = format!("{}/src/redis/scripts/{script}.lua", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    super::commands_in(&text).map(str::to_owned).collect()
}

fn scripts() -> Vec<String> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/scripts");
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn the_table_has_what_scripts_call_and_nothing_else() {
    let base = ["holders_read", "holders_step", "list", "pubsub_both"];
    for script in scripts().iter().filter(|script| !base.contains(&script.as_str())) {
        let rows: Vec<_> =
            NEEDS.iter().filter(|row| row.scripts.split(' ').any(|s| s == script)).collect();
        assert!(!rows.is_empty(), "{script}.lua belongs to no kind");
        for command in calls(script) {
            let known = |row: &&Needs| row.commands.split(' ').any(|c| c == command);
            assert!(rows.iter().any(known), "{script}.lua calls {command}: no row of it has that");
        }
    }
    for row in &NEEDS {
        let mut called: BTreeSet<String> = row.scripts.split(' ').flat_map(calls).collect();
        // The script is told by its caller how to look.
        if row.scripts.contains("guarded_send") {
            called.extend(["hexists".to_owned(), "hget".to_owned()]);
        }
        for command in row.commands.split(' ') {
            assert!(called.contains(command), "{}: nobody calls {command}", row.kind);
        }
        assert!(row.commands.split(' ').is_sorted(), "{}: in order, please", row.kind);
    }
    let listing: Vec<String> = calls("list").into_iter().chain(["scan".to_owned()]).collect();
    assert_eq!(listing, LISTING);
    let holders: BTreeSet<String> =
        ["holders_read", "holders_step"].into_iter().flat_map(calls).collect();
    assert_eq!(holders.into_iter().collect::<Vec<_>>(), HOLDERS);
}

/// The parser above, and with it the table, would miss a command that is called in any other way.
#[test]
fn scripts_call_commands_by_name() {
    for script in scripts().iter().filter(|script| *script != "guarded_send") {
        let path = format!("{}/src/redis/scripts/{script}.lua", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let all = text.matches("redis.call").count() + text.matches("redis.pcall").count();
        assert_eq!(super::commands_in(&text).count(), all, "{script}.lua");
    }
}

fn rules(acl: &Acl, sign: char) -> Vec<String> {
    acl.rules().into_iter().filter(|rule| rule.starts_with(sign)).collect()
}

#[test]
fn patterns_follow_both_brace_rules() {
    let acl = Acl::new("app:").kinds(&[Kind::Fair]);
    let keys = [
        "~app:*",
        "~redisson_lock_queue:app:*",
        "~redisson_lock_queue:{app:*",
        "~redisson_lock_timeout:app:*",
        "~redisson_lock_timeout:{app:*",
    ];
    assert_eq!(rules(&acl, '~'), keys);
    let channels = ["&redisson_lock__channel:app:*", "&redisson_lock__channel:{app:*"];
    assert_eq!(rules(&acl, '&'), channels);

    let braced = Acl::new("{app}:").kinds(&[Kind::Fenced]);
    let keys = ["~distlock_fence:{app}:*", "~redisson_lock_token:{app}:*", "~{app}:*"];
    assert_eq!(rules(&braced, '~'), keys);

    let rw = Acl::new("app:").kinds(&[Kind::Rw]);
    let keys = ["~app:*", "~{app:*}:*:rwlock_timeout:*", "~{app:*}:distlock_writer"];
    assert_eq!(rules(&rw, '~'), keys);

    let latch = Acl::new("app:").kinds(&[Kind::Latch]);
    assert_eq!(rules(&latch, '~'), ["~app:*", "~{app:*}:distlock_counted:*"]);
    assert_eq!(rules(&latch, '&'), ["&redisson_countdownlatch__channel__{app:*"]);
}

#[test]
fn all_names_are_one_pattern() {
    let acl = Acl::new("");
    assert_eq!(rules(&acl, '~'), ["~*"]);
    assert!(rules(&acl, '&').contains(&"&redisson_lock__channel:*".to_owned()));
}

#[test]
fn prefixes_are_meant_literally_and_rules_have_no_spaces() {
    let acl = Acl::new("a b*[").kinds(&[Kind::Simple]);
    assert_eq!(rules(&acl, '~'), ["~a?b\\*\\[*"]);
    assert!(acl.set_user("u").ends_with(" \"~a?b\\\\*\\\\[*\""), "{}", acl.set_user("u"));
}

#[test]
fn channels_decide_which_commands() {
    let has = |acl: &Acl, rule: &str| acl.rules().contains(&rule.to_owned());
    let single = Acl::new("a").kinds(&[Kind::Fair]);
    assert!(has(&single, "+publish") && has(&single, "+subscribe"));
    assert!(!has(&single, "+spublish") && !has(&single, "+asking"));
    let sharded = single.clone().cluster(Channels::Sharded);
    assert!(!has(&sharded, "+publish") && !has(&sharded, "+subscribe"));
    assert!(has(&sharded, "+spublish") && has(&sharded, "+pubsub|shardnumsub"));
    let both = single.cluster(Channels::Both);
    assert!(has(&both, "+publish") && has(&both, "+sunsubscribe") && has(&both, "+pubsub|numsub"));
}

#[test]
fn a_kind_that_polls_does_not_listen() {
    let spin = Acl::new("a").kinds(&[Kind::Spin, Kind::Simple]).to_string();
    assert!(!spin.contains("subscribe") && spin.contains("+publish"), "{spin}");
}

#[test]
fn locks_come_with_the_permission_to_end_a_connection_and_questions_do_not() {
    let simple = Acl::new("a").kinds(&[Kind::Simple]).to_string();
    assert!(simple.contains("+client|info +client|kill"), "{simple}");
    assert!(!Acl::for_sentinels().to_string().contains("client"));
    assert!(!all_commands().contains("client"), "locks work without");
}
