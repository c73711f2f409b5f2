//! `takeback rpc`: serves an agent for as long as the agent runs.
//!
//! Requests arrive on standard input, one per line, and are answered in order on standard output,
//! which carries nothing else.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(in crate::commands) mod input;
mod late;
mod methods;
mod params;
mod protocol;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use takeback_tree::AnyPath;

use self::input::{Event, Input, MAX_LINE};
pub(in crate::commands) use self::late::LateReports;
use self::params::Params;
use self::protocol::{Answer, Error, Request};
use crate::background;
use crate::commands::fleet::ResidentShipper;
use crate::context::Context;
use crate::failure::Failure;

/// Serve an agent for as long as it runs: JSON-RPC 2.0, one message per line
///
/// For agent builders: turns, tool calls, checkpoints, diffs, rollback, undo, notices, sessions and
/// search, without a new process for each request. Requests are read from standard input and
/// answered in order on standard output, until the input ends. docs/protocol.md describes the
/// methods.
#[derive(Args)]
#[command(after_help = "\
A session (> to takeback, < from it):
  > {\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"turn.start\", \"params\": {\"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}}
  < {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"session\":\"mine:1\",\"enabled\":true,\"checkpoints\":[],\"missed\":false,\"late\":false,\"failures\":[],\"unprotected\":[],\"tampering\":[],\"refused\":false}}
  > {\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"tool.before\", \"params\": {\"agent\": \"mine\", \"session\": \"1\", \"call\": \"c1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}}
  < {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"session\":\"mine:1\",\"enabled\":true,\"checkpoints\":[\"4270a8c…\"],\"missed\":false,\"late\":false,\"failures\":[],\"unprotected\":[],\"tampering\":[],\"refused\":false}}
  > {\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"rollback.apply\", \"params\": {\"checkpoint\": 1}}
  < {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"action\":\"rollback\",\"restored\":[\"src\",\"src/main.rs\"],…}}

Examples:
  echo '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\"}' | takeback rpc
  takeback -C ~/code/shop rpc")]
pub(crate) struct Arguments {}

/// The time after which the server closes the ledger if there is no request.
const IDLE: Duration = Duration::from_millis(500);

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut input =
        Input::new().map_err(|error| Failure::new("cannot listen for signals").because(&error))?;
    let server = Server::new(context, input.stop_flag());
    let _shipper = ResidentShipper::start(context);
    let ended = server.serve_all(&mut input);
    server.late.wait_for_all();
    match ended {
        // The agent has ended, so it is normal for the server to end as well.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new("cannot talk to the agent").because(&error)),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn send_line(response: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(response.as_bytes())?;
    output.write_all(b"\n")?;
    output.flush()
}

/// The state that is kept between requests: the opened home, and the late reports.
struct Server {
    context: RefCell<Context>,
    /// The stamp of the files in takeback's home when it was last opened.
    stamp: Cell<Option<Stamp>>,
    late: LateReports,
    /// True after a signal that ends the server. Long requests then stop early.
    is_stopped: Arc<AtomicBool>,
}

/// The identity of the configuration file and of the store. It changes if the file is edited, or if
/// another process replaces either of them.
pub(crate) type Stamp = [Option<(u64, i64, i64, u64)>; 2];

impl Server {
    fn new(context: &Context, is_stopped: Arc<AtomicBool>) -> Server {
        let context = RefCell::new(context.in_directory(&context.directory));
        Server { context, stamp: Cell::new(None), late: LateReports::default(), is_stopped }
    }

    /// Answers requests until the input ends or a signal arrives.
    fn serve_all(&self, input: &mut Input) -> io::Result<()> {
        let mut idle_after = Some(IDLE);
        loop {
            let response = match input.next_event(idle_after)? {
                Event::End => return Ok(()),
                Event::Idle => {
                    self.rest();
                    idle_after = None;
                    continue;
                }
                Event::TooLongLine => Some(protocol::answer_too_long(MAX_LINE)),
                Event::Line(line) if line.trim_ascii().is_empty() => None,
                Event::Line(line) => protocol::answer_line(&line, |request| self.serve(request)),
            };
            if let Some(response) = response {
                send_line(&response)?;
            }
            background::reap_children();
            idle_after = Some(IDLE);
        }
    }

    fn serve(&self, request: &Request) -> Answer {
        let Some(method) = methods::find_method(&request.method) else {
            return Err(Error::no_such_method(&request.method));
        };
        let mut params = Params::read(request.params.as_deref())?;
        let cwd: Option<AnyPath> = params.optional("cwd")?;
        self.refresh();
        let shared = self.context.borrow();
        let directory = match cwd {
            Some(AnyPath(cwd)) => shared.directory.join(cwd),
            None => shared.directory.clone(),
        };
        let context = shared.in_directory(&directory);
        // A method that panics does not end the server.
        catch_unwind(AssertUnwindSafe(|| method(self, &context, params)))
            .unwrap_or_else(|_| Err(Error::internal()))
    }

    /// Opens takeback's home, or reopens it if the configuration or the store has been replaced.
    fn refresh(&self) {
        let mut context = self.context.borrow_mut();
        let stamp = read_stamp(&context.home);
        if self.stamp.get() != Some(stamp) {
            context.reopen();
            self.stamp.set(Some(stamp));
        }
        // A configuration that cannot be read is reported by the methods that need it.
        let _ = context.opened();
    }

    /// Closes the ledger while the server is idle, so that other processes can repair it.
    fn rest(&self) {
        self.context.borrow().close_ledger();
    }
}

/// Reads the stamp of the configuration file and the store in a home.
pub(crate) fn read_stamp(home: &Path) -> Stamp {
    ["config.toml", "checkpoints/store/store.json"].map(|name| {
        let found = fs::metadata(home.join(name)).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
    })
}
