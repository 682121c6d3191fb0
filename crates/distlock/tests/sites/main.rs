//! Every kind keeps a core of its promises on every other set-up that people run.
#![cfg(feature = "tls")]

distlock_testkit::core_promises!(site_promises);
