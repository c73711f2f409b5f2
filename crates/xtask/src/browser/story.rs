//! A realistic history: three agents, three workspaces, several days, and an incident.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::picture;
use super::served::program;
use crate::Failure;
use crate::run::is_success;

/// One turn of an agent.
struct Turn {
    /// The age of the turn in minutes.
    age: u32,
    workspace: &'static str,
    agent: &'static str,
    session: &'static str,
    /// The session that started this one as a subagent.
    parent: Option<&'static str>,
    prompt: &'static str,
    answer: &'static str,
    calls: Vec<Call>,
}

/// A tool call, and what it does to the files.
struct Call {
    tool: &'static str,
    input: Value,
    writes: Vec<(String, String)>,
    deletes: Vec<&'static str>,
    pictures: Vec<(&'static str, [u8; 3])>,
}

/// The sessions that have a title: the agent, the session, and the title.
const TITLES: [(&str, &str, &str); 7] = [
    ("claude", "c1", "Checkout and cart"),
    ("claude", "c2", "Clean up before the release"),
    ("claude", "c2-a", "Search for unused code"),
    ("claude", "c2-b", "Check the documentation"),
    ("codex", "x1", "Rate limits for the API"),
    ("gemini", "g1", "Landing page"),
    ("codex", "x2", "Flaky tests"),
];

/// The number of turns in the story.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Whole,
    /// Only the incident.
    Short,
}

/// Creates the history in a scratch directory.
pub(crate) fn play_story(base: &Path, length: Length) -> Result<(), Failure> {
    for workspace in ["code/shop", "code/api", "code/site"] {
        let path = base.join(workspace);
        fs::create_dir_all(path.join(".git/objects")).map_err(|error| error.to_string())?;
        write(&path.join(".git/HEAD"), "ref: refs/heads/main\n")?;
        fs::create_dir_all(path.join(".git/refs/heads")).map_err(|error| error.to_string())?;
        write(&path.join(".gitignore"), "node_modules/\n.env\ndist/\n*.sqlite\n")?;
    }
    let shop = base.join("code/shop");
    write(&shop.join("README.md"), README)?;
    write(&shop.join("src/cart.py"), CART.replace("RATE", "1"))?;
    write(&shop.join("src/models.py"), numbered("class Model{}:\n    pass\n\n", 40))?;
    write(
        &shop.join("tests/test_cart.py"),
        numbered("def test_total_{}():\n    assert total([]) == 0\n\n", 12),
    )?;
    write(&shop.join("node_modules/left-pad/index.js"), "module.exports = 1\n")?;
    write(&shop.join(".env"), "STRIPE_KEY=sk_test_do_not_show\n")?;
    for number in 0..14 {
        write(
            &shop.join(format!("src/legacy/report_{number}.py")),
            numbered("def column_{}(row):\n    return row\n\n", 18),
        )?;
    }
    write(&base.join("code/api/server.py"), SERVER)?;
    write(
        &base.join("code/site/index.html"),
        "<!doctype html>\n<title>Shop</title>\n<h1>Hello</h1>\n",
    )?;
    write(&base.join("code/site/images/logo.png"), picture::draw([168, 38, 31]))?;
    let days = if length == Length::Whole { work_days() } else { Vec::new() };
    for turn in days.into_iter().chain(incident()) {
        turn.play(base)?;
    }
    Ok(())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let parent = path.parent().expect("the path has a directory");
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, content));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Repeats a text `count` times, with the number of the repetition in place of `{}`.
fn numbered(text: &str, count: usize) -> String {
    (0..count).map(|number| text.replace("{}", &number.to_string())).collect()
}

impl Turn {
    fn play(&self, base: &Path) -> Result<(), Failure> {
        let directory = base.join(self.workspace);
        let mut rpc = Rpc::start(base, &directory, self.age)?;
        let own = json!({ "agent": self.agent, "session": self.session });
        let with = |fields: Value| {
            let mut params = own.clone();
            for (name, value) in fields.as_object().expect("it is an object") {
                params[name] = value.clone();
            }
            params
        };
        let mut start = with(json!({ "prompt": self.prompt }));
        if let Some(parent) = self.parent {
            start["parent"] = json!(parent);
        }
        rpc.call("turn.start", start)?;
        for (number, call) in self.calls.iter().enumerate() {
            let id = format!("{}-{}-{number}", self.session, self.age);
            let params = with(json!({ "call": id, "tool": call.tool, "input": call.input }));
            rpc.call("tool.before", params.clone())?;
            for (path, content) in &call.writes {
                write(&directory.join(path), content)?;
            }
            for (path, color) in &call.pictures {
                write(&directory.join(path), picture::draw(*color))?;
            }
            for path in &call.deletes {
                let path = directory.join(path);
                let removed =
                    if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            rpc.call("tool.after", params)?;
            let arguments = call.input.to_string();
            let function = json!({ "name": call.tool, "arguments": arguments });
            let messages = json!([
                { "role": "assistant", "tool_calls": [{ "id": id, "type": "function", "function": function }] },
                { "role": "tool", "tool_call_id": id, "tool_name": call.tool, "content": "ok" },
            ]);
            rpc.call("messages.append", with(json!({ "messages": messages })))?;
        }
        let answer = json!([{ "role": "assistant", "content": self.answer }]);
        rpc.call("messages.append", with(json!({ "messages": answer })))?;
        let tokens = 9_000 + i64::from(self.age % 7) * 1_300;
        let usage = json!({ "model": model_of(self.agent), "api_call_count": 4,
            "input_tokens": tokens, "output_tokens": tokens / 9,
            "estimated_cost_usd": tokens as f64 * 6e-6 });
        rpc.call("usage.record", with(json!({ "usage": usage })))?;
        rpc.call("session.set", with(json!({ "model": model_of(self.agent) })))?;
        rpc.call("turn.end", own.clone())?;
        let title = TITLES
            .iter()
            .find(|(agent, session, _)| *agent == self.agent && *session == self.session);
        if let Some((agent, session, title)) = title {
            let params = json!({ "session": format!("{agent}:{session}"), "title": title });
            rpc.call("sessions.title", params)?;
        }
        rpc.end()
    }
}

fn model_of(agent: &str) -> &'static str {
    match agent {
        "claude" => "claude-opus",
        "codex" => "gpt-codex",
        _ => "gemini-pro",
    }
}

