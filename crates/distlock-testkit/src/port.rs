//! Ports that nobody else is likely to take.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which the kernel picks the local end of an outgoing connection.
///
/// A port out of that range (what binding port 0 gives) is not safe to leave and take again: while
/// its server is down, a client that keeps trying can be given that very port as its own end and
/// then is connected to itself, and the server cannot come back.
const FIRST: u32 = 16_000;
const COUNT: u32 = 16_000;

/// A listener on a free loopback port.
pub(crate) fn listener() -> TcpListener {
    for _ in 0..COUNT {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, candidate())) {
            return listener;
        }
    }
    panic!("no free port on the loopback address from {FIRST} to {}", FIRST + COUNT - 1)
}

/// A port that was free a moment ago. Whoever takes it must cope with having lost the race.
pub fn free() -> u16 {
    listener().local_addr().expect("a bound listener has an address").port()
}

/// A free port for a server of a cluster, whose bus takes the one 10 000 above: that one is free as well, and both are below
/// the kernel's range.
pub(crate) fn free_with_bus() -> u16 {
    const BUS: u16 = 10_000;
    const LAST: u16 = 32_767 - BUS;
    for _ in 0..COUNT {
        let port = candidate();
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if port <= LAST && free(port) && free(port + BUS) {
            return port;
        }
    }
    panic!("no free port on the loopback address from {FIRST} to {LAST} with another {BUS} above")
}

/// Every process walks the range from a start of its own, so that the test binaries of one run do
/// not race for the same ports.
fn candidate() -> u16 {
    static START: OnceLock<u32> = OnceLock::new();
    static STEP: AtomicU32 = AtomicU32::new(0);
    let start = *START.get_or_init(|| std::process::id().wrapping_mul(2_654_435_761) >> 8);
    let offset = start.wrapping_add(STEP.fetch_add(1, Ordering::Relaxed)) % COUNT;
    u16::try_from(FIRST + offset).expect("the range lies below 65536")
}
