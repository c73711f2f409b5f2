//! Encrypted connections, with certificates issued by an authority that exists only in the test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use takeback_fleet::{FleetError, JoinOptions};

use crate::machine::{Machine, shipped_messages};
use crate::server::Server;

/// A certificate authority, created with the program `openssl`.
struct Authority {
    directory: tempfile::TempDir,
}

const CONFIGURATION: &str = "[ca]
default_ca = authority
[authority]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = policy
unique_subject = no
[policy]
commonName = supplied
";

impl Authority {
    /// Creates the authority. If `openssl` is not installed, says so and returns `None`.
    fn new() -> Option<Authority> {
        if Command::new("openssl").arg("version").output().is_err() {
            let _ = writeln!(std::io::stderr(), "skipped: openssl is not installed");
            return None;
        }
        let authority = Authority { directory: tempfile::tempdir().unwrap() };
        for (name, content) in [("ca.cnf", CONFIGURATION), ("index.txt", ""), ("serial", "01")] {
            fs::write(authority.path(name), content).unwrap();
        }
        // Two authorities must not have the same name.
        let name = authority.directory.path().file_name().unwrap().to_string_lossy().into_owned();
        authority.run(&format!(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN={name}"
        ));
        authority
            .run("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server");
        Some(authority)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments.split(' ')).current_dir(self.directory.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Gives the server a certificate for `host` that is valid from the year `from` to the year
    /// `to`.
    fn certify(&self, server: &mut Server, host: &str, from: &str, to: &str) {
        fs::write(self.path("ext"), format!("subjectAltName=DNS:{host}\n")).unwrap();
        self.run(&format!(
            "ca -batch -config ca.cnf -cert ca.crt -keyfile ca.key -in server.csr -out server.crt \
             -startdate {from}0101000000Z -enddate {to}0101000000Z -extfile ext"
        ));
        let text = |name: &str| fs::read_to_string(self.path(name)).unwrap();
        server.encrypt(&text("server.crt"), &text("server.key"));
    }
}

fn explain(address: &str) -> FleetError {
    Machine::new("m", address).join(&JoinOptions::default()).unwrap_err()
}

#[track_caller]
fn assert_untrusted(address: &str, expected: &str) {
    let error = explain(address);
    let FleetError::Certificate { problem, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*problem, expected);
}

#[test]
fn a_connection_is_encrypted_and_its_certificate_is_checked() {
    let Some(mut server) = Server::start() else { return };
    let Some(authority) = Authority::new() else { return };
    let file = authority.path("ca.crt");
    let address = server.encrypted_address(&file);
    let error = explain(&address);
    assert!(matches!(error, FleetError::Unreachable { .. }), "no encryption yet: {error:?}");

    authority.certify(&mut server, "localhost", "2020", "2099");
    let mut machine = Machine::new("m", &address);
    machine.join(&JoinOptions::default()).unwrap();
    machine.say("claude:a", "user", "one");
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
    let without_file = address.split("&sslrootcert").next().unwrap();
    assert_untrusted(without_file, "its certificate comes from an unknown authority");

    authority.certify(&mut server, "db.example", "2020", "2099");
    assert_untrusted(&address, "its certificate is for another host name");
    authority.certify(&mut server, "localhost", "2020", "2021");
    assert_untrusted(&address, "its certificate has expired");
    authority.certify(&mut server, "localhost", "2098", "2099");
    assert_untrusted(&address, "its certificate is not valid yet");

    let other = Authority::new().unwrap();
    authority.certify(&mut server, "localhost", "2020", "2099");
    let address = server.encrypted_address(&other.path("ca.crt"));
    assert_untrusted(&address, "its certificate comes from an unknown authority");
    for (name, content) in [("empty", ""), ("broken", "-----BEGIN CERTIFICATE-----\nx")] {
        fs::write(authority.path(name), content).unwrap();
        let error = explain(&server.encrypted_address(&authority.path(name)));
        assert!(matches!(error, FleetError::Tls { .. }), "{error:?}");
    }
    let error = explain(&server.encrypted_address(Path::new("/does/not/exist")));
    assert!(matches!(error, FleetError::Tls { .. }), "{error:?}");
}
