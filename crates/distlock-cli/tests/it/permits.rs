//! `distlock permits`: the number of permits is shown and changed.

use crate::support::{Bench, code, output, schema};
use distlock_testkit::{Flavor, Server};
use serde_json::{Value, json};

fn numbers(report: &Value) -> [Option<i64>; 3] {
    schema::check("permits", report);
    ["permits", "available", "taken"].map(|key| report[key].as_i64())
}

#[test]
fn the_number_is_shown_and_set_and_taken_permits_stay_taken() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        for kind in ["semaphore", "leased_semaphore"] {
            let report = bench.json(["permits", "--kind", kind, kind]);
            assert_eq!(numbers(&report), [None, None, Some(0)], "{report}");
            let options = ["--kind", kind, "-n", "3"];
            let (one, two) = (bench.hold(&options, kind), bench.hold(&options, kind));
            assert_eq!(numbers(&bench.json(["permits", kind])), [Some(3), Some(1), Some(2)]);
            let more = bench.json(["permits", "--set", "5", kind]);
            assert_eq!(numbers(&more), [Some(5), Some(3), Some(2)], "{more}");
            assert_eq!((&more["permits_before"], &more["kind"]), (&json!(3), &json!(kind)));
            let fewer = bench.json(["permits", "--set", "1", kind]);
            assert_eq!(numbers(&fewer), [Some(1), Some(-1), Some(2)], "{fewer}");
            let text = output(bench.distlock(["permits", kind]));
            let text = String::from_utf8(text.stdout).unwrap();
            assert!(
                text.contains(": 1 permit, 2 taken, 0 free, and 1 too many are taken"),
                "{text}"
            );
            assert_eq!((one.leave(), two.leave()), (Some(0), Some(0)));
            let left = bench.json(["permits", "--kind", kind, kind]);
            assert_eq!(numbers(&left), [Some(1), Some(1), Some(0)], "{left}");
        }
    }
}

#[test]
fn a_new_semaphore_is_what_run_makes() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        let made = bench.json(["permits", "--set", "2", "builds"]);
        assert_eq!(numbers(&made), [Some(2), Some(2), Some(0)], "{made}");
        assert_eq!(
            (&made["kind"], &made["permits_before"]),
            (&json!("leased_semaphore"), &Value::Null)
        );
        assert_eq!(code(bench.run(&["--semaphore", "--nb"], "builds", "exit 3")), 3);
    }
}

#[test]
fn what_has_no_permits_is_65_and_what_may_have_none_is_64() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let holder = bench.hold(&[], "x");
    let refused = output(bench.distlock(["permits", "--set", "2", "x"]));
    assert_eq!(refused.status.code(), Some(65), "{refused:?}");
    assert_eq!(holder.leave(), Some(0));
    bench.json(["latch", "init", "gate", "2"]);
    let refused = output(bench.distlock(["permits", "--set", "9", "gate"]));
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--kind"), "{refused:?}");
    assert_eq!(bench.show_as("latch", "gate")["count"], json!(2), "the latch is as it was");
    assert_eq!(code(bench.distlock(["permits", "--kind", "mutex", "x"])), 64);
}
