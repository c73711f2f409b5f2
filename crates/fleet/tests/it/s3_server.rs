//! A real server of the S3 protocol for one test: moto from PyPI. It checks signatures and
//! permissions. `cargo xtask test` installs it in `target/tools`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use takeback_fleet::S3Access;

/// The bucket that exists.
pub(crate) const BUCKET: &str = "checkpoints";

/// The number of requests before the server begins to check signatures.
const UNSIGNED: usize = 5;

/// A running server.
pub(crate) struct S3Server {
    port: u16,
    process: Child,
    /// A user who may do everything in the bucket.
    pub(crate) access: S3Access,
    /// A user who may do nothing.
    pub(crate) stranger: S3Access,
}

impl S3Server {
    /// Starts a server. If moto is not installed, says so and returns `None`: the test is skipped.
    pub(crate) fn start() -> Option<S3Server> {
        let mut server = S3Server::start_with(Some(UNSIGNED))?;
        server.access = server.create_user("owner");
        let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A\
            %22Allow%22%2C%22Action%22%3A%22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
        server.ask_iam(&format!(
            "Action=PutUserPolicy&UserName=owner&PolicyName=all&PolicyDocument={policy}"
        ));
        server.stranger = server.create_key("stranger");
        Some(server)
    }

    /// Starts a server that accepts all requests, which is much faster.
    pub(crate) fn start_open() -> Option<S3Server> {
        let mut server = S3Server::start_with(None)?;
        server.access = S3Access {
            access_key: Some("any".into()),
            secret_key: Some("any".into()),
            endpoint: Some(format!("http://127.0.0.1:{}", server.port)),
            ..S3Access::default()
        };
        Some(server)
    }

    /// Creates empty objects in the bucket of an open server.
    pub(crate) fn create_objects(&self, keys: impl Iterator<Item = String>) {
        for key in keys {
            let answer = self.ask("PUT", &format!("/{BUCKET}/{key}"), "s3", "");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }

    fn start_with(unsigned: Option<usize>) -> Option<S3Server> {
        let Some(program) = find_moto() else {
            let _ = writeln!(std::io::stderr(), "skipped: moto is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command.envs(unsigned.map(|count| ("INITIAL_NO_AUTH_ACTION_COUNT", count.to_string())));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(process.try_wait().unwrap().is_none(), "the server ended");
        }
        let none = S3Access::default();
        let server = S3Server { port, process, access: none.clone(), stranger: none };
        let created = server.ask("PUT", &format!("/{BUCKET}"), "s3", "");
        assert!(created.starts_with("HTTP/1.1 200"), "{created}");
        Some(server)
    }

    fn create_user(&self, name: &str) -> S3Access {
        self.ask_iam(&format!("Action=CreateUser&UserName={name}"));
        self.create_key(name)
    }

    /// Creates a key. A key of a user who does not exist is unknown.
    fn create_key(&self, name: &str) -> S3Access {
        let answer = self.ask_iam(&format!("Action=CreateAccessKey&UserName={name}"));
        let find = |element: &str| {
            let rest = answer.split(&format!("<{element}>")).nth(1);
            rest.and_then(|rest| rest.split('<').next()).unwrap_or("unknown").to_owned()
        };
        S3Access {
            access_key: Some(find("AccessKeyId")),
            secret_key: Some(find("SecretAccessKey")),
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            ..S3Access::default()
        }
    }

    fn ask_iam(&self, body: &str) -> String {
        self.ask("POST", "/", "iam", &format!("{body}&Version=2010-05-08"))
    }

    /// Makes an unsigned request. Returns the whole answer.
    fn ask(&self, method: &str, path: &str, service: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/{service}/aws4_request, \
             SignedHeaders=host, Signature=0\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns access through a proxy.
    pub(crate) fn access_through(&self, proxy: &KillingProxy) -> S3Access {
        let endpoint = Some(format!("http://127.0.0.1:{}", proxy.port));
        S3Access { endpoint, ..self.access.clone() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A proxy that kills a process at one of its requests.
pub(crate) struct KillingProxy {
    port: u16,
    /// The number of requests that still pass.
    left: Arc<AtomicI64>,
    /// The process that is killed.
    victim: Arc<AtomicI64>,
}

impl KillingProxy {
    /// Starts a proxy that lets `passing` requests pass. If `forwards_last` is true, the server
    /// still gets the next one, but its answer is lost.
    pub(crate) fn start(server: u16, passing: i64, forwards_last: bool) -> KillingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (left, victim) = (Arc::new(AtomicI64::new(passing)), Arc::new(AtomicI64::new(0)));
        let proxy = KillingProxy { port, left: left.clone(), victim: victim.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (left, victim) = (left.clone(), victim.clone());
                std::thread::spawn(move || {
                    // An error means that one of the ends has closed the connection.
                    let _ = pass_on(client, server, &left, &victim, forwards_last);
                });
            }
        });
        proxy
    }

    /// Says which process is killed.
    pub(crate) fn aim_at(&self, process: &Child) {
        self.victim.store(i64::from(process.id()), Ordering::SeqCst);
    }

    /// True if the process was killed.
    pub(crate) fn has_killed(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

/// Passes the requests of one connection on, each over a connection of its own.
fn pass_on(
    mut client: TcpStream,
    server: u16,
    left: &AtomicI64,
    victim: &AtomicI64,
    forwards_last: bool,
) -> std::io::Result<()> {
    loop {
        let Some(request) = read_message(&mut client)? else { return Ok(()) };
        let is_last = left.fetch_sub(1, Ordering::SeqCst) <= 0;
        let answer = match is_last && !forwards_last {
            true => Vec::new(),
            false => {
                let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
                upstream.write_all(&request)?;
                upstream.shutdown(Shutdown::Write)?;
                read_message(&mut upstream)?.unwrap_or_default()
            }
        };
        if is_last {
            while victim.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let id = victim.load(Ordering::SeqCst) as i32;
            let id = rustix::process::Pid::from_raw(id).unwrap();
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            return Ok(());
        }
        client.write_all(&answer)?;
    }
}

/// Reads a request or an answer with its body. Returns `None` at the end of the connection.
fn read_message(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    let mut byte = [0];
    while !message.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        message.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&message).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    let start = message.len();
    message.resize(start + length, 0);
    stream.read_exact(&mut message[start..])?;
    Ok(Some(message))
}

/// Finds moto where `cargo xtask test` installs it.
fn find_moto() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("tools");
    let mut found: Vec<PathBuf> = std::fs::read_dir(tools)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("moto-"))
        .map(|entry| entry.path().join("bin/moto_server"))
        .filter(|program| program.exists())
        .collect();
    found.sort();
    found.pop()
}
