//! A real PostgreSQL server for one test: a cluster in a temporary directory, which disappears with
//! the test. The server runs as another user if the test runs as root, because PostgreSQL refuses
//! root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

/// The password of the user `takeback`. Only connections over TCP need it.
pub(crate) const PASSWORD: &str = "correct horse";

/// A running server.
pub(crate) struct Server {
    directory: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
    options: &'static [&'static str],
}

impl Server {
    /// Starts a server. If PostgreSQL is not installed, says so and returns `None`: the test is
    /// skipped.
    pub(crate) fn start() -> Option<Server> {
        Server::start_with(&["-c", "fsync=off", "-c", "shared_buffers=16MB"])
    }

    /// Starts a server that syncs its commits, with the memory settings of a small database machine.
    pub(crate) fn start_durable() -> Option<Server> {
        Server::start_with(&["-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"])
    }

    fn start_with(options: &'static [&'static str]) -> Option<Server> {
        let Some(programs) = find_programs() else {
            let _ = writeln!(std::io::stderr(), "skipped: PostgreSQL is not installed");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("tbpg").tempdir_in("/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["data", "run"] {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            if rustix::process::geteuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        // After the listener is closed, its port stays free for a while.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Server { directory, programs, port, process: None, options };
        server.create_cluster();
        server.resume();
        server
            .psql("postgres", &format!("ALTER USER takeback PASSWORD '{PASSWORD}'"))
            .expect("the server answers");
        server
            .psql("postgres", "CREATE DATABASE fleet ENCODING 'UTF8' TEMPLATE template0")
            .unwrap();
        Some(server)
    }

    fn create_cluster(&self) {
        fs::set_permissions(self.path("data"), fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = self.program("initdb");
        command.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--username=takeback"]);
        command.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--pgdata"]);
        let output = command.arg(self.path("data")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the server, for the first time or again, and waits until it answers.
    pub(crate) fn resume(&mut self) {
        // After a kill, a server does not start until the last process of the old one has ended.
        for _ in 0..500 {
            let mut process = self.spawn();
            while process.try_wait().unwrap().is_none() {
                if self.psql("postgres", "SELECT 1").is_ok() {
                    self.process = Some(process);
                    return;
                }
            }
        }
        panic!("the server does not start");
    }

    fn spawn(&self) -> Child {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.path("data")).arg("-k").arg(self.path("run"));
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "max_connections=60"]).args(self.options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Kills the server as a power cut would.
    pub(crate) fn kill(&mut self) {
        let process = self.process.take().unwrap();
        self.end(process, rustix::process::Signal::KILL);
        // The server's other processes end when they notice that the main process is gone.
        let _ = fs::remove_file(self.path("data").join("postmaster.pid"));
    }

    fn end(&self, mut process: Child, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&process);
        let _ = rustix::process::kill_process(id, signal);
        let _ = process.wait();
    }

    /// Makes the server encrypt connections over TCP with this certificate and key from now on.
    pub(crate) fn encrypt(&mut self, certificate: &str, key: &str) {
        for (name, content) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.path("data").join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            if rustix::process::geteuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        self.psql("postgres", "ALTER SYSTEM SET ssl = on").unwrap();
        self.psql("postgres", "SELECT pg_reload_conf()").unwrap();
        // Wait until new connections use the new configuration.
        while self.psql("postgres", "SHOW ssl").unwrap() != "on" {}
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address for encrypted connections over TCP that trust this authority.
    pub(crate) fn encrypted_address(&self, authority: &Path) -> String {
        let address = self.tcp_address(PASSWORD, "fleet").replace("127.0.0.1", "localhost");
        format!("{address}?sslmode=verify-full&sslrootcert={}", authority.display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Prepares a PostgreSQL program. It runs as a user that PostgreSQL accepts. The program ends
    /// with the test.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--pdeathsig", "INT"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").env("LC_ALL", "C");
        command
    }

    /// Runs SQL. Returns the output.
    pub(crate) fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut command = self.program("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "takeback", "-d", database]);
        command.arg("-h").arg(self.path("run")).args(["-p", &self.port.to_string(), "-c", sql]);
        let Output { status, stdout, stderr } = command.output().unwrap();
        match status.success() {
            true => Ok(String::from_utf8(stdout).unwrap().trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&stderr).into_owned()),
        }
    }

    /// Runs SQL in the fleet's database, which must succeed.
    pub(crate) fn query(&self, sql: &str) -> String {
        self.psql("fleet", sql).unwrap()
    }

    /// Returns the address of the fleet's database over the socket.
    pub(crate) fn address(&self) -> String {
        let run = self.path("run").display().to_string().replace('/', "%2F");
        format!("postgres://takeback@{run}:{}/fleet", self.port)
    }

    /// Returns the address of a database over TCP, with this password.
    pub(crate) fn tcp_address(&self, password: &str, database: &str) -> String {
        let password = password.replace(' ', "%20");
        format!("postgres://takeback:{password}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            self.end(process, rustix::process::Signal::QUIT);
        }
    }
}

/// Finds the newest installed version of PostgreSQL.
fn find_programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|directory| directory.join("initdb").exists())
        .collect();
    versions.sort();
    versions.pop().or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| is_complete(directory))
    })
}

fn is_complete(directory: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|name| directory.join(name).exists())
}
