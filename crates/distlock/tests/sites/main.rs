//! Every kind keeps a core of its promises on every other set-up that people run: as a user who may do nothing that locks do not
//! need, by way of sentinels, and with certificates on both sides.
#![cfg(all(feature = "sentinel", feature = "tls"))]

mod several;

distlock_testkit::core_promises!(site_promises);
