//! A server that answers lines within the calling process, for the targets in `fuzz/`.

use std::path::Path;

use serde_json::value::RawValue;

use super::Server;
use super::params::Params;
use super::protocol::{Error, answer_line};
use crate::arguments::Arguments;
use crate::context::{Caller, Context};

/// The methods that the server answers, in addition to those of `sessions`. These methods read and
/// write only takeback's home. All other methods capture or restore files, or start processes.
const SERVED: [&str; 10] = [
    "initialize",
    "status",
    "config.get",
    "explain",
    "session.set",
    "session.compress",
    "notices.take",
    "messages.append",
    "usage.record",
    "checkpoint.list",
];

/// A server that has its own home and directory.
pub struct RpcServer(Server);

impl RpcServer {
    /// Opens a new home in `scratch`. The server works in the directory `workspace` next to that
    /// home.
    pub fn new(scratch: &Path) -> RpcServer {
        let (home, directory) = (scratch.join("home"), scratch.join("workspace"));
        std::fs::create_dir_all(&directory).expect("the scratch directory is writable");
        let words = ["takeback", "rpc"].map(Into::into).to_vec();
        let globals = match Arguments::parse_words(words) {
            Ok(arguments) => arguments.globals,
            Err(_) => unreachable!("these words are valid"),
        };
        let context = Context::new(globals, Caller::Agent);
        let Ok(context) = context else { unreachable!("HOME is set") };
        let context = context.in_home(&directory, &home);
        RpcServer(Server::new(&context, Default::default()))
    }

    /// Answers a line. Panics if the answer is not one line of JSON.
    pub fn answer(&self, line: &[u8]) {
        let answer = answer_line(line, |request| {
            let mut params = Params::read(request.params.as_deref())?;
            let is_here = params.take_raw("cwd").is_none();
            let method = request.method.as_str();
            match is_here && (SERVED.contains(&method) || method.starts_with("sessions.")) {
                true => self.0.serve(request),
                false => Err(Error::no_such_method(method)),
            }
        });
        if let Some(answer) = answer {
            assert!(!answer.contains(['\n', '\r', '\0', '\u{1b}']), "{answer:?}");
            serde_json::from_str::<&RawValue>(&answer).expect("it is JSON");
        }
    }
}
