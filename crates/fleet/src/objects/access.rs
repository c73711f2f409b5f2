//! Credentials and servers for object storage, as the environment variables specify them.

use std::path::PathBuf;

/// A kind of object storage on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3, and other servers that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// The keys and servers for all kinds of object storage. Only those for the kind in the configured
/// address are used.
#[derive(Clone, Debug, Default)]
pub struct StorageAccess {
    /// For addresses that begin with `s3://`.
    pub s3: S3Access,
    /// For addresses that begin with `gs://`.
    pub google: GoogleAccess,
    /// For addresses that begin with `az://`.
    pub azure: AzureAccess,
}

/// The keys and the server for S3.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct S3Access {
    pub access_key: Option<String>,
    pub secret_key: Option<String>,
    pub session_token: Option<String>,
    /// The region; `us-east-1` by default.
    pub region: Option<String>,
    /// The address of a server other than Amazon's.
    pub endpoint: Option<String>,
}

/// The credentials and the server for Google Cloud Storage.
#[derive(Clone, Debug, Default)]
pub struct GoogleAccess {
    /// An OAuth access token. It takes precedence over the key.
    pub token: Option<String>,
    /// The JSON file with the key of a service account.
    pub key_file: Option<PathBuf>,
    /// The address of a server other than Google's. Such a server needs no credentials.
    pub endpoint: Option<String>,
}

/// The credentials and the server for Azure Blob Storage.
#[derive(Clone, Debug, Default)]
pub struct AzureAccess {
    /// The name of the storage account.
    pub account: Option<String>,
    /// A key of the account, in base64. It takes precedence over the token.
    pub key: Option<String>,
    /// A shared access signature: the parameters of a URL.
    pub sas_token: Option<String>,
    /// The address of a server other than `https://<account>.blob.core.windows.net`.
    pub endpoint: Option<String>,
}