/// A running `takeback rpc`, whose clock may be set to an earlier time.
struct Rpc {
    child: std::process::Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Rpc {
    fn start(base: &Path, directory: &Path, age: u32) -> Result<Rpc, Failure> {
        let has_faketime = is_success(Command::new("faketime").args(["-f", "-1h", "true"]));
        let mut command = match has_faketime && age > 0 {
            true => {
                let mut command = Command::new("faketime");
                command.arg("-f").arg(format!("-{}s", age * 60)).arg(program());
                command
            }
            false => Command::new(program()),
        };
        command
            .arg("rpc")
            .env_clear()
            .env("HOME", base)
            .env("TZ", "UTC")
            .env("PATH", "/usr/bin:/bin");
        command
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|error| format!("cannot run takeback rpc: {error}"))?;
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Rpc { child, input, output })
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
    fn call(&mut self, method: &str, params: Value) -> Result<(), Failure> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut line = String::new();
        let sent =
            writeln!(self.input, "{request}").and_then(|()| self.output.read_line(&mut line));
        sent.map_err(|error| format!("{method}: {error}"))?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<(), Failure> {
        let Rpc { mut child, input, .. } = self;
        drop(input);
        child.wait().map(drop).map_err(|error| error.to_string())
    }
}

fn edit(path: &str, content: String) -> Call {
    let input = json!({ "file_path": path });
    let (writes, deletes, pictures) = (vec![(path.to_owned(), content)], Vec::new(), Vec::new());
    Call { tool: "Edit", input, writes, deletes, pictures }
}

fn bash(command: &str, writes: Vec<(String, String)>, deletes: Vec<&'static str>) -> Call {
    Call {
        tool: "Bash",
        input: json!({ "command": command }),
        writes,
        deletes,
        pictures: Vec::new(),
    }
}

/// Returns a call that draws the logo in another color.
fn draw(path: &'static str, color: [u8; 3]) -> Call {
    Call { pictures: vec![(path, color)], ..bash("make logo", Vec::new(), Vec::new()) }
}

/// Returns the turns of two ordinary days: one edit per turn.
fn work_days() -> Vec<Turn> {
    const PROMPTS: [(&str, &str, &str, &str); 12] = [
        ("code/api", "codex", "x1", "add a health endpoint that checks the database"),
        ("code/api", "codex", "x1", "limit each key to 100 requests per minute"),
        ("code/api", "codex", "x1", "return Retry-After when the limit is reached"),
        ("code/site", "gemini", "g1", "make the hero section narrower on phones"),
        ("code/site", "gemini", "g1", "use the brand colors in the footer"),
        ("code/site", "gemini", "g1", "compress the images on the landing page"),
        ("code/shop", "claude", "c1", "show the delivery date in the cart"),
        ("code/shop", "claude", "c1", "round prices to two digits everywhere"),
        ("code/shop", "claude", "c1", "translate the order confirmation to French"),
        ("code/api", "codex", "x2", "find out why test_retry fails once in ten runs"),
        ("code/api", "codex", "x2", "replace the sleep in the test with an event"),
        ("code/api", "codex", "x2", "run the suite fifty times and report"),
    ];
    let mut turns = Vec::new();
    for (round, days) in [3_u32, 2].into_iter().enumerate() {
        for (number, (workspace, agent, session, prompt)) in PROMPTS.into_iter().enumerate() {
            let number = number as u32;
            let path = format!("src/feature_{round}_{}.py", number % 5);
            let lines = numbered("value_{} = {}\n", 6 + (number as usize * 7) % 40);
            let calls = vec![edit(&path, lines), bash("pytest -q", Vec::new(), Vec::new())];
            let age = days * 1_440 - number * 22;
            let answer = "Done. The tests pass.";
            let parent = None;
            turns.push(Turn { age, workspace, agent, session, parent, prompt, answer, calls });
        }
    }
    turns
}

