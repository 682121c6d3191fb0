//! A core of what every kind promises, on three primaries.

distlock_testkit::core_promises!(cluster_promises);
