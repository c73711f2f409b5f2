//! Entry points to the program, for the targets in `fuzz/`. They exist in no other build.

use std::path::Path;

use crate::config::{self, Config};

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
