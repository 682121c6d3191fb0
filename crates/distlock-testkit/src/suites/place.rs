//! Where promises are kept.

use super::Site::{self, Acl, Cluster, File, Memory, Polling, Sentinel, Tls, Virtual};
use super::promise::Keep;
use crate::Flavor::{self, Redis, Redis62, Valkey};

/// One store or several of them, by a name that stands at the end of a test's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) name: &'static str,
    pub(super) sites: &'static [Site],
    pub(super) threads: Threads,
}

/// What runs a test's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// The test's own thread.
    One,
    /// Two threads, so that tasks meet in the middle of their steps.
    Two,
}

/// Every place. `xtask/src/test/matrix.rs` says which promises are kept where in which tier.
pub(super) const PLACES: &[Place] = &[
    at("memory", &[Memory], Threads::Two),
    at("virtual", &[Virtual], Threads::One),
    at("file", &[File], Threads::Two),
    at("redis", &[Site::Server(Redis)], Threads::Two),
    // With no more permissions than the library says it needs.
    at("valkey", &[Acl(Valkey)], Threads::One),
    at("redis62", &[Site::Server(Redis62)], Threads::One),
    at("acl", &[Acl(Redis)], Threads::One),
    at("polling", &[Polling(Redis)], Threads::One),
    at("tls", &[Tls], Threads::One),
    at("sentinel", &[Sentinel(Redis)], Threads::One),
    at("cluster_sharded", &[Cluster(Redis, "sharded")], Threads::Two),
    at("cluster_classic", &[Cluster(Redis, "classic")], Threads::One),
    at("cluster_valkey", &[Cluster(Valkey, "auto")], Threads::One),
    at("cluster_redis62", &[Cluster(Redis62, "auto")], Threads::One),
    // For several locks as one.
    at("two_tables", &[Virtual, Virtual], Threads::One),
    at("file_and_memory", &[File, Memory], Threads::Two),
    at("memory_and_redis", &[Memory, Site::Server(Redis)], Threads::Two),
    at("two_servers", &[Site::Server(Redis), Acl(Valkey)], Threads::Two),
    at("cluster_and_redis", &[Cluster(Redis, "classic"), Site::Server(Redis)], Threads::One),
    // For those, and for a majority.
    at("three_tables", &[Virtual, Virtual, Virtual], Threads::One),
    at("three_directories", &[File, File, File], Threads::Two),
    at("three_servers", &[Site::Server(Redis), Acl(Valkey), Site::Server(Redis62)], Threads::Two),
    at("three_set_ups", &[Sentinel(Redis), Tls, Acl(Valkey)], Threads::One),
    at("three_sentinels", &[Sentinel(Redis), Sentinel(Valkey), Sentinel(Redis62)], Threads::One),
    at(
        "three_clusters",
        &[Cluster(Redis, "sharded"), Cluster(Valkey, "auto"), Cluster(Redis62, "auto")],
        Threads::Two,
    ),
    at(
        "cluster_redis_and_memory",
        &[Cluster(Redis, "classic"), Site::Server(Redis), Memory],
        Threads::One,
    ),
    // For a majority.
    at(
        "two_servers_and_two_tables",
        &[Memory, Site::Server(Redis), Acl(Valkey), Memory],
        Threads::Two,
    ),
    at(
        "three_servers_and_two_tables",
        &[Acl(Valkey), Memory, Site::Server(Redis62), Memory, Site::Server(Redis)],
        Threads::One,
    ),
];

const fn at(name: &'static str, sites: &'static [Site], threads: Threads) -> Place {
    Place { name, sites, threads }
}

impl Place {
    /// Whether a promise with these needs can be kept here.
    pub(super) fn suits(&self, keep: &Keep) -> bool {
        match keep {
            Keep::Store(_) => self.sites.len() == 1,
            // Threads that block would stop virtual time.
            Keep::Threads(_) => self.sites.len() == 1 && !self.is_virtual(),
            Keep::Field(_) => self.sites.len() <= 3,
            Keep::Nodes(_) => self.sites.len() >= 3,
            Keep::Server(_) => self.flavor().is_some(),
        }
    }

    /// Whether time passes only when nothing else is left to do.
    pub(super) fn is_virtual(&self) -> bool {
        self.sites[0] == Virtual
    }

    /// The program of a server that a test has for itself here.
    pub(super) fn flavor(&self) -> Option<Flavor> {
        match self.name {
            "redis" => Some(Redis),
            "valkey" => Some(Valkey),
            "redis62" => Some(Redis62),
            _ => None,
        }
    }
}
