//! Text from a model, which arrives in pieces of any size. The first two bytes determine the length
//! of the pieces and the width of the terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [length, columns, text @ ..] = bytes {
        let text = String::from_utf8_lossy(text);
        takeback::fuzzing::render_markdown(&text, *length, *columns);
    }
});
