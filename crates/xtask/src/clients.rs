//! `cargo xtask test-clients`: tests the Python and TypeScript clients and their examples with the
//! real program, and runs the type checkers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::agents::{AgentCache, FetchError};
use crate::results::Tally;
use crate::run::{cargo, is_success, repository, run_step, target_directory};

/// The versions of the type checkers and of the packages that they need.
const MYPY: &str = "1.20.2";
const TYPESCRIPT: &str = "7.0.2";
const NODE_TYPES: &str = "20.19.43";

/// LangGraph, and its test suite for checkpointers.
const LANGGRAPH: [&str; 2] = ["langgraph==1.2.22", "langgraph-checkpoint-conformance==0.0.2"];

/// The oldest Node that the TypeScript client supports.
const OLDEST_NODE: u32 = 20;

/// A step of the tests: its name, and its outcome or the reason why it was skipped.
type Step = (&'static str, Result<Option<&'static str>, Failure>);

/// Runs `cargo xtask test-clients`.
pub(crate) fn test_clients() -> Result<(), Failure> {
    let packages = ["--package", "takeback", "--package", "xtask", "--all-features"];
    run_step(cargo().arg("build").args(packages))?;
    let mut tally = Tally::default();
    let outcome = test_built_clients(&mut tally);
    eprintln!("\n{tally}");
    outcome
}

/// Tests the clients. Takeback must already have been built.
pub(crate) fn test_built_clients(tally: &mut Tally) -> Result<(), Failure> {
    let setup = Setup {
        scratch: target_directory().join("clients"),
        temporary: std::env::temp_dir().join(format!("takeback-clients-{}", std::process::id())),
    };
    for directory in [&setup.scratch, &setup.temporary] {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    }
    let mut failures = Vec::new();
    let steps = setup.test_python().into_iter().chain(setup.test_langgraph());
    for (name, outcome) in steps.chain(setup.test_typescript()) {
        match outcome {
            Ok(None) => tally.add_passed(),
            Ok(Some(reason)) => tally.add_skipped(name, reason),
            Err(failure) => {
                tally.add_failed();
                failures.push(format!("\n{name}:{failure}"));
            }
        }
    }
    // Background processes of takeback may still be writing. Files that they leave behind do no
    // harm.
    let _ = fs::remove_dir_all(&setup.temporary);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("")) }
}

/// Fetches the type checkers in the background. Problems are reported later, when the type checkers
/// are needed.
pub(crate) fn fetch_checkers() {
    let _ = fetch_mypy();
    let _ = fetch_langgraph();
    if let Ok(cache) = AgentCache::new() {
        let _ = fetch_compiler(&cache);
    }
}

/// The environment of the tests.
struct Setup {
    /// The directory for compiled files.
    scratch: PathBuf,
    /// The directory for the projects of the tests. It must be outside this repository, which would
    /// otherwise be the workspace.
    temporary: PathBuf,
}

impl Setup {
    /// Prepares a command that runs in a client's directory with the built program.
    fn command(&self, program: impl AsRef<Path>, directory: &Path) -> Command {
        let mut command = Command::new(program.as_ref());
        let built = target_directory().join("debug").join("takeback");
        command.current_dir(directory).env("TAKEBACK", built).env("REPOSITORY", repository());
        command.env("TMPDIR", &self.temporary);
        command
    }

    fn test_python(&self) -> Vec<Step> {
        let (tests, types) = ("the Python client", "the types of the Python client");
        if !is_success(Command::new("python3").arg("--version")) {
            let reason = "python3 is not installed";
            return vec![(tests, Ok(Some(reason))), (types, Ok(Some(reason)))];
        }
        let client = repository().join("clients/python");
        let run = |words: &[&str]| {
            let mut python = self.command("python3", &client);
            python.env("PYTHONPATH", "src").env("PYTHONDONTWRITEBYTECODE", "1");
            run_step(python.args(words)).map(|()| None)
        };
        let tested = run(&["-m", "unittest", "discover", "--start-directory", "tests"]);
        let example = run(&["../../examples/python/agent.py"]);
        let checked = match fetch_mypy() {
            Some(mypy) => {
                let mut mypy = self.command(mypy, &client);
                mypy.arg("--cache-dir").arg(self.scratch.join("mypy"));
                mypy.args(["--python-version", "3.9", "src", "tests", "../../examples/python"]);
                run_step(&mut mypy).map(|()| None)
            }
            None => Ok(Some("mypy cannot be installed")),
        };
        vec![(tests, tested), ("the Python example", example), (types, checked)]
    }

