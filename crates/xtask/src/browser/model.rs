//! A scripted model for conversations in the browser.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::json;
use takeback_script::{Message, Reply, Request, Role, Server, StreamGate, StreamStep, Usage};

use crate::Failure;

/// A model that answers the prompts of the checks and of the screenshots.
pub(crate) struct Model {
    _server: Server,
    gate: Gate,
}

/// A gate that can hold back the second half of slow answers.
type Gate = Arc<(Mutex<bool>, Condvar)>;

impl Model {
    /// Starts the model, and adds it to the settings of a scratch home.
    pub(crate) fn start(base: &Path) -> Result<Model, Failure> {
        let gate = Gate::default();
        let own = gate.clone();
        let server = Server::start(move |request| answer(request, &own));
        let server = server.map_err(|error| format!("cannot start a model: {error}"))?;
        let home = base.join(".takeback");
        let config = format!(
            "[chat]\nprovider = \"local\"\n\n[providers.local]\nbase_url = \"{}/v1\"\n\
             model = \"small-coder\"\nprices = {{ input = 3.0, output = 15.0 }}\n",
            server.url()
        );
        let written =
            fs::create_dir_all(&home).and_then(|()| fs::write(home.join("config.toml"), config));
        written.map_err(|error| format!("cannot write the settings: {error}"))?;
        Ok(Model { _server: server, gate })
    }

    /// Stops the model, and removes it from the settings of the scratch home.
    pub(crate) fn remove(self, base: &Path) -> Result<(), Failure> {
        let config = base.join(".takeback/config.toml");
        fs::remove_file(&config).map_err(|error| format!("{}: {error}", config.display()))
    }

    /// Opens or closes the gate for slow answers.
    pub(crate) fn set_open(&self, is_open: bool) {
        let (state, changed) = &*self.gate;
        *state.lock().unwrap_or_else(PoisonError::into_inner) = is_open;
        changed.notify_all();
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.set_open(true);
    }
}

fn wait_for_gate(gate: &Gate) {
    let (state, changed) = &**gate;
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    drop(changed.wait_while(state, |is_open| !*is_open));
}

/// Chooses the answer to a request by the prompt, and by the number of calls since the prompt.
fn answer(request: &Request, gate: &Gate) -> Reply {
    let is_prompt = |message: &Message| message.role == Role::User && !message.text.is_empty();
    let since = request.messages.iter().rev().take_while(|message| !is_prompt(message));
    let calls: usize = since.map(|message| message.results.len()).sum();
    let prompt = request.last_text();
    let reply = match prompt {
        text if text.contains("two digits") => round_prices(calls),
        text if text.contains("publish") => match calls {
            0 => Reply::call("terminal", json!({ "command": "git push origin main" })),
            _ => Reply::text("I have **not** published the release, as you asked."),
        },
        text if text.contains("slowly") => {
            let gate = gate.clone();
            let gate = StreamGate::new(move |event| {
                // The first event has no text, and the second event has the first half of the text.
                if event == 2 {
                    wait_for_gate(&gate);
                }
                StreamStep::Send
            });
            Reply { gate: Some(gate), ..Reply::text(SLOW) }
        }
        text if text.contains("nightly report") => match calls {
            0 => read("src/cart.py"),
            _ => Reply::text("The report imports `src.legacy`. I will restore that module next."),
        },
        text if text.contains("Continue working") => Reply::call(
            "terminal",
            json!({ "command": "psql shop -c 'CREATE TABLE legacy_reports (id int)'" }),
        ),
        text if text.contains("note") => match calls {
            0 => write("note.txt", "<img src=x onerror=alert(1)>\n"),
            _ => Reply::text(
                "Wrote the note. <img src=x onerror=alert(2)>\n\n[x](javascript:alert(3)) **done**",
            ),
        },
        _ => Reply::text("Hello."),
    };
    let usage = Usage { input: 4_210, output: 180 };
    Reply { usage, ..reply }
}

/// An answer that pauses in the middle.
pub(crate) const SLOW: &str = "One, two, three, four. Five, six, seven, eight.";

fn read(path: &str) -> Reply {
    Reply::call("read_file", json!({ "path": path }))
}

fn write(path: &str, content: &str) -> Reply {
    Reply::call("write_file", json!({ "path": path, "content": content }))
}

/// Returns the next reply in a turn of ordinary work.
fn round_prices(calls: usize) -> Reply {
    match calls {
        0 => Reply { reasoning: "The total is in src/cart.py.".into(), ..read("src/cart.py") },
        1 => write("src/prices.py", "def round_price(amount):\n    return round(amount, 2)\n"),
        2 => write(
            "tests/test_prices.py",
            "from src.prices import round_price\n\n\ndef test_rounds():\n    assert round_price(0.125) == 0.12\n",
        ),
        3 => Reply::call("terminal", json!({ "command": "ls -l src tests" })),
        _ => Reply::text(
            "Prices are rounded to two digits now:\n\n\
             - `round_price` in `src/prices.py` is the **only** place that rounds\n\
             - `tests/test_prices.py` covers a half that rounds down\n\n\
             ```python\ndef round_price(amount):\n    return round(amount, 2)\n```\n\n\
             The cart itself still adds up exact amounts, so that no cent is lost on the way.",
        ),
    }
}
