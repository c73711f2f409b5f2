//! `takeback rpc`: serves an agent for as long as it runs.
//!
//! Requests come in on standard input, one per line, and are answered in order on standard output,
//! which carries nothing else.

mod late;
mod lines;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use takeback_tree::AnyPath;

use self::late::LateReports;
use self::lines::{Line, MAX_LINE};
use self::params::Params;
use self::protocol::{Answer, Error, Request};
use crate::background;
use crate::context::Context;
use crate::failure::Failure;

/// Serve an agent for as long as it runs: JSON-RPC 2.0, one message per line
///
/// For agent builders: turns, tool calls, checkpoints, diffs, rollback, undo, notices, sessions and
/// search without a process for each. Requests are read from standard input and answered in order
/// on standard output, until the input ends. docs/protocol.md describes the methods.
#[derive(Args)]
#[command(after_help = "\
A session (> to takeback, < from it):
  > {\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"turn.start\", \"params\": {\"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}}
  < {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"session\":\"mine:1\",\"enabled\":true,\"checkpoints\":[],\"missed\":false,\"late\":false,\"failures\":[]}}
  > {\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"tool.before\", \"params\": {\"agent\": \"mine\", \"session\": \"1\", \"call\": \"c1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}}
  < {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"session\":\"mine:1\",\"enabled\":true,\"checkpoints\":[\"4270a8c…\"],\"missed\":false,\"late\":false,\"failures\":[]}}
  > {\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"rollback.apply\", \"params\": {\"checkpoint\": 1}}
  < {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"action\":\"rollback\",\"restored\":[\"src\",\"src/main.rs\"],…}}

Examples:
  echo '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\"}' | takeback rpc
  takeback -C ~/code/shop rpc")]
pub(crate) struct Arguments {}

/// The time without a request after which the server closes the ledger.
const IDLE: Duration = Duration::from_millis(500);

/// An event that wakes the server.
enum Event {
    Line(Line),
    /// The input has ended, or cannot be read.
    End(io::Result<()>),
    /// A signal asked the process to end.
    Stop,
}

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let (sender, events) = mpsc::sync_channel(1);
    let stopped = Arc::new(AtomicBool::new(false));
    end_on_signals(sender.clone(), stopped.clone())
        .map_err(|error| Failure::new("cannot listen to signals").because(&error))?;
    thread::spawn(move || read_lines(&sender));
    let server = Server::new(context);
    let mut ended = Ok(());
    loop {
        let event = match events.recv_timeout(IDLE) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => {
                server.rest();
                match events.recv() {
                    Ok(event) => event,
                    Err(_) => break,
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let response = match event {
            // After a signal, lines that wait are not served.
            _ if stopped.load(Ordering::SeqCst) => break,
            Event::Stop => break,
            Event::End(end) => {
                ended = end;
                break;
            }
            Event::Line(line) => server.answer(&line),
        };
        if let Some(response) = response
            && let Err(error) = send_line(&response)
        {
            ended = Err(error);
            break;
        }
        background::reap_children();
    }
    server.late.wait_for_all();
    match ended {
        // The agent is gone, which is a normal end.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new("cannot talk to the agent").because(&error)),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Ends the server on a signal, after the request that it serves. A second signal ends the process
/// at once; the next command recovers from that.
fn end_on_signals(sender: SyncSender<Event>, stopped: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if stopped.swap(true, Ordering::SeqCst) {
                let _ = emulate_default_handler(signal);
            }
            // If the channel is full, the event in it wakes the server.
            let _ = sender.try_send(Event::Stop);
        }
    });
    Ok(())
}

fn read_lines(sender: &SyncSender<Event>) {
    let mut input = io::stdin().lock();
    loop {
        let event = match lines::read_line(&mut input) {
            Ok(Some(line)) => Event::Line(line),
            Ok(None) => Event::End(Ok(())),
            Err(error) => Event::End(Err(error)),
        };
        let is_end = matches!(event, Event::End(_));
        if sender.send(event).is_err() || is_end {
            return;
        }
    }
}

fn send_line(response: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(response.as_bytes())?;
    output.write_all(b"\n")?;
    output.flush()
}

/// The state that stays from one request to the next: what is open, and the reports that are late.
struct Server {
    context: RefCell<Context>,
    /// The files that what is open was made from.
    stamp: Cell<Option<Stamp>>,
    late: LateReports,
}

/// The identity of the configuration and of the store, which changes if another process replaces
/// them.
type Stamp = [Option<(u64, i64, i64, u64)>; 2];

impl Server {
    fn new(context: &Context) -> Server {
        let context = RefCell::new(context.in_directory(&context.directory));
        Server { context, stamp: Cell::new(None), late: LateReports::default() }
    }

    fn answer(&self, line: &Line) -> Option<String> {
        match line {
            Line::TooLong => Some(protocol::answer_too_long(MAX_LINE)),
            Line::Text(line) if line.trim_ascii().is_empty() => None,
            Line::Text(line) => protocol::answer_line(line, |request| self.serve(request)),
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

    /// Opens takeback's home, or opens it anew if the configuration or the store was replaced.
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

    /// Closes the ledger while no request comes, so that other processes can repair it.
    fn rest(&self) {
        self.context.borrow().close_ledger();
    }
}

fn read_stamp(home: &Path) -> Stamp {
    ["config.toml", "checkpoints/store/store.json"].map(|name| {
        let found = fs::metadata(home.join(name)).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
    })
}
