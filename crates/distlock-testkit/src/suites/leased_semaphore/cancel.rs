//! An acquisition may be dropped anywhere.

use crate::suites::Ground;

crate::suites::permits::kept_by! {
    LeasedSemaphore, cancel on Ground:
    an_acquisition_cut_at_any_poll_takes_nothing
    a_wait_cut_at_any_poll_takes_nothing
    a_wait_cut_while_it_is_served_takes_nothing
}
