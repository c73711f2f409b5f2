//! Lines that an agent sends to `takeback rpc`. The server's home is used only by this target.

#![no_main]

mod support;

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use takeback::fuzzing::RpcServer;

thread_local! {
    static SERVER: OnceCell<RpcServer> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    SERVER.with(|server| {
        let server = server.get_or_init(|| RpcServer::new(&support::SCRATCH));
        bytes.split(|byte| *byte == b'\n').for_each(|line| server.answer(line));
    });
});
