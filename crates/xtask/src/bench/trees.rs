//! The trees that are captured: generated trees that resemble source code, and a real one.

use std::fs;
use std::path::{Path, PathBuf};

use super::scratch::{Scratch, io_failure};
use crate::Failure;
use crate::random::Random;

/// The shape of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// This many generated source files.
    Source(usize),
    /// 10,000 generated source files and 30,000 ignored files.
    Ignored,
    /// Crates from cargo's registry.
    Real,
}

const REAL_FILES: usize = 6_500;
const IGNORED_FILES: usize = 30_000;
const FILES_IN_DIRECTORY: usize = 10;
const DEEPEST: usize = 6;

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Source(1_000) => "1000",
            Shape::Source(10_000) => "10000",
            Shape::Source(50_000) => "50000",
            Shape::Source(_) => "source",
            Shape::Ignored => "10000+ignored",
            Shape::Real => "real",
        }
    }
}

/// A tree that is edited and captured.
pub(crate) struct Tree {
    pub(crate) shape: Shape,
    pub(crate) root: PathBuf,
    /// The files that are to be captured, sorted.
    pub(crate) files: Vec<PathBuf>,
    random: Random,
    edits: u64,
    next_edit: usize,
}

impl Tree {
    /// Creates the tree. Returns `None` if that is not possible on this machine.
    pub(crate) fn create(shape: Shape, scratch: &Scratch) -> Result<Option<Tree>, Failure> {
        let root = scratch.fresh_path(&format!("tree-{}", shape.name()));
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut files = match shape {
            Shape::Source(count) => make_source(&root, count, &mut random)?,
            Shape::Ignored => {
                let files = make_source(&root, 10_000, &mut random)?;
                make_ignored(&root, &mut random)?;
                files
            }
            Shape::Real => match copy_crates(&root)? {
                Some(files) => files,
                None => return Ok(None),
            },
        };
        files.sort();
        // This makes the tree a separate workspace, even inside a repository.
        let mark = root.join(".hg");
        fs::create_dir_all(&mark).map_err(io_failure("create", &mark))?;
        rustix::fs::sync();
        Ok(Some(Tree { shape, root, files, random, edits: 0, next_edit: 0 }))
    }

    /// Changes a line in each of `count` files. The files differ from call to call.
    pub(crate) fn edit_files(&mut self, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            // Stepping by a prime number visits all files in turn.
            self.next_edit = (self.next_edit + 7_919) % self.files.len();
            let path = &self.files[self.next_edit];
            let mut text = fs::read(path).map_err(io_failure("read", path))?;
            let at = self.random.below(text.len().max(1));
            let line_end = |from: usize| {
                text[from..].iter().position(|byte| *byte == b'\n').map(|end| from + end + 1)
            };
            let start = line_end(at).unwrap_or(0);
            let end = line_end(start).unwrap_or(text.len());
            self.edits += 1;
            let line = format!("// {} {}\n", WORDS[self.random.below(WORDS.len())], self.edits);
            text.splice(start..end, line.into_bytes());
            fs::write(path, text).map_err(io_failure("write", path))?;
        }
        Ok(())
    }
}

/// Returns the length of a file in bytes. Half of the files are shorter than 3.5 KB, and a few are
/// far longer.
fn random_length(random: &mut Random) -> usize {
    random.log_normal(3_500.0, 1.0).clamp(40.0, 200_000.0) as usize
}

pub(crate) const WORDS: [&str; 96] = [
    "account", "action", "active", "address", "amount", "append", "array", "async", "batch",
    "begin", "block", "buffer", "builder", "cache", "callback", "cancel", "channel", "check",
    "child", "client", "close", "column", "commit", "config", "connect", "content", "context",
    "count", "create", "current", "cursor", "data", "decode", "default", "delete", "depth",
    "digest", "duration", "element", "encode", "entry", "error", "event", "field", "filter",
    "first", "format", "frame", "graph", "group", "handler", "header", "height", "index", "input",
    "insert", "invoice", "item", "length", "limit", "list", "lookup", "message", "method", "model",
    "module", "node", "number", "offset", "option", "order", "output", "parent", "parse", "path",
    "payload", "pending", "pointer", "price", "process", "query", "queue", "range", "reader",
    "record", "request", "result", "route", "schema", "session", "state", "stream", "string",
    "table", "token", "value",
];

fn make_source(root: &Path, count: usize, random: &mut Random) -> Result<Vec<PathBuf>, Failure> {
    let directories = make_directories(root, count / FILES_IN_DIRECTORY, random)?;
    let mut files = Vec::with_capacity(count);
    for number in 0..count {
        let directory = &directories[random.below(directories.len())];
        let (word, extension) = (random.below(WORDS.len()), random.below(4));
        let extension = ["rs", "py", "ts", "go"][extension];
        let path = directory.join(format!("{}_{number}.{extension}", WORDS[word]));
        let length = random_length(random);
        fs::write(&path, make_source_text(length, random)).map_err(io_failure("write", &path))?;
        files.push(path);
    }
    Ok(files)
}

