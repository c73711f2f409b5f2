//! Tests of the fleet with a real PostgreSQL server and a real S3 server.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod bench;
mod bench_objects;
mod chaos;
mod contract;
mod faults;
mod join;
mod kills;
mod machine;
mod proxy;
mod reading;
mod s3;
mod s3_server;
mod server;
mod sync;
mod tasks;
mod tls;
mod worker;
