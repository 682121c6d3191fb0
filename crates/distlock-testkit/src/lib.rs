//! Real servers, fault proxies and suites of promises.
