//! Faults that the plan has at a time.

use super::{Connection, Happening, State, World, log};
use crate::sim::plan::Millis;

impl World {
    pub(in crate::sim) fn cut(&self, process: usize) {
        self.with(|state, _, now, after| {
            for connection in state.open_of(process) {
                let lag = state.rng.u64(..20);
                state.at(now + lag, Happening::HangUp(connection));
                state.reset(connection, now, after);
            }
        });
    }

    /// What is under way comes out at its end.
    pub(in crate::sim) fn partition(&self, process: usize, until: Millis) {
        self.with(|state, _, _, _| {
            state.clients[process].partitioned_until = until;
            for connection in state.open_of(process) {
                let connection = &mut state.connections[connection];
                connection.up_free = connection.up_free.max(until);
                connection.down_free = connection.down_free.max(until);
            }
        });
    }

    /// The process is gone; its machine closes the connections, or is gone as well.
    pub(in crate::sim) fn vanish(&self, process: usize) {
        self.with(|state, _, now, after| {
            let silent = if state.rng.bool() { state.rng.u64(..3_000) } else { 0 };
            for connection in state.open_of(process) {
                state.at(now + silent, Happening::HangUp(connection));
                let connection = &mut state.connections[connection];
                connection.client_open = false;
                after.dropped.push(std::mem::take(&mut connection.waiting));
            }
        });
    }

    pub(in crate::sim) fn pause(&self, until: Millis) {
        self.with(|state, _, _, _| state.paused_until = until);
    }

    /// Every connection breaks, and none can be made for some time.
    pub(in crate::sim) fn down(&self, until: Millis, change: impl FnOnce(&mut State, Millis)) {
        self.with(|state, _, now, _| {
            state.down_until = until;
            for number in 0..state.connections.len() {
                if state.connections[number].server_open {
                    state.hang_up(number);
                    let lag = state.rng.u64(1..30);
                    state.at(now + lag, Happening::Reset(number));
                }
            }
            change(state, now);
        });
    }

    /// A new primary.
    pub(in crate::sim) fn new_term(&self) {
        self.state().term += 1;
    }

    /// No message is lost from now on, and none that is sent from now on is late.
    pub(in crate::sim) fn calm(&self) {
        self.with(|state, _, now, after| {
            state.calm = true;
            let dead = |connection: &Connection| connection.up_dead || connection.down_dead;
            let numbers = 0..state.connections.len();
            let dead: Vec<usize> = numbers.filter(|&at| dead(&state.connections[at])).collect();
            dead.into_iter().for_each(|connection| state.reset(connection, now, after));
            log!(state, now, "calm");
        });
    }
}
