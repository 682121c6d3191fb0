//! Ports that no other test process takes.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Where ports are taken from: below the range from which the kernel picks the local end of an outgoing connection.
///
/// A port out of that range (what binding port 0 gives) is not safe to leave and take again: while
/// its server is down, a client that keeps trying can be given that very port as its own end and
/// then is connected to itself, and the server cannot come back.
const PLAIN: Range<u16> = 20_000..26_000;
/// For servers of a cluster, whose bus takes the port so far above: from 26 000 to 29 999.
const CLUSTER: Range<u16> = 16_000..20_000;
const BUS: u16 = 10_000;
/// How many ports a process claims at a time; the first of them is the claim.
const BLOCK: u16 = 64;
/// How many blocks a process claims before it uses the ports of the first again.
const BLOCKS: usize = 16;

/// A listener on a free loopback port.
pub(crate) fn listener() -> TcpListener {
    static PORTS: Claims = Claims::new(PLAIN);
    PORTS.find(bind)
}

/// A port that was free a moment ago. A program that takes it must cope with having lost the race.
pub fn free() -> u16 {
    listener().local_addr().expect("a bound listener has an address").port()
}

/// A free port for a server of a cluster: that of its bus is free as well.
pub(crate) fn free_with_bus() -> u16 {
    static PORTS: Claims = Claims::new(CLUSTER);
    PORTS.find(|port| bind(port).and(bind(port + BUS)).map(|_| port))
}

/// The blocks of ports that this process has claimed.
///
/// Test processes run beside each other, and one whose server is down for a moment must find its port free again. A claim
/// is a listener on the first port of a block: the kernel gives it up when the process ends, however it ends.
struct Claims {
    range: Range<u16>,
    claimed: Mutex<Claimed>,
}

struct Claimed {
    blocks: Vec<TcpListener>,
    /// How many ports have been handed out.
    taken: usize,
}

impl Claims {
    const fn new(range: Range<u16>) -> Claims {
        Claims { range, claimed: Mutex::new(Claimed { blocks: Vec::new(), taken: 0 }) }
    }

    /// The first thing that can be had with a port of this process.
    fn find<T>(&self, take: impl Fn(u16) -> Option<T>) -> T {
        let tries = BLOCKS * usize::from(BLOCK);
        (0..tries).find_map(|_| take(self.candidate())).unwrap_or_else(|| {
            let Range { start, end } = self.range;
            panic!("none of {tries} ports on the loopback address from {start} to {end} is free")
        })
    }

    fn candidate(&self) -> u16 {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let in_block = usize::from(BLOCK - 1);
        let (block, offset) = (claimed.taken / in_block % BLOCKS, claimed.taken % in_block);
        claimed.taken += 1;
        if block == claimed.blocks.len() {
            claimed.blocks.push(self.claim());
        }
        let first = claimed.blocks[block].local_addr().expect("a bound listener has an address");
        first.port() + 1 + u16::try_from(offset).expect("a block is small")
    }

    /// Claims one more block. Every process looks from a start of its own, and so finds one at once.
    fn claim(&self) -> TcpListener {
        let count = u32::from((self.range.end - self.range.start) / BLOCK);
        let start = std::process::id().wrapping_mul(2_654_435_761) >> 8;
        let blocks = (0..count).map(|step| start.wrapping_add(step) % count);
        let firsts = blocks.map(|block| {
            self.range.start
                + BLOCK * u16::try_from(block).expect("there are fewer blocks than ports")
        });
        let Range { start, end } = &self.range;
        firsts.into_iter().find_map(bind).unwrap_or_else(|| {
            panic!("other processes have claimed all ports from {start} to {end}")
        })
    }
}

fn bind(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_not_handed_out_twice() {
        let mut seen: Vec<u16> = (0..200).map(|_| free()).collect();
        assert!(seen.iter().all(|port| PLAIN.contains(port)));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
        let port = free_with_bus();
        assert!(CLUSTER.contains(&port));
        assert!(bind(port).is_some() && bind(port + BUS).is_some());
    }

    #[test]
    fn two_claims_share_no_block() {
        // As if the second were another process.
        static ONE: Claims = Claims::new(PLAIN);
        static TWO: Claims = Claims::new(PLAIN);
        let block = |claims: &Claims| (claims.candidate() - PLAIN.start) / BLOCK;
        assert_ne!(block(&ONE), block(&TWO));
    }
}