    /// Tests the checkpointer for LangGraph, with LangGraph's own test suite and with real graphs.
    fn test_langgraph(&self) -> Vec<Step> {
        let name = "the LangGraph checkpointer";
        let Some(environment) = fetch_langgraph() else {
            return vec![(name, Ok(Some("LangGraph cannot be installed")))];
        };
        let client = repository().join("clients/python-langgraph");
        let mut python = self.command(environment.join("bin/python"), &client);
        python.env("PYTHONPATH", "src:../python/src:tests").env("PYTHONDONTWRITEBYTECODE", "1");
        python.args(["-m", "unittest", "discover", "--start-directory", "tests"]);
        vec![(name, run_step(&mut python).map(|()| None))]
    }

    fn test_typescript(&self) -> Vec<Step> {
        let name = "the TypeScript client";
        let found = AgentCache::new().map_err(FetchError::Failed).and_then(|cache| {
            let compiler = fetch_compiler(&cache)?;
            let node = cache.find_node(OLDEST_NODE);
            Ok((compiler, node.ok_or(FetchError::Unavailable("there is no Node 20 or later"))?))
        });
        let (compiler, node) = match found {
            Ok(found) => found,
            Err(FetchError::Unavailable(reason)) => return vec![(name, Ok(Some(reason)))],
            Err(FetchError::Failed(failure)) => return vec![(name, Err(failure))],
        };
        let client = repository().join("clients/typescript");
        let types = "the types of the TypeScript client";
        if let Err(failure) = self.build_typescript(&compiler, &client) {
            return vec![(types, Err(failure))];
        }
        let run = |words: &[PathBuf]| {
            let mut command = self.command(&node, &client);
            command.env("CHECKS", self.typescript().join("checks.ts")).args(words);
            run_step(&mut command).map(|()| None)
        };
        let built = self.typescript().join("clients/typescript/test");
        let tests =
            ["agent", "connection", "protocol"].map(|name| built.join(format!("{name}.test.js")));
        let tested = run(&[&["--test".into()], &tests[..]].concat());
        let example = run(&[self.typescript().join("examples/typescript/agent.js")]);
        let checked = self.check_readme_and_answers(&compiler, &client);
        let readme = match checked {
            Ok(()) => self.run_readme(&node).map(|()| None),
            Err(failure) => Err(failure),
        };
        vec![
            (types, Ok(None)),
            (name, tested),
            ("the TypeScript example", example),
            ("the TypeScript README, and the types of takeback's answers", readme),
        ]
    }

    /// Returns the directory that TypeScript is compiled into.
    fn typescript(&self) -> PathBuf {
        self.scratch.join("typescript")
    }

    /// Compiles the client, its tests and the example.
    fn build_typescript(&self, compiler: &Compiler, client: &Path) -> Result<(), Failure> {
        // The example imports the client by the name of its package.
        let package = self.typescript().join("node_modules/takeback-client");
        let index = "export * from \"../../clients/typescript/src/index.js\";\n";
        write_file(&self.typescript().join("package.json"), "{\"type\": \"module\"}\n")?;
        write_file(
            &package.join("package.json"),
            "{\"type\": \"module\", \"main\": \"index.js\"}\n",
        )?;
        write_file(&package.join("index.js"), index)?;
        write_file(&package.join("index.d.ts"), index)?;
        let mut tsc = compiler.command(client);
        tsc.args(["--project", "tsconfig.test.json", "--outDir"]).arg(self.typescript());
        run_step(&mut tsc)
    }