fn make_directories(
    root: &Path,
    count: usize,
    random: &mut Random,
) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(root).map_err(io_failure("create", root))?;
    let mut directories = vec![(root.to_owned(), 0)];
    while directories.len() < count {
        let (parent, depth) = &directories[random.below(directories.len())];
        if *depth == DEEPEST - 1 {
            continue;
        }
        let name = format!("{}{}", WORDS[random.below(WORDS.len())], directories.len());
        let (path, depth) = (parent.join(name), depth + 1);
        fs::create_dir(&path).map_err(io_failure("create", &path))?;
        directories.push((path, depth));
    }
    Ok(directories.into_iter().map(|(path, _)| path).collect())
}

/// Creates files like those that a package manager installs.
fn make_ignored(root: &Path, random: &mut Random) -> Result<(), Failure> {
    let ignore = root.join(".gitignore");
    fs::write(&ignore, "node_modules/\n*.tmp\n").map_err(io_failure("write", &ignore))?;
    let count = IGNORED_FILES / FILES_IN_DIRECTORY;
    let directories = make_directories(&root.join("node_modules"), count, random)?;
    for number in 0..IGNORED_FILES {
        let directory = &directories[random.below(directories.len())];
        let path = directory.join(format!("{}{number}.js", WORDS[random.below(WORDS.len())]));
        fs::write(&path, make_source_text(600, random)).map_err(io_failure("write", &path))?;
    }
    Ok(())
}

/// Generates text that looks and compresses like source code. Each file has its own small
/// vocabulary.
fn make_source_text(length: usize, random: &mut Random) -> Vec<u8> {
    let names: Vec<String> = (0..12 + random.below(30))
        .map(|_| {
            let parts = 1 + random.below(3);
            let parts: Vec<&str> = (0..parts).map(|_| WORDS[random.below(WORDS.len())]).collect();
            parts.join("_")
        })
        .collect();
    let mut text = String::with_capacity(length + 200);
    let mut indent = 0usize;
    while text.len() < length {
        // This picks the smaller of two numbers, so that some names are used far more often than
        // others.
        let mut name = || names[random.below(names.len()).min(random.below(names.len()))].as_str();
        let (a, b, c) = (name(), name(), name());
        let number = random.next_number();
        let margin = "    ".repeat(indent);
        let line = match number % 12 {
            0 if indent < 2 => {
                format!("\n{margin}fn {a}_{b}({c}: &{b}, {a}: usize) -> Result<{c}> {{\n")
            }
            1 if indent < 4 => format!("{margin}if {a}.{b}() > {} {{\n", number >> 8 & 0xfff),
            2 if indent < 4 => format!("{margin}for {a} in {b}.iter() {{\n"),
            0..=3 if indent > 0 => {
                indent -= 1;
                text.push_str(&"    ".repeat(indent));
                text.push_str("}\n");
                continue;
            }
            4 => format!(
                "{margin}// The {} of the {a} is {} when the {b} has {}.\n",
                WORDS[(number >> 8) as usize % 96],
                WORDS[(number >> 16) as usize % 96],
                WORDS[(number >> 24) as usize % 96]
            ),
            5 | 6 => format!("{margin}let {a} = {b}.{c}({});\n", number >> 8 & 0xffff),
            7 | 8 => format!(
                "{margin}{a}.{b}(\"{} {c} {:x}\");\n",
                WORDS[(number >> 8) as usize % 96],
                number >> 16 & 0xffffff
            ),
            9 => format!("{margin}self.{a}.push({b}.{c}()?);\n"),
            10 => format!("{margin}return Err({a}({b}, {}));\n", number >> 8 & 0xff),
            _ => format!("{margin}let mut {c}: {a} = {b}::new({c}, {a});\n"),
        };
        if line.ends_with("{\n") {
            indent += 1;
        }
        text.push_str(&line);
    }
    text.into_bytes()
}

/// Copies crates from cargo's registry.
fn copy_crates(root: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(registry) = home.map(|home| home.join("registry/src")) else { return Ok(None) };
    let mut crates: Vec<PathBuf> =
        list_entries(&registry).iter().flat_map(|index| list_entries(index)).collect();
    crates.sort();
    let mut files = Vec::new();
    for from in crates {
        if files.len() >= REAL_FILES {
            break;
        }
        let to = root.join(from.file_name().unwrap_or_default());
        copy_files(&from, &to, &mut files)?;
    }
    Ok((files.len() > 500).then_some(files))
}

fn list_entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn copy_files(from: &Path, to: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let metadata = fs::symlink_metadata(from).map_err(io_failure("look at", from))?;
    if metadata.is_dir() {
        fs::create_dir_all(to).map_err(io_failure("create", to))?;
        for entry in list_entries(from) {
            copy_files(&entry, &to.join(entry.file_name().unwrap_or_default()), files)?;
        }
    } else if metadata.is_file() {
        fs::copy(from, to).map_err(io_failure("copy", from))?;
        files.push(to.to_owned());
    }
    Ok(())
}
