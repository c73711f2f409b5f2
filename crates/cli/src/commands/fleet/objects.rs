//! Opens the object storage of a fleet, and uploads checkpoints to it.

use serde::Serialize;
use takeback_fleet::{
    AzureAccess, FleetSettings, GoogleAccess, LastUpload, Objects, ObjectsError, ObjectsOptions,
    S3Access, StorageAccess, UploadReport,
};

use super::{host_name, read_settings};
use crate::context::{Context, LOCK_WAIT};
use crate::failure::Failure;
use crate::output::Progress;

/// The state of the checkpoints in the object storage.
#[derive(Serialize)]
pub(super) struct CheckpointsView {
    /// The address of the object storage, as it is shown to the user.
    pub(super) target: Option<String>,
    /// The number of checkpoints that have not been uploaded yet.
    pub(super) waiting: u64,
    #[serde(flatten)]
    pub(super) last: LastUpload,
    pub(super) problem: Option<Failure>,
}

/// Opens the object storage that the settings name.
pub(super) fn open_objects(context: &Context) -> Result<Objects, Failure> {
    let settings = read_settings(context)?.unwrap_or_default();
    Ok(open_with(&settings, context)?)
}

fn open_with(settings: &FleetSettings, context: &Context) -> Result<Objects, ObjectsError> {
    let access = read_access(context);
    let host_name = host_name();
    let (home, lock_wait) = (&context.home, LOCK_WAIT);
    Objects::open(ObjectsOptions { home, settings, host_name, access: &access, lock_wait })
}

/// Reads the environment variables that configure the access to object storage.
fn read_access(context: &Context) -> StorageAccess {
    let variable = |name: &str| Some(context.variable(name)?.to_string_lossy().into_owned());
    let s3 = S3Access {
        access_key: variable("AWS_ACCESS_KEY_ID"),
        secret_key: variable("AWS_SECRET_ACCESS_KEY"),
        session_token: variable("AWS_SESSION_TOKEN"),
        region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
        endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
    };
    let google = match variable("STORAGE_EMULATOR_HOST") {
        // Like Google's own programs, send no credentials to an emulator.
        Some(host) => GoogleAccess { endpoint: Some(host), ..GoogleAccess::default() },
        None => GoogleAccess {
            token: variable("GOOGLE_OAUTH_ACCESS_TOKEN"),
            key_file: context.variable("GOOGLE_APPLICATION_CREDENTIALS").map(Into::into),
            endpoint: None,
        },
    };
    let azure = AzureAccess {
        account: variable("AZURE_STORAGE_ACCOUNT"),
        key: variable("AZURE_STORAGE_KEY"),
        sas_token: variable("AZURE_STORAGE_SAS_TOKEN"),
        endpoint: variable("AZURE_STORAGE_SERVICE_ENDPOINT"),
    };
    StorageAccess { s3, google, azure }
}

/// Uploads the checkpoints that the object storage lacks. Returns `None` if no object storage is
/// configured.
pub(super) fn upload(context: &Context, is_silent: bool) -> Result<Option<UploadReport>, Failure> {
    let settings = read_settings(context)?.filter(|settings| settings.objects.is_some());
    let Some(settings) = settings else { return Ok(None) };
    let objects = open_with(&settings, context)?;
    let opened = context.opened()?;
    let (store, rules) = (opened.store()?, opened.rules());
    if is_silent {
        return Ok(Some(objects.upload(store, rules, context.now(), &|_| {})?));
    }
    let progress = Progress::counting("uploading", "bytes");
    let report = objects.upload(store, rules, context.now(), &|step| {
        progress.step(step.bytes, Some(step.total));
    })?;
    Ok(Some(report))
}

/// Returns the state of the checkpoints, without sending a request to the object storage. Returns
/// `None` if no object storage is configured.
pub(super) fn find_checkpoints(context: &Context) -> Result<Option<CheckpointsView>, Failure> {
    let settings = read_settings(context)?.filter(|settings| settings.objects.is_some());
    let Some(settings) = settings else { return Ok(None) };
    let view = match open_with(&settings, context) {
        Ok(objects) => CheckpointsView {
            target: Some(objects.target().to_owned()),
            waiting: objects.count_waiting(context.opened()?.store()?)?,
            last: objects.last_upload(),
            problem: None,
        },
        Err(error) => CheckpointsView {
            target: None,
            waiting: 0,
            last: LastUpload::default(),
            problem: Some(error.into()),
        },
    };
    Ok(Some(view))
}
