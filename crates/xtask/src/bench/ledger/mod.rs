//! `cargo xtask bench ledger`: compares the ledger with Hermes's state database, using the same
//! messages in the same run. All contenders use `synchronous = NORMAL`.

pub(crate) mod corpus;
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
use super::scratch::{Scratch, io_failure, measure_size};
use super::takeback::explain_error;
use super::{Options, build_and_bench, is_measured_build, this_program};
use crate::Failure;
use crate::run::target_directory;
use corpus::{Corpus, Message};
pub(crate) use figures::Latencies;
use figures::{Figures, HERMES, PLAIN, TAKEBACK};
use python::Contender;
pub(crate) use writers::{WRITER, run_writer};

/// The amount of work in each stage.
struct Amounts {
    fill: usize,
    append: usize,
    /// The number of appends for Hermes. It is smaller because Hermes is slow. Hermes merges its
    /// indexes after every thousandth append, so a thousand appends include one merge, as they do
    /// in real use.
    append_hermes: usize,
    seconds: u64,
    /// The number of messages to which the ledger grows for the last searches.
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

pub(crate) fn bench_ledger(arguments: &[&str]) -> Result<(), Failure> {
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
        bench.figures.add_note(format!(
            "--quick: {} messages; the targets are for {}",
            QUICK.fill, FULL.fill
        ));
    }
    let others = process::busy_elsewhere();
    if others > 0.1 {
        let percent = others * 100.0;
        bench
            .figures
            .add_note(format!("other processes used {percent:.0}% of the machine before this run"));
    }
    let measured = bench.run_stages();
    print!("{}", bench.figures.to_text());
    if let Some(file) = &options.json {
        fs::write(file, bench.figures.to_json()).map_err(io_failure("write", file))?;
    }
    scratch.delete_all();
    measured
}

/// The messages: in memory for takeback, and in files for the other contenders.
struct Data {
    fill: Vec<Message>,
    append: Vec<Message>,
    fill_file: PathBuf,
    append_file: PathBuf,
    append_hermes_file: PathBuf,
    /// The number of bytes of text in `fill`.
    bytes: usize,
}

