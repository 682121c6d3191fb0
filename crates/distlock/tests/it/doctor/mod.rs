//! What locks need of a server is known, and what a server lacks is said.
mod cycles;
mod faults;
mod permissions;
mod places;
mod report;
#[cfg(all(feature = "cluster", feature = "sentinel"))]
mod several;
