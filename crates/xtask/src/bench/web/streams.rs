//! Many event streams at the same time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::{Figure, Limit, Served, figure};
use crate::Failure;

/// The number of streams.
const STREAMS: usize = 200;

/// The number of changes that are sent to all streams.
const CHANGES: usize = 300;

/// Opens many streams, and measures the server's memory before and after many changes to a
/// workspace. The workspace should have a short history, because each change reads all of it.
pub(super) fn measure_streams(
    program: &Path,
    home: &Path,
    project: &Path,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let served = Served::start(program, home)?;
    // The server reads all timelines for this page, so they are already in its memory when the
    // memory is measured for the first time.
    served.client()?.get("/")?;
    let workspace = find_workspace(&served, project)?;
    let readers: Result<Vec<_>, Failure> = (0..STREAMS).map(|_| open_stream(&served)).collect();
    let readers = readers?;
    // A few changes are sent first, so that buffers have their usual size.
    change(&served, &workspace, CHANGES / 10)?;
    let before = read_memory(served.child.id())?;
    change(&served, &workspace, CHANGES)?;
    let wanted = CHANGES + CHANGES / 10;
    let counts: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(move || count_events(reader, wanted)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
    });
    if let Some(few) = counts.iter().find(|count| **count < wanted) {
        return Err(format!("a stream received only {few} of {wanted} changes"));
    }
    let after = read_memory(served.child.id())?;
    figures.push(figure("memory with 200 event streams", before as f64 / 1e3, "MB", None));
    let growth = (after as f64 - before as f64) / before as f64 * 100.0;
    let what = "growth of that memory after 300 more changes";
    figures.push(figure(what, growth, "%", Some(Limit::AtMost(5.0))));
    Ok(())
}

fn find_workspace(served: &Served, project: &Path) -> Result<String, Failure> {
    let known = served.client()?.get("/api/v1/workspaces")?;
    let known: Vec<serde_json::Value> =
        serde_json::from_str(&known).map_err(|error| error.to_string())?;
    let own = known.iter().find(|known| known["path"].as_str().map(Path::new) == Some(project));
    let id = own.and_then(|own| own["id"].as_str());
    id.map(str::to_owned).ok_or_else(|| "the server does not know the workspace".into())
}

fn open_stream(served: &Served) -> Result<BufReader<TcpStream>, Failure> {
    let failed = |error: std::io::Error| format!("cannot open a stream: {error}");
    let mut socket = TcpStream::connect(("127.0.0.1", served.port)).map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
    let Served { port, token, .. } = served;
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).map_err(failed)?;
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(failed)?;
    if line.starts_with("HTTP/1.1 200") { Ok(reader) } else { Err(line) }
}

/// Pins and unpins a checkpoint. Each change is sent to every stream.
pub(super) fn change(served: &Served, workspace: &str, count: usize) -> Result<(), Failure> {
    let list =
        served.client()?.get(&format!("/api/v1/checkpoints?workspace={workspace}&limit=1"))?;
    let list: serde_json::Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
    let id = list["entries"][0]["id"].as_str().unwrap_or_default().to_owned();
    for number in 0..count {
        let body = format!("{{\"pinned\":{}}}", number % 2 == 0);
        patch(served, &format!("/api/v1/checkpoints/{workspace}/{id}"), &body)?;
    }
    Ok(())
}

fn patch(served: &Served, path: &str, body: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut socket = TcpStream::connect(("127.0.0.1", served.port)).map_err(failed)?;
    let Served { port, token, .. } = served;
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).map_err(failed)?;
    if line.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(line) }
}

/// Counts the events about workspaces until `wanted` events have arrived.
fn count_events(mut reader: BufReader<TcpStream>, wanted: usize) -> usize {
    let mut count = 0;
    let mut line = String::new();
    while count < wanted {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(1..) => count += usize::from(line.trim_end() == "event: workspace"),
            _ => break,
        }
    }
    count
}

/// Returns the memory that a process uses, in kilobytes.
fn read_memory(process: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("{path}: no VmRSS"))
}
