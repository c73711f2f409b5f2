//! Entry points to the program, for the targets in `fuzz/`. They exist in no other build.

use std::path::Path;

use takeback_base::text::is_armed;

use crate::config::{self, Config};
use crate::output::MarkdownStream;

pub use crate::commands::rpc::fuzzing::RpcServer;

/// Reads a configuration with `Config::read` and with `Config::read_anyway`. Panics if the results
/// disagree.
pub fn read_config(home: &Path, text: &[u8]) {
    std::fs::write(config::config_path(home), text).expect("the scratch directory is writable");
    let names = config::profile_names(&String::from_utf8_lossy(text));
    for profile in std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str()))) {
        let read = Config::read(home, profile);
        let (anyway, problem) = Config::read_anyway(home, profile);
        match (read, problem) {
            (Ok(config), None) => assert_eq!(format!("{config:?}"), format!("{anyway:?}")),
            (Err(failure), Some(problem)) => {
                assert_eq!(failure.to_string(), problem.to_string());
                assert!(!failure.to_string().chars().any(char::is_control), "{failure}");
            }
            _ => panic!("only one of the readers fails"),
        }
    }
}

/// Renders Markdown as a whole, and in pieces of `length` characters. Panics if the results differ,
/// or if a line could control the terminal.
pub fn render_markdown(text: &str, length: u8, columns: u8) {
    let (length, columns) = (usize::from(length).max(1), usize::from(columns).max(1));
    let mut stream = MarkdownStream::default();
    let mut whole = stream.push(text, columns);
    whole.extend(stream.finish(columns));
    let (mut rest, mut lines) = (text, Vec::new());
    while !rest.is_empty() {
        let end = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
        let (piece, other) = rest.split_at(end);
        lines.extend(stream.push(piece, columns));
        stream.unfinished(columns);
        rest = other;
    }
    lines.extend(stream.finish(columns));
    assert_eq!(lines, whole);
    for line in &whole {
        let plain = anstream::adapter::strip_str(line).to_string();
        assert!(!plain.chars().any(is_armed), "{plain:?}");
    }
}
