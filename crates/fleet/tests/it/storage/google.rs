//! A server of Google Cloud Storage: gcp-storage-emulator from PyPI. It supports neither tokens nor
//! conditions nor pages; `google_server.py` adds them as Google documents them.

use std::path::PathBuf;
use std::process::Command;

use takeback_fleet::{ObjectsError, Provider};

use super::{BUCKET, StorageServer, access_to, find_tool};

/// The token that the server accepts.
const TOKEN: &str = "good";

/// The service account whose tokens the server accepts.
const ACCOUNT: &str = "takeback@fleet.iam.gserviceaccount.com";

pub(super) fn start() -> Option<StorageServer> {
    let python = find_tool("gcp-storage-emulator", "bin/python")?;
    let mut server = StorageServer::run(Provider::Google, &[TOKEN], |port| {
        let mut command = Command::new(&python);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/storage/google_server.py");
        command.args([script, &port.to_string(), BUCKET, TOKEN, ACCOUNT]);
        command
    });
    let bad = access_to(Provider::Google, server.port, &["bad"]);
    let none = access_to(Provider::Google, server.port, &[]);
    let with_account = |name: &str| {
        let mut access = none.clone();
        access.google.key_file = Some(write_key(&server, name));
        access
    };
    let stranger = with_account("stranger");
    let is_refused = |error: &ObjectsError| matches!(error, ObjectsError::Credentials { .. });
    server.other_access = vec![with_account(ACCOUNT)];
    server.refused_access = vec![(bad, is_refused), (none, is_refused), (stranger, is_refused)];
    Some(server)
}

/// Writes the file with the key of a service account. The key is the one in RFC 7515, appendix A.2.
fn write_key(server: &StorageServer, account: &str) -> PathBuf {
    let path = server.directory.path().join(account);
    let file = serde_json::json!({
        "type": "service_account",
        "client_email": account,
        "private_key_id": "1",
        "private_key": include_str!("../../fixtures/rfc7515.pem"),
    });
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

pub(super) fn create_object(server: &StorageServer, key: &str) {
    let path = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={key}");
    server.ask("POST", &path, &[&format!("Authorization: Bearer {TOKEN}")], "");
}
