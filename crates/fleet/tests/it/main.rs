//! Tests of the fleet with real servers: PostgreSQL and object storage.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod bench;
mod bench_objects;
mod chaos;
mod contract;
mod faults;
mod join;
mod kills;
mod machine;
mod objects;
mod proxy;
mod reading;
mod server;
mod storage;
mod sync;
mod tasks;
mod tls;
mod worker;
