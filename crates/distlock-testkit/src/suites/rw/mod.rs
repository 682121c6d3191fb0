//! The promises of `rw`: Redisson's own scenarios for its read-write lock, and what this library adds.

pub mod crowds;
pub mod downgrade;
pub mod exclusion;
pub mod leases;
pub mod loss;
pub mod queries;
pub mod reentry;
pub mod server;
pub mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use distlock::Rw;

use super::times::{HOUR, ms, secs};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { rw;
    Store exclusion:
        each_half_can_be_taken_and_released_twice
        readers_are_inside_together
        a_writer_is_alone
        other_names_are_other_locks
        a_wait_that_runs_out_gives_nothing
        whoever_waits_gets_in_when_the_others_let_go
        dropping_and_trying_again_succeeds
        threads_can_read_and_write;
    Store crowds:
        tasks_of_one_process_never_write_beside_anybody
        a_hundred_processes_never_write_beside_anybody
        every_way_in_and_out_excludes
        fifty_readers_outlive_the_watchdogs_timeout;
    Store waiting:
        twenty_readers_enter_together_when_the_writer_leaves
        a_stream_of_readers_does_not_keep_a_waiting_writer_out
        a_stream_of_writers_does_not_keep_a_waiting_reader_out
        new_readers_stand_behind_a_writer_that_waits
        a_writer_that_gives_up_lets_the_readers_behind_it_in
        a_writer_that_cannot_get_in_holds_up_nobody;
    Store reentry:
        holds_are_counted_in_each_half
        the_last_level_frees_it
        a_writer_may_read_and_go_on_reading
        a_reader_cannot_write_before_it_lets_go
        a_level_less_never_shortens_the_rest
        a_reentry_never_shortens_the_outer_hold
        a_stranger_cannot_unlock
        what_was_leaked_can_be_freed_by_its_owner;
    Store leases:
        a_writer_enters_when_the_last_readers_lease_ends
        readers_enter_when_the_writers_lease_ends
        a_second_write_lease_adds_nothing
        a_read_that_expired_before_another_ended_is_in_nobodys_way
        a_short_read_never_ends_another
        what_nobody_renews_is_free_after_the_watchdogs_timeout
        a_dead_reader_keeps_a_writer_out_no_longer_than_its_lease
        both_halves_are_renewed_in_time
        nothing_is_renewed_after_a_release
        extending_lengthens_and_never_shortens;
    Store downgrade:
        a_writer_that_reads_on_lets_readers_in_and_no_writer
        readers_that_wait_come_in_at_once
        nobody_writes_in_between
        a_read_is_kept_as_the_write_was
        an_outer_write_stays_a_write
        a_lost_write_does_not_become_a_read;
    Store loss:
        force_of_the_wrong_half_does_nothing
        force_tells_the_holders_here
        force_is_noticed_elsewhere_with_the_next_renewal
        a_reader_that_was_thrown_out_does_not_live_on_through_others
        force_wakes_those_who_wait
        closing_releases_both_halves;
    Store queries:
        everybody_sees_which_half_is_locked
        a_snapshot_says_who_and_how
        any_name_will_do;
    Server server:
        a_read_that_the_server_forgot_is_lost_and_the_next_is_kept
        a_write_that_the_server_forgot_is_lost_and_the_next_is_kept
        an_uncontended_half_costs_two_commands
        readers_that_come_in_together_cost_one_command_each
        nothing_is_left_of_what_was_held;
};

/// Whether one attempt to read succeeds.
async fn may_read(rw: &Rw) -> bool {
    rw.try_read().await.expect("the store answers").is_some()
}

/// Whether one attempt to write succeeds.
async fn may_write(rw: &Rw) -> bool {
    rw.try_write().await.expect("the store answers").is_some()
}

/// What the lock protects: notices when a writer is not alone.
#[derive(Debug, Default)]
struct Room {
    readers: AtomicU32,
    writers: AtomicU32,
    reads: AtomicU32,
    writes: AtomicU32,
}

impl Room {
    fn new() -> Arc<Room> {
        Arc::default()
    }

    /// Reads, while others run.
    async fn read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "somebody writes while one reads");
        tokio::task::yield_now().await;
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "somebody writes while one reads");
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    /// Writes, while others run.
    async fn write(&self) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "two write at once");
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "somebody reads while one writes");
        tokio::task::yield_now().await;
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "somebody reads while one writes");
        self.writers.fetch_sub(1, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    fn reads(&self) -> u32 {
        self.reads.load(Ordering::SeqCst)
    }

    fn writes(&self) -> u32 {
        self.writes.load(Ordering::SeqCst)
    }
}
