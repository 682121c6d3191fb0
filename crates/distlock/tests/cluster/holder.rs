//! What holders say of themselves, on three primaries: in the slot of the lock, whatever that is called.

use distlock_testkit::cluster_promises;

cluster_promises! {
    holder::says:
    everybody_sees_who_holds_it
    who_says_nothing_leaves_nothing
    an_heir_speaks_for_itself
    many_holders_have_their_own_words
    all_of_several_say_it
    those_who_wait_are_counted
}

cluster_promises! {
    holder::gone:
    what_was_said_goes_with_the_hold
}

cluster_promises! {
    holder::told:
    a_wait_timeout_says_who_holds_it
}
