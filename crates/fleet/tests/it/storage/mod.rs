//! Real servers of object storage for the tests of a fleet's checkpoints. `cargo xtask test` installs
//! them in `target/tools`.

mod azure;
mod google;
mod proxy;
mod s3;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use takeback_fleet::{AzureAccess, GoogleAccess, ObjectsError, Provider, S3Access, StorageAccess};

pub(crate) use self::proxy::{KillingProxy, Proxy, Verdict};

/// The name of the bucket that the tests use.
pub(crate) const BUCKET: &str = "checkpoints";

/// A function that returns true for the expected error.
type IsExpected = fn(&ObjectsError) -> bool;

/// A running server.
pub(crate) struct StorageServer {
    pub(crate) provider: Provider,
    pub(crate) port: u16,
    process: Child,
    /// A directory for files that the test needs.
    directory: tempfile::TempDir,
    /// The secrets of a user who may do everything in the bucket.
    secrets: Vec<String>,
    /// Other credentials of the user who may do everything.
    pub(crate) other_access: Vec<StorageAccess>,
    /// Users who may not upload.
    pub(crate) refused_access: Vec<(StorageAccess, IsExpected)>,
}

impl StorageServer {
    /// Starts a server. If it is not installed, says so and returns `None`: the test is skipped.
    pub(crate) fn start(provider: Provider) -> Option<StorageServer> {
        match provider {
            Provider::S3 => s3::start(),
            Provider::Google => google::start(),
            Provider::Azure => azure::start(),
        }
    }

    /// Starts a server. Lets it accept all requests without checking signatures, if that is faster.
    pub(crate) fn start_open(provider: Provider) -> Option<StorageServer> {
        match provider {
            Provider::S3 => s3::start_open(),
            _ => StorageServer::start(provider),
        }
    }

    /// Runs a program that serves on a port, and waits until it accepts connections.
    fn run(
        provider: Provider,
        secrets: &[&str],
        command: impl Fn(u16) -> Command,
    ) -> StorageServer {
        // Another process may take the free port before the server does.
        let (port, process) = (0..5).find_map(|_| start_on_free_port(&command)).unwrap();
        let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let (other_access, refused_access) = (Vec::new(), Vec::new());
        let directory = tempfile::tempdir().unwrap();
        StorageServer { provider, port, process, directory, secrets, other_access, refused_access }
    }

    /// Returns the address of a prefix in the bucket.
    pub(crate) fn address(&self, prefix: &str) -> String {
        address_in(self.provider, BUCKET, prefix)
    }

    pub(crate) fn access(&self) -> StorageAccess {
        self.access_at(self.port)
    }

    /// Returns the address and credentials of the server, but with the given port.
    pub(crate) fn access_at(&self, port: u16) -> StorageAccess {
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        access_to(self.provider, port, &secrets)
    }

    /// Returns the secrets as text that another process can split and pass to [`access_to`].
    pub(crate) fn secrets(&self) -> String {
        self.secrets.join("\n")
    }

    /// Creates empty objects in the bucket of a server that [`StorageServer::start_open`] started.
    pub(crate) fn create_objects(&self, keys: impl Iterator<Item = String>) {
        for key in keys {
            match self.provider {
                Provider::S3 => s3::create_object(self, &key),
                Provider::Google => google::create_object(self, &key),
                Provider::Azure => azure::create_object(self, &key),
            }
        }
    }

    /// Makes a request, which must succeed. Returns the whole answer.
    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let (port, length) = (self.port, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(matches!(status, "200" | "201"), "{answer}");
        answer
    }
}

impl Drop for StorageServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a program on a free port. Returns `None` if it exits before it accepts connections.
fn start_on_free_port(command: impl Fn(u16) -> Command) -> Option<(u16, Child)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = command(port);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if process.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::yield_now();
    }
    Some((port, process))
}

/// Returns the number of keys in a page of a listing.
pub(crate) fn page_length(provider: Provider) -> usize {
    match provider {
        Provider::S3 | Provider::Google => 1_000,
        Provider::Azure => 5_000,
    }
}

/// Returns the address of a prefix in a bucket.
pub(crate) fn address_in(provider: Provider, bucket: &str, prefix: &str) -> String {
    let scheme = match provider {
        Provider::S3 => "s3",
        Provider::Google => "gs",
        Provider::Azure => "az",
    };
    format!("{scheme}://{bucket}/{prefix}")
}

/// Returns the address and credentials of a server on this machine.
pub(crate) fn access_to(provider: Provider, port: u16, secrets: &[&str]) -> StorageAccess {
    let secret = |index: usize| secrets.get(index).map(|secret| (*secret).to_owned());
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut access = StorageAccess::default();
    match provider {
        Provider::S3 => {
            let (access_key, secret_key, endpoint) = (secret(0), secret(1), Some(endpoint));
            access.s3 = S3Access { access_key, secret_key, endpoint, ..S3Access::default() };
        }
        Provider::Google => {
            let (token, endpoint) = (secret(0), Some(endpoint));
            access.google = GoogleAccess { token, endpoint, ..GoogleAccess::default() };
        }
        Provider::Azure => {
            let (account, key) = (secret(0), secret(1));
            let endpoint = Some(format!("{endpoint}/{}", azure::ACCOUNT));
            access.azure = AzureAccess { account, key, endpoint, ..AzureAccess::default() };
        }
    }
    access
}

/// Finds a program of a tool that `cargo xtask test` installs. If the tool is not installed, says
/// so and returns `None`.
fn find_tool(name: &str, program: &str) -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let mut found: Vec<PathBuf> = std::fs::read_dir(tools)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{name}-")))
        .map(|entry| entry.path().join(program))
        .filter(|program| program.exists())
        .collect();
    found.sort();
    if found.is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not installed");
    }
    found.pop()
}