impl Bench<'_> {
    fn run_stages(&mut self) -> Result<(), Failure> {
        self.scratch.announce("messages");
        let data = self.make_data()?;
        self.measure_all_theirs(&data)?;
        self.measure_ours(&data)
    }

    fn make_data(&mut self) -> Result<Data, Failure> {
        let fill = self.corpus.take_messages(self.amounts.fill);
        let append = self.corpus.take_messages(self.amounts.append);
        let data = Data {
            fill_file: self.write_messages("fill.jsonl", &fill)?,
            append_file: self.write_messages("append.jsonl", &append)?,
            append_hermes_file: self
                .write_messages("append-hermes.jsonl", &append[..self.amounts.append_hermes])?,
            bytes: fill.iter().map(Message::text_length).sum(),
            fill,
            append,
        };
        self.figures.add("data", "all", "messages", data.fill.len() as f64);
        self.figures.add("data", "all", "MB of text", data.bytes as f64 / 1e6);
        Ok(data)
    }

    fn write_messages(&self, name: &str, messages: &[Message]) -> Result<PathBuf, Failure> {
        let path = self.scratch.fresh_path(name);
        let file = fs::File::create(&path).map_err(io_failure("create", &path))?;
        let mut file = std::io::BufWriter::new(file);
        for message in messages {
            writeln!(file, "{}", message.to_json()).map_err(io_failure("write", &path))?;
        }
        file.flush().map_err(io_failure("write", &path))?;
        Ok(path)
    }

    /// Creates a directory for a database and the files beside it.
    fn create_directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.scratch.fresh_path(name);
        fs::create_dir(&directory).map_err(io_failure("create", &directory))?;
        Ok(directory)
    }

    fn measure_all_theirs(&mut self, data: &Data) -> Result<(), Failure> {
        let home = self.create_directory("hermes-home")?;
        let contenders = [
            (PLAIN, Contender::find_plain(&home)),
            (HERMES, Contender::find_hermes(self.target, &home)),
        ];
        for (name, contender) in contenders {
            match contender {
                Some(contender) => self.measure_theirs(&contender, data)?,
                None => self.figures.add_note(format!("{name}: skipped, not available")),
            }
        }
        Ok(())
    }

    fn measure_theirs(&mut self, contender: &Contender, data: &Data) -> Result<(), Failure> {
        let who = contender.name;
        let directory = self.create_directory(who)?;
        let database = directory.join("state.db");

        self.scratch.announce(&format!("{who}: fill"));
        let filled =
            python::read_answer(contender.driver_command("fill", &database).arg(&data.fill_file))?;
        let seconds = filled["seconds"].as_f64().unwrap_or(f64::NAN);
        self.figures.add("fill", who, "s (in bulk)", seconds);
        self.report_size(who, &directory, data)?;

        self.scratch.announce(&format!("{who}: append"));
        rustix::fs::sync();
        let file = if who == HERMES { &data.append_hermes_file } else { &data.append_file };
        let appended =
            python::read_answer(contender.driver_command("append", &database).arg(file))?;
        let latencies = appended["latencies_ms"].as_array().into_iter().flatten();
        let latencies = Latencies::new(latencies.filter_map(Value::as_f64).collect());
        self.report_appends("append", who, &latencies);

        self.scratch.announce(&format!("{who}: {} writers", writers::WRITERS));
        rustix::fs::sync();
        let (written, counts) = writers::run_their_writers(
            contender,
            &database,
            &data.append_file,
            self.amounts.seconds,
        )?;
        written.add_to(&mut self.figures, who, &counts);
        Ok(())
    }

    fn measure_ours(&mut self, data: &Data) -> Result<(), Failure> {
        let directory = self.create_directory(TAKEBACK)?;
        let database = directory.join("ledger.db");

        self.scratch.announce("takeback: fill");
        rustix::fs::sync();
        let filled = ours::append_each(&mut ours::open_ledger(&database)?, &data.fill)?;
        self.report_appends("fill", TAKEBACK, &filled);
        self.report_size(TAKEBACK, &directory, data)?;

        self.scratch.announce("takeback: append");
        rustix::fs::sync();
        let appended = ours::append_each(&mut ours::open_ledger(&database)?, &data.append)?;
        self.report_appends("append", TAKEBACK, &appended);

        self.scratch.announce("takeback: search");
        let classes = searches::make_classes(&data.fill);
        let mut ledger = ours::open_ledger(&database)?;
        searches::measure_searches(&mut ledger, &classes, false, &mut self.figures)?;
        drop(ledger);
        searches::measure_opening(&database, &classes, &mut self.figures)?;

        self.measure_our_writers(&directory, data)?;
        self.measure_grown(&directory, data, &classes)
    }

    /// Measures the writers on a copy, so that their messages do not become part of the data.
    fn measure_our_writers(&mut self, directory: &Path, data: &Data) -> Result<(), Failure> {
        self.scratch.announce(&format!("takeback: {} writers", writers::WRITERS));
        let copy = self.create_directory("takeback-writers")?;
        for entry in fs::read_dir(directory).map_err(io_failure("list", directory))? {
            let entry = entry.map_err(io_failure("list", directory))?;
            fs::copy(entry.path(), copy.join(entry.file_name()))
                .map_err(io_failure("copy", &entry.path()))?;
        }
        rustix::fs::sync();
        let (written, counts) = writers::run_our_writers(
            &copy.join("ledger.db"),
            &data.append_file,
            self.amounts.seconds,
        )?;
        written.add_to(&mut self.figures, TAKEBACK, &counts);
        Ok(())
    }

    fn measure_grown(
        &mut self,
        directory: &Path,
        data: &Data,
        classes: &[searches::QueryClass],
    ) -> Result<(), Failure> {
        let Some(grown) = self.amounts.grown else { return Ok(()) };
        self.scratch.announce(&format!("takeback: growing to {grown}"));
        let so_far = data.fill.len() + data.append.len();
        let start = Instant::now();
        let mut ledger = ours::open_ledger(&directory.join("ledger.db"))?;
        let bytes = ours::grow_ledger(&mut ledger, &mut self.corpus, grown - so_far)?;
        self.figures.add("grow", TAKEBACK, "s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        ledger.optimize(&|_| {}).map_err(explain_error)?;
        self.figures.add("grow", TAKEBACK, "s for optimize", start.elapsed().as_secs_f64());
        let appended: usize = data.append.iter().map(Message::text_length).sum();
        let text = (bytes + data.bytes + appended) as f64;
        let takes = measure_size(directory)?.apparent as f64;
        self.figures.add("grow", TAKEBACK, "MB", takes / 1e6);
        self.figures.add("grow", TAKEBACK, "× the text", takes / text);
        self.scratch.announce("takeback: search");
        searches::measure_searches(&mut ledger, classes, true, &mut self.figures)
    }

    fn report_appends(&mut self, stage: &'static str, who: &'static str, latencies: &Latencies) {
        self.figures.add(stage, who, "/s", latencies.rate());
        self.figures.add(stage, who, "/s without the longest", latencies.rate_without_longest());
        self.figures.add_latencies(stage, who, latencies);
    }

    fn report_size(
        &mut self,
        who: &'static str,
        directory: &Path,
        data: &Data,
    ) -> Result<(), Failure> {
        let takes = measure_size(directory)?.apparent as f64;
        self.figures.add("fill", who, "MB", takes / 1e6);
        self.figures.add("fill", who, "× the text", takes / data.bytes as f64);
        Ok(())
    }
}
