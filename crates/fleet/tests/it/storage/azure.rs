//! A server of Azure Blob Storage: Azurite, Microsoft's emulator, from npm. It checks signatures and
//! permissions.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use takeback_fleet::{AzureAccess, ObjectsError, Provider, StorageAccess};

use super::{BUCKET, StorageServer, access_to, find_tool};

/// The name of the storage account.
pub(super) const ACCOUNT: &str = "fleet";

const KEY: &str = "dGhlIGtleSBvZiB0aGUgYWNjb3VudCBvZiB0aGUgZmxlZXQ=";

/// All rights that takeback needs, and the right to create a container.
const ALL: &str = "rwdlc";

pub(super) fn start() -> Option<StorageServer> {
    let program = find_tool("azurite", "node_modules/.bin/azurite-blob")?;
    let mut server = StorageServer::run(Provider::Azure, &[ACCOUNT, KEY], |port| {
        let mut command = Command::new(&program);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--silent"]);
        command.args(["--inMemoryPersistence", "--disableTelemetry"]);
        command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
        command
    });
    let sas = shared_access_signature(ALL);
    server.ask("PUT", &format!("/{ACCOUNT}/{BUCKET}?restype=container&{sas}"), &[], "");
    let endpoint = server.access().azure.endpoint;
    let with_sas = |rights: &str| StorageAccess {
        azure: AzureAccess {
            sas_token: Some(format!("?{}", shared_access_signature(rights))),
            endpoint: endpoint.clone(),
            ..AzureAccess::default()
        },
        ..StorageAccess::default()
    };
    server.other_access = vec![with_sas(ALL)];
    let wrong_key = access_to(Provider::Azure, server.port, &[ACCOUNT, "d3Jvbmc="]);
    server.refused_access = vec![
        // Azure itself answers with AuthenticationFailed, Azurite with AuthorizationFailure.
        (wrong_key, |error| {
            matches!(error, ObjectsError::Credentials { .. } | ObjectsError::Permission { .. })
        }),
        (with_sas("rl"), |error| matches!(error, ObjectsError::Permission { .. })),
    ];
    Some(server)
}

pub(super) fn create_object(server: &StorageServer, key: &str) {
    let path = format!("/{ACCOUNT}/{BUCKET}/{key}?{}", shared_access_signature(ALL));
    server.ask("PUT", &path, &["x-ms-blob-type: BlockBlob"], "");
}

/// Creates a signature that grants rights to the whole account.
fn shared_access_signature(rights: &str) -> String {
    let (version, end) = ("2021-12-02", "2099-01-01T00:00:00Z");
    let text = format!("{ACCOUNT}\n{rights}\nb\nsco\n\n{end}\n\n\n{version}\n\n");
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(KEY).unwrap()).unwrap();
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("sv={version}&ss=b&srt=sco&sp={rights}&se={end}&sig={signature}")
}