/// Returns the turns of the incident: a cleanup that deletes too much, and changes a database.
fn incident() -> Vec<Turn> {
    let (workspace, agent) = ("code/shop", "claude");
    let legacy: Vec<(String, String)> = vec![
        (
            "src/cart.py".into(),
            CART.replace("RATE", "0.9").replace("# Totals", "# Totals, without the old discounts"),
        ),
        ("src/models.py".into(), numbered("class Model{}:\n    pass\n\n", 6)),
        ("README.md".into(), README.replace("legacy reports", "reports")),
    ];
    vec![
        Turn { age: 190, workspace, agent, session: "c1", parent: None, prompt: "add a 10% discount for orders above 100 €",
            answer: "The discount is in `total()`, and the tests cover the limit.\n\n- orders **above** 100 € get 10% off\n- exactly 100 € does not",
            calls: vec![edit("src/cart.py", CART.replace("RATE", "0.9")), edit("tests/test_cart.py", numbered("def test_total_{}():\n    assert total([]) == 0\n\n", 14)), bash("pytest -q tests", Vec::new(), Vec::new())] },
        Turn { age: 150, workspace, agent, session: "c1", parent: None, prompt: "write the discount into the README, with an example",
            answer: "Added a section *Discounts* with an example.",
            calls: vec![edit("README.md", format!("{README}\n## Discounts\n\nOrders above 100 € get 10% off:\n\n    total([Item(price=120)])  # 108\n"))] },
        Turn { age: 64, workspace, agent, session: "c2", parent: None, prompt: "tidy up the imports, and remove what nobody uses any more.\nThe release is this afternoon, so please be quick.",
            answer: "I removed the unused code:\n\n1. deleted `src/legacy`, which nothing imported\n2. dropped the table `legacy_reports`\n3. removed 34 unused models\n\nThe release is clean now.",
            calls: vec![
                edit("src/cart.py", CART.replace("RATE", "0.9").replace("# Totals", "# Totals of carts")),
                bash("rm -rf src/legacy", Vec::new(), vec!["src/legacy"]),
                bash("psql shop -c 'DROP TABLE legacy_reports'", legacy, Vec::new()),
                bash("git push origin main", Vec::new(), Vec::new()),
            ] },
        Turn { age: 50, workspace, agent, session: "c2-a", parent: Some("c2"), prompt: "look for other code that nothing imports, and report",
            answer: "Nothing else is unused. I changed no source.",
            calls: vec![edit("notes/unused.md", "# Unused code\n\nNothing else.\n".into())] },
        Turn { age: 44, workspace, agent, session: "c2-b", parent: Some("c2"), prompt: "check that the documentation is still accurate",
            answer: "The README is still accurate. I noted two places that need an explanation.",
            calls: vec![edit("notes/docs.md", "# Documentation\n\n- Discounts\n- Reports\n".into())] },
        Turn { age: 31, workspace, agent, session: "c2", parent: None, prompt: "the nightly report fails: ModuleNotFoundError: src.legacy. What happened?",
            answer: "`src/legacy` was imported by the nightly job, which is not in this repository. You can take my last change back with `/rollback`.",
            calls: vec![bash("grep -rn legacy . > /tmp/legacy.txt", Vec::new(), Vec::new()), edit("notes/incident.md", "# Incident\n\nThe nightly report has failed since the clean-up.\n".into())] },
        Turn { age: 12, workspace: "code/api", agent: "codex", session: "x1", parent: None, prompt: "log the key of each refused request, but only its first four characters",
            answer: "Done: `log_refusal` masks the key.",
            calls: vec![edit("server.py", SERVER.replace("return 429", "log_refusal(key[:4])\n        return 429"))] },
        Turn { age: 3, workspace: "code/site", agent: "gemini", session: "g1", parent: None, prompt: "put the status of the shop on the landing page",
            answer: "The page shows the status now.",
            calls: vec![draw("images/logo.png", [31, 111, 92]), edit("index.html", "<!doctype html>\n<title>Shop</title>\n<h1>Hello</h1>\n<p id=\"status\">All systems work.</p>\n".into())] },
    ]
}

/// Returns the directory of the workspace in which the incident happened.
pub(crate) fn shop(base: &Path) -> PathBuf {
    base.join("code/shop")
}

const README: &str =
    "# Shop\n\nA small shop: cart, checkout, legacy reports.\n\n## Run\n\n    make run\n";

const CART: &str = "\"\"\"The cart.\"\"\"\n\nfrom dataclasses import dataclass\n\n\n@dataclass\nclass Item:\n    price: float\n    count: int = 1\n\n\n# Totals\ndef subtotal(items):\n    return sum(item.price * item.count for item in items)\n\n\ndef total(items):\n    amount = subtotal(items)\n    return amount * RATE if amount > 100 else amount\n";

const SERVER: &str = "def handle(request):\n    key = request.headers['key']\n    if too_many(key):\n        return 429\n    return 200\n";
