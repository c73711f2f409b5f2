//! `cargo xtask bench ledger`: the ledger next to Hermes's state database, on the same messages in
//! the same run. `synchronous = NORMAL` everywhere.

mod corpus;
mod figures;
mod languages;
mod ours;
mod python;
mod searches;
mod writers;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use super::process;
use super::scratch::{Scratch, failed, size};
use super::takeback::explain;
use super::{Options, build_and_bench, is_measured_build, this_program};
use crate::Failure;
use crate::run::target_directory;
use corpus::{Corpus, Message};
use figures::{Figures, HERMES, Latencies, PLAIN, TAKEBACK};
use python::Contender;
pub(crate) use writers::{WRITER, write};

/// How much of everything.
struct Amounts {
    fill: usize,
    append: usize,
    /// Hermes is slow; but after every thousandth append it merges its indexes, which is to be
    /// part of the time as often as it is in life.
    append_hermes: usize,
    seconds: u64,
    /// How far the ledger grows for the last searches.
    grown: Option<usize>,
}

const FULL: Amounts = Amounts {
    fill: 100_000,
    append: 5_000,
    append_hermes: 1_000,
    seconds: 60,
    grown: Some(1_000_000),
};

const QUICK: Amounts =
    Amounts { fill: 20_000, append: 1_000, append_hermes: 1_000, seconds: 5, grown: None };

struct Bench<'s> {
    amounts: Amounts,
    scratch: &'s Scratch,
    target: &'s Path,
    corpus: Corpus,
    figures: Figures,
}

pub(crate) fn bench(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    if let Some(filter) = options.filters.first() {
        return Err(format!("unknown option {filter}"));
    }
    if !is_measured_build(&this_program()?) {
        return build_and_bench(&["xtask"], &["ledger"], arguments);
    }
    let target = &target_directory();
    let scratch = Scratch::new(&target.join("bench"), options.keep)?;
    let amounts = if options.quick { QUICK } else { FULL };
    let (corpus, figures) = (Corpus::new(), Figures::default());
    let mut bench = Bench { amounts, scratch: &scratch, target, corpus, figures };
    if options.quick {
        bench
            .figures
            .note(format!("--quick: {} messages; the targets are for {}", QUICK.fill, FULL.fill));
    }
    let others = process::busy_elsewhere();
    if others > 0.1 {
        let percent = others * 100.0;
        bench.figures.note(format!("others used {percent:.0} % of the machine before this began"));
    }
    let measured = bench.run();
    print!("{}", bench.figures.text());
    if let Some(file) = &options.json {
        fs::write(file, bench.figures.json()).map_err(failed("write", file))?;
    }
    scratch.close();
    measured
}

/// The messages, in memory and as files for the others.
struct Data {
    fill: Vec<Message>,
    append: Vec<Message>,
    fill_file: PathBuf,
    append_file: PathBuf,
    append_hermes_file: PathBuf,
    /// Bytes of text in `fill`.
    bytes: usize,
}

