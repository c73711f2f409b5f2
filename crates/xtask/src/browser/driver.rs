//! A small client for WebDriver, which controls Chromium through chromedriver.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Failure;

/// The maximum time that a check waits for something in the page. All cores may be busy with other
/// tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time that a script waits in the page before it is run again.
const SLICE: Duration = Duration::from_secs(5);

/// The longest time that a script may take, unless it is known to be slow.
const SCRIPT: Duration = Duration::from_secs(30);

/// The time between two attempts while the page is being replaced.
const POLL: Duration = Duration::from_millis(50);

/// The longest time that a slow script may take.
const LONG: Duration = Duration::from_secs(300);

/// Parts of the error messages that the browser logs for answers that the pages expect: a plan that
/// is out of date, a page that is missing on purpose, and a connection that the proxy cuts.
const EXPECTED: [&str; 5] = [
    "status of 409",
    "/nothing - ",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_CONNECTION_",
];

/// A running Chromium with one window.
pub(crate) struct Browser {
    child: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts chromedriver and a headless browser.
    pub(crate) fn start() -> Result<Browser, Failure> {
        let mut child = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run chromedriver: {error}"))?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Browser {
            child,
            port: port.ok_or("chromedriver has no port")?,
            session: String::new(),
        };
        let options = json!({ "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--font-render-hinting=none", "--disable-background-networking",
            "--disable-component-update", "--no-first-run",
        ] });
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "unhandledPromptBehavior": "ignore",
        } } });
        let answer = browser.send("POST", "/session", &capabilities)?;
        browser.session = answer["sessionId"].as_str().ok_or("no session")?.to_owned();
        browser.set_patience(SCRIPT)?;
        Ok(browser)
    }

    fn set_patience(&self, time: Duration) -> Result<(), Failure> {
        let limits = json!({ "script": time.as_millis() as u64 });
        self.command("timeouts", &limits).map(drop)
    }

    /// Runs a script that may take minutes on a busy machine.
    pub(crate) fn run_slowly(&self, script: &str) -> Result<Value, Failure> {
        self.set_patience(LONG)?;
        let result = self.run(script);
        self.set_patience(SCRIPT)?;
        result
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let failed = |error: std::io::Error| format!("chromedriver does not answer: {error}");
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        socket.set_read_timeout(Some(LONG + PATIENCE)).map_err(failed)?;
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        socket.write_all(request.as_bytes()).map_err(failed)?;
        let body = read_body(&mut BufReader::new(socket)).map_err(failed)?;
        let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match answer["value"].get("error") {
            Some(error) => Err(format!("{path}: {error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    fn command(&self, name: &str, body: &Value) -> Result<Value, Failure> {
        self.send("POST", &format!("/session/{}/{name}", self.session), body)
    }

    fn devtools(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.command("goog/cdp/execute", &json!({ "cmd": method, "params": params }))
    }

    /// Opens an address and waits until its scripts have started.
    pub(crate) fn open(&self, address: &str) -> Result<(), Failure> {
        self.command("url", &json!({ "url": address }))?;
        self.wait_for("document.readyState === 'complete'")
    }

    /// Runs a script in the page and returns its result.
    pub(crate) fn run(&self, script: &str) -> Result<Value, Failure> {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true in the page. A script that waits in the page is lost if
    /// the page is replaced in the meantime, so the script is run repeatedly.
    pub(crate) fn wait_for(&self, condition: &str) -> Result<(), Failure> {
        let script = format!(
            "const done = arguments[0], end = performance.now() + {};
             const look = () => {{ let ok = false; try {{ ok = Boolean({condition}); }} catch {{ }}
               ok || performance.now() > end ? done(ok) : setTimeout(look, 25); }};
             look();",
            SLICE.as_millis()
        );
        let start = Instant::now();
        loop {
            let waited = self.command("execute/async", &json!({ "script": script, "args": [] }));
            match waited {
                Ok(Value::Bool(true)) => return Ok(()),
                Ok(_) if start.elapsed() > PATIENCE => {
                    return Err(format!("waited too long for {condition}"));
                }
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(format!("waited too long for {condition}: {error}"));
                }
                Ok(_) => {}
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    /// Describes the page for the report of a failed check: its address, and the texts of its
    /// dialog, messages and plan.
    pub(crate) fn describe_page(&self) -> String {
        let script = "const texts = ['dialog[open]', '.toast', '.plan'].flatMap((selector) =>
               [...document.querySelectorAll(selector)].map((own) => `${selector}: ${own.innerText}`));
             return [location.href, ...texts].join('\\n')";
        match self.run(script) {
            Ok(description) => description.as_str().unwrap_or_default().to_owned(),
            Err(error) => error,
        }
    }

    /// Clicks an element, as a user would: the element must be visible and not covered. Keeps
    /// trying for a while, because the page may be replacing the element at that moment.
    pub(crate) fn click(&self, selector: &str) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            match self.try_click(selector) {
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(format!("cannot click {selector}: {error}"));
                }
                Err(_) => thread::sleep(POLL),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn try_click(&self, selector: &str) -> Result<(), Failure> {
        let found =
            self.command("element", &json!({ "using": "css selector", "value": selector }))?;
        let id =
            found.as_object().and_then(|found| found.values().next()?.as_str().map(str::to_owned));
        let id = id.ok_or("there is no such element")?;
        self.command(&format!("element/{id}/click"), &json!({})).map(drop)
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&self, keys: &[&str]) -> Result<(), Failure> {
        let strokes: Vec<Value> = keys
            .iter()
            .flat_map(|key| {
                [
                    json!({ "type": "keyDown", "value": key }),
                    json!({ "type": "keyUp", "value": key }),
                ]
            })
            .collect();
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] });
        self.command("actions", &actions).map(drop)
    }

    /// Sets the size of the page, and chooses light or dark colors.
    pub(crate) fn set_look(&self, width: u32, height: u32, scheme: &str) -> Result<(), Failure> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size)?;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &media).map(drop)
    }

    /// Returns the page as it looks now, as a PNG in base64.
    pub(crate) fn take_screenshot(&self) -> Result<String, Failure> {
        let shot = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }))?;
        Ok(shot["data"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the messages that the page has logged since the last call.
    fn log(&self, kind: &str) -> Result<Vec<Value>, Failure> {
        let log = self.command("se/log", &json!({ "type": kind }))?;
        Ok(log.as_array().cloned().unwrap_or_default())
    }

    /// Fails if the page has logged an error, or has sent a request to an address that does not
    /// begin with one of `own`.
    pub(crate) fn check_logs(&self, own: &[&str]) -> Result<(), Failure> {
        for entry in self.log("browser")? {
            let message = entry["message"].to_string();
            let is_expected = EXPECTED.iter().any(|expected| message.contains(expected));
            if entry["level"] == "SEVERE" && !is_expected {
                return Err(format!("the page logged an error: {}", entry["message"]));
            }
        }
        for entry in self.log("performance")? {
            let message = entry["message"].as_str().unwrap_or_default();
            let message: Value = serde_json::from_str(message).unwrap_or_default();
            let request = &message["message"];
            let address = request["params"]["request"]["url"].as_str().unwrap_or_default();
            let is_request = request["method"] == "Network.requestWillBeSent";
            let is_own = own.iter().any(|origin| address.starts_with(origin));
            if is_request && !is_own && !address.starts_with("data:") {
                return Err(format!("the page asked for {address}"));
            }
        }
        Ok(())
    }
}

/// Reads the body of an answer. Content-Length says where the body ends, because chromedriver keeps
/// connections open.
fn read_body(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            _ if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.send("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