    /// Compiles the example in the README, and the file in which the tests have recorded real
    /// answers of the program.
    fn check_readme_and_answers(&self, compiler: &Compiler, client: &Path) -> Result<(), Failure> {
        let readme = fs::read_to_string(client.join("README.md"));
        let readme = readme.map_err(|error| format!("\ncannot read the README: {error}"))?;
        let code = readme.split("```ts\n").nth(1).and_then(|rest| rest.split("```").next());
        let code = code.ok_or("\nthe README has no example")?;
        write_file(&self.typescript().join("readme.ts"), code)?;
        let tsc = || {
            let mut tsc = compiler.command(&self.typescript());
            tsc.args(["--strict", "--exactOptionalPropertyTypes", "--target", "es2022"]);
            tsc.args(["--lib", "es2023,esnext.disposable", "--module", "nodenext"]);
            tsc.args(["--types", "node"]);
            tsc
        };
        run_step(tsc().arg("readme.ts"))?;
        // `checks.ts` imports the client's own sources, so the compiler must not write any output.
        run_step(tsc().args(["--noEmit", "checks.ts"]))
    }

    /// Runs the example in the README. The example deletes files, and takes the deletion back.
    fn run_readme(&self, node: &Path) -> Result<(), Failure> {
        let project = self.temporary.join("readme");
        let file = project.join("src/old/file");
        write_file(&file, "mine\n")?;
        let mut command = self.command(node, &project);
        let own = std::env::var("PATH").unwrap_or_default();
        let programs = target_directory().join("debug");
        command.env("PATH", format!("{}:{own}", programs.display()));
        command.env("HOME", &self.temporary);
        run_step(command.arg(self.typescript().join("readme.js")))?;
        match fs::read_to_string(&file) {
            Ok(text) if text == "mine\n" => Ok(()),
            _ => Err("\nthe example in the README did not restore its file".into()),
        }
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, text)
    };
    write().map_err(|error| format!("\ncannot write {}: {error}", path.display()))
}

/// The TypeScript compiler, and the types of Node.
struct Compiler {
    program: PathBuf,
    types: PathBuf,
}

impl Compiler {
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(directory).arg("--typeRoots").arg(&self.types);
        command
    }
}

fn fetch_compiler(cache: &AgentCache) -> Result<Compiler, FetchError> {
    let compiler = cache.install_package("typescript", "typescript", TYPESCRIPT)?;
    let types = cache.install_package("node-types", "@types/node", NODE_TYPES)?;
    Ok(Compiler {
        program: compiler.join("node_modules/.bin/tsc"),
        types: types.join("node_modules/@types"),
    })
}

/// Installs mypy, unless it is already installed.
fn fetch_mypy() -> Option<PathBuf> {
    let environment = install_from_pypi("mypy", MYPY, &[&format!("mypy=={MYPY}")])?;
    Some(environment.join("bin/mypy"))
}

/// Installs LangGraph, unless it is already installed. Returns the directory of its environment.
fn fetch_langgraph() -> Option<PathBuf> {
    install_from_pypi("langgraph", &LANGGRAPH.join("-").replace('=', ""), &LANGGRAPH)
}

/// Installs packages into an environment of their own, unless they are already installed. Returns
/// the directory of the environment.
pub(crate) fn install_from_pypi(name: &str, version: &str, packages: &[&str]) -> Option<PathBuf> {
    let environment = target_directory().join("tools").join(format!("{name}-{version}"));
    // If the installation was cut off, this file does not exist.
    let marker = environment.join("installed");
    if marker.exists() {
        return Some(environment);
    }
    let _ = fs::remove_dir_all(&environment);
    run_step(Command::new("python3").args(["-m", "venv"]).arg(&environment)).ok()?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--retries", "1"]).args(packages);
    if run_step(&mut pip).is_err() {
        let _ = fs::remove_dir_all(&environment);
        return None;
    }
    fs::write(marker, "").ok()?;
    Some(environment)
}