impl Bench<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        self.scratch.say("messages");
        let data = self.data()?;
        self.theirs(&data)?;
        self.ours(&data)
    }

    fn data(&mut self) -> Result<Data, Failure> {
        let fill = self.corpus.take(self.amounts.fill);
        let append = self.corpus.take(self.amounts.append);
        let data = Data {
            fill_file: self.file("fill.jsonl", &fill)?,
            append_file: self.file("append.jsonl", &append)?,
            append_hermes_file: self
                .file("append-hermes.jsonl", &append[..self.amounts.append_hermes])?,
            bytes: fill.iter().map(Message::length).sum(),
            fill,
            append,
        };
        self.figures.add("data", "all", "messages", data.fill.len() as f64);
        self.figures.add("data", "all", "MB of text", data.bytes as f64 / 1e6);
        Ok(data)
    }

    fn file(&self, name: &str, messages: &[Message]) -> Result<PathBuf, Failure> {
        let path = self.scratch.fresh(name);
        let file = fs::File::create(&path).map_err(failed("create", &path))?;
        let mut file = std::io::BufWriter::new(file);
        for message in messages {
            writeln!(file, "{}", message.json()).map_err(failed("write", &path))?;
        }
        file.flush().map_err(failed("write", &path))?;
        Ok(path)
    }

    /// A directory for a database and what belongs to it.
    fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.scratch.fresh(name);
        fs::create_dir(&directory).map_err(failed("create", &directory))?;
        Ok(directory)
    }

    fn theirs(&mut self, data: &Data) -> Result<(), Failure> {
        let home = self.directory("hermes-home")?;
        let contenders =
            [(PLAIN, Contender::plain(&home)), (HERMES, Contender::hermes(self.target, &home))];
        for (name, contender) in contenders {
            match contender {
                Some(contender) => self.measure_theirs(&contender, data)?,
                None => self.figures.note(format!("{name}: not available here, skipped")),
            }
        }
        Ok(())
    }

    fn measure_theirs(&mut self, contender: &Contender, data: &Data) -> Result<(), Failure> {
        let who = contender.name;
        let directory = self.directory(who)?;
        let database = directory.join("state.db");

        self.scratch.say(&format!("{who}: fill"));
        let filled = python::answer(contender.driver("fill", &database).arg(&data.fill_file))?;
        let seconds = filled["seconds"].as_f64().unwrap_or(f64::NAN);
        self.figures.add("fill", who, "s (in bulk)", seconds);
        self.report_size(who, &directory, data)?;

        self.scratch.say(&format!("{who}: append"));
        rustix::fs::sync();
        let file = if who == HERMES { &data.append_hermes_file } else { &data.append_file };
        let appended = python::answer(contender.driver("append", &database).arg(file))?;
        let latencies = appended["latencies_ms"].as_array().into_iter().flatten();
        let latencies = Latencies::new(latencies.filter_map(Value::as_f64).collect());
        self.report_appends("append", who, &latencies);

        self.scratch.say(&format!("{who}: {} writers", writers::WRITERS));
        rustix::fs::sync();
        let (written, counts) =
            writers::theirs(contender, &database, &data.append_file, self.amounts.seconds)?;
        written.report(&mut self.figures, who, &counts);
        Ok(())
    }

    fn ours(&mut self, data: &Data) -> Result<(), Failure> {
        let directory = self.directory(TAKEBACK)?;
        let database = directory.join("ledger.db");

        self.scratch.say("takeback: fill");
        rustix::fs::sync();
        let filled = ours::append_each(&mut ours::open(&database)?, &data.fill)?;
        self.report_appends("fill", TAKEBACK, &filled);
        self.report_size(TAKEBACK, &directory, data)?;

        self.scratch.say("takeback: append");
        rustix::fs::sync();
        let appended = ours::append_each(&mut ours::open(&database)?, &data.append)?;
        self.report_appends("append", TAKEBACK, &appended);

        self.scratch.say("takeback: search");
        let classes = searches::classes(&data.fill);
        let mut ledger = ours::open(&database)?;
        searches::measure(&mut ledger, &classes, false, &mut self.figures)?;
        drop(ledger);
        searches::measure_opening(&database, &classes, &mut self.figures)?;

        self.measure_our_writers(&directory, data)?;
        self.measure_grown(&directory, data, &classes)
    }

    /// In a copy: what they write is no part of the data.
    fn measure_our_writers(&mut self, directory: &Path, data: &Data) -> Result<(), Failure> {
        self.scratch.say(&format!("takeback: {} writers", writers::WRITERS));
        let copy = self.directory("takeback-writers")?;
        for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
            let entry = entry.map_err(failed("list", directory))?;
            fs::copy(entry.path(), copy.join(entry.file_name()))
                .map_err(failed("copy", &entry.path()))?;
        }
        rustix::fs::sync();
        let (written, counts) =
            writers::ours(&copy.join("ledger.db"), &data.append_file, self.amounts.seconds)?;
        written.report(&mut self.figures, TAKEBACK, &counts);
        Ok(())
    }

    fn measure_grown(
        &mut self,
        directory: &Path,
        data: &Data,
        classes: &[searches::Class],
    ) -> Result<(), Failure> {
        let Some(grown) = self.amounts.grown else { return Ok(()) };
        self.scratch.say(&format!("takeback: growing to {grown}"));
        let so_far = data.fill.len() + data.append.len();
        let start = Instant::now();
        let mut ledger = ours::open(&directory.join("ledger.db"))?;
        let bytes = ours::grow(&mut ledger, &mut self.corpus, grown - so_far)?;
        self.figures.add("grow", TAKEBACK, "s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        ledger.optimize(&|_| {}).map_err(explain)?;
        self.figures.add("grow", TAKEBACK, "s for optimize", start.elapsed().as_secs_f64());
        let appended: usize = data.append.iter().map(Message::length).sum();
        let text = (bytes + data.bytes + appended) as f64;
        let takes = size(directory)?.apparent as f64;
        self.figures.add("grow", TAKEBACK, "MB", takes / 1e6);
        self.figures.add("grow", TAKEBACK, "× the text", takes / text);
        self.scratch.say("takeback: search");
        searches::measure(&mut ledger, classes, true, &mut self.figures)
    }

    fn report_appends(&mut self, stage: &'static str, who: &'static str, latencies: &Latencies) {
        self.figures.add(stage, who, "/s", latencies.rate());
        self.figures.add(stage, who, "/s without the longest", latencies.rate_without_longest());
        self.figures.latencies(stage, who, latencies);
    }

    fn report_size(
        &mut self,
        who: &'static str,
        directory: &Path,
        data: &Data,
    ) -> Result<(), Failure> {
        let takes = size(directory)?.apparent as f64;
        self.figures.add("fill", who, "MB", takes / 1e6);
        self.figures.add("fill", who, "× the text", takes / data.bytes as f64);
        Ok(())
    }
}
