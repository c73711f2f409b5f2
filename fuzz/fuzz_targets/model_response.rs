//! Responses from model providers: a byte for the API, a byte for the size of the pieces, and the
//! body.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_runtime::fuzzing::model_response(bytes));
