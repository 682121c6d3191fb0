//! Which steps of which kind arrive late.

use crate::late::kinds::Kind;
use crate::late::stage::User;
use crate::late::steps::{Step, arrives_late};

/// Each line is a test for each [`User`], and within it one for each that can come after the step.
macro_rules! table {
    ($($module:ident $kind:ident: $($test:ident $step:ident)*;)*) => {
        $(mod $module {
            use super::*;

            $(mod $test {
                use super::*;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn does_no_harm() {
                    arrives_late(Kind::$kind, Step::$step, User::MayKill).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn does_no_harm_without_the_permission_to_kill() {
                    arrives_late(Kind::$kind, Step::$step, User::MayNotKill).await;
                }
            })*
        })*
    };
}

table! {
    mutex Mutex:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_hand_off PassOn
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    fenced Fenced:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    fair Fair:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    read Read:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    write Write:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    simple Simple:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_hand_off PassOn
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    spin Spin:
        a_late_cancelled_acquire AcquireCancelled
        a_late_acquire_that_won AcquireWon
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_extension Extend;
    semaphore Semaphore:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_release Release
        a_late_forget Forget;
    leased_semaphore LeasedSemaphore:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    multi Multi:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
    redlock Redlock:
        a_late_cancelled_acquire AcquireCancelled
        a_late_cancelled_acquire_beside_a_hold AcquireCancelledThenHeld
        a_late_acquire_that_won AcquireWon
        a_late_acquire_that_won_and_ended AcquireWonThenFree
        a_late_re_entry ReEnter
        a_late_release Release
        a_late_renewal Renew
        a_late_extension Extend
        a_late_forget Forget;
}
