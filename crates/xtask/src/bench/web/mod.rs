//! `cargo xtask bench web`: measures `takeback serve` with 10,000 checkpoints, compared with a bare
//! axum server in the same run.

mod client;
mod hello;
pub(crate) mod history;
mod streams;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use self::client::Client;
use super::process::{busy_elsewhere, clean_command};
use super::scratch::Scratch;
use super::{Options, build_and_bench, is_measured_build, this_program};
use crate::Failure;
use crate::run::target_directory;

/// The number of checkpoints.
const CHECKPOINTS: usize = 10_000;

/// The number of rows that each request asks for.
const ROWS: usize = 50;

/// A measured number, and its limit.
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    limit: Option<Limit>,
}

/// The lower or upper limit of a number.
#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    fn is_met(&self) -> bool {
        match self.limit {
            None => true,
            Some(Limit::AtLeast(limit)) => self.value >= limit,
            Some(Limit::AtMost(limit)) => self.value <= limit,
        }
    }
}

pub(crate) fn bench_web(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    let this = this_program()?;
    if !is_measured_build(&this) {
        return build_and_bench(&["takeback", "xtask"], &["web"], arguments);
    }
    // The files are in memory, because writing ten thousand checkpoints to a disk would take a long
    // time, and this time is not measured.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() {
        memory.join("takeback-bench")
    } else {
        target_directory().join("bench")
    };
    let scratch = Scratch::new(&base, options.keep)?;
    let others = busy_elsewhere();
    let measured = measure_all(&scratch, &this.with_file_name("takeback"), &options);
    scratch.delete_all();
    let figures = measured?;
    if others > 0.1 {
        println!(
            "note: other processes used {:.0}% of the machine before this run",
            others * 100.0
        );
    }
    if let Some(file) = &options.json {
        let list: Vec<_> = figures
            .iter()
            .map(|figure| json!({ "what": figure.what, "value": figure.value, "unit": figure.unit, "met": figure.is_met() }))
            .collect();
        fs::write(file, json!(list).to_string())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

/// A running server.
struct Served {
    child: Child,
    port: u16,
    token: String,
}

impl Served {
    fn start(program: &Path, home: &Path) -> Result<Served, Failure> {
        let mut command = clean_command(program);
        command.arg("--home").arg(home).args(["serve", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run serve: {error}"))?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        let found: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        let url = found["url"].as_str().unwrap_or_default();
        let parts = url.rsplit_once(':').and_then(|(_, rest)| rest.split_once("/?token="));
        let (port, token) = parts.ok_or_else(|| format!("no link: {line}"))?;
        let port = port.parse().map_err(|_| format!("no port: {line}"))?;
        Ok(Served { child, port, token: token.to_owned() })
    }

    fn client(&self) -> Result<Client, Failure> {
        Client::connect(self.port, &format!("authorization: Bearer {}\r\n", self.token))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure_all(
    scratch: &Scratch,
    program: &Path,
    options: &Options,
) -> Result<Vec<Figure>, Failure> {
    let (home, project) = (scratch.fresh_path("home"), scratch.fresh_path("project"));
    let count = if options.quick { CHECKPOINTS / 10 } else { CHECKPOINTS };
    scratch.announce(&format!("writing {count} checkpoints"));
    history::write_history(&home, &project, count)?;
    let mut figures = Vec::new();
    scratch.announce("pages");
    measure_pages(program, &home, &mut figures)?;
    scratch.announce("request rates");
    measure_rates(program, &home, options, &mut figures)?;
    scratch.announce("event streams");
    let small = scratch.fresh_path("small");
    history::LongHistory::begin(&home, &small)?.play(5)?;
    streams::measure_streams(program, &home, &small, &mut figures)?;
    Ok(figures)
}

/// Measures the loading time and the size of the timeline.
fn measure_pages(program: &Path, home: &Path, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let served = Served::start(program, home)?;
    let mut client = served.client()?;
    let start = Instant::now();
    let first = client.get("/")?;
    let cold = start.elapsed();
    let workspace = find_workspace(&first)?;
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        client.get(&format!("/w/{workspace}"))?;
        times.push(start.elapsed());
    }
    let mut changed = Vec::new();
    for _ in 0..3 {
        streams::change(&served, &workspace, 1)?;
        let start = Instant::now();
        client.get(&format!("/w/{workspace}"))?;
        changed.push(start.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let page = client.get(&format!("/w/{workspace}"))?;
    let mut weight = page.len();
    // Each script names the scripts that it needs.
    let mut assets = find_assets(&page);
    let mut done = 0;
    while let Some(asset) = assets.get(done).cloned() {
        let content = client.get(&asset)?;
        weight += content.len();
        done += 1;
        for needed in find_imports(&content) {
            if !assets.contains(&needed) {
                assets.push(needed);
            }
        }
    }
    figures.push(figure("first page right after the start", median(vec![cold]), "ms", None));
    let limit = Some(Limit::AtMost(50.0));
    figures.push(figure("first page of the timeline (median)", median(times), "ms", limit));
    figures.push(figure("first page right after a change (median)", median(changed), "ms", None));
    let limit = Some(Limit::AtMost(150.0));
    figures.push(figure(
        "size of the page with scripts and styles",
        weight as f64 / 1e3,
        "KB",
        limit,
    ));
    Ok(())
}

/// Creates a figure, and prints it.
fn figure(what: &'static str, value: f64, unit: &'static str, limit: Option<Limit>) -> Figure {
    let figure = Figure { what, value, unit, limit };
    let limit = match figure.limit {
        None => String::new(),
        Some(Limit::AtLeast(limit)) => format!("at least {limit}"),
        Some(Limit::AtMost(limit)) => format!("at most {limit}"),
    };
    let mark = if figure.is_met() { "" } else { "  MISSED" };
    println!("{what:<48} {value:>10.1} {unit:<5} {limit}{mark}");
    figure
}

fn find_workspace(page: &str) -> Result<String, Failure> {
    let id = page.split("\"/w/").nth(1).and_then(|rest| rest.get(..16));
    id.map(str::to_owned).ok_or_else(|| "the page names no workspace".into())
}

/// Finds the files that a page refers to.
fn find_assets(page: &str) -> Vec<String> {
    let addresses = page.split('"').filter(|part| part.starts_with("/assets/"));
    addresses.map(str::to_owned).collect()
}

/// Finds the scripts that a script imports when it is loaded.
fn find_imports(script: &str) -> Vec<String> {
    let imports = script.lines().filter(|line| line.starts_with("import "));
    let names = imports.filter_map(|line| line.split("from \"./").nth(1)?.split('"').next());
    names.map(|name| format!("/assets/{name}")).collect()
}

/// Compares the rate at which takeback answers list requests with the rate of a bare server.
fn measure_rates(
    program: &Path,
    home: &Path,
    options: &Options,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let served = Served::start(program, home)?;
    let hello = hello::start()?;
    let header = format!("authorization: Bearer {}\r\n", served.token);
    let list = format!("/api/v1/checkpoints?limit={ROWS}");
    let time = Duration::from_secs(if options.quick { 1 } else { 3 });
    let mut rates: Vec<(f64, f64)> = Vec::new();
    // The two servers are measured alternately, so that other load on the machine affects both
    // alike.
    for _ in 0..if options.quick { 3 } else { 5 } {
        let bare = client::measure_rate(hello, "/", "", time)?;
        rates.push((bare, client::measure_rate(served.port, &list, &header, time)?));
    }
    rates.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (bare, own) = rates[rates.len() / 2];
    figures.push(figure("bare axum hello", bare, "/s", None));
    figures.push(figure("list of 50 rows", own, "/s", None));
    let limit = Some(Limit::AtLeast(30.0));
    figures.push(figure(
        "list of 50 rows, relative to bare axum hello",
        own / bare * 100.0,
        "%",
        limit,
    ));
    Ok(())
}
