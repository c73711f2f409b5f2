//! Hints for the errors of a fleet's checkpoints.

use takeback_fleet::{ObjectsError, Provider};
use takeback_tree::CheckoutError;

use super::{LATER, SPACE, VERIFY};
use crate::failure::Failure;

impl From<ObjectsError> for Failure {
    fn from(error: ObjectsError) -> Failure {
        let safe = "nothing is lost: the checkpoints on this machine are complete";
        let hint = match &error {
            ObjectsError::NotConfigured => {
                "run `takeback config set fleet.objects s3://BUCKET` (or gs://, az://, file:///)"
            }
            ObjectsError::BadAddress(_) => {
                "fix `fleet.objects` in config.toml, or the variable that names the server"
            }
            ObjectsError::NotJoined => "run `takeback fleet init`",
            ObjectsError::NoCredentials { provider } => match provider {
                Provider::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                Provider::Google => {
                    "set GOOGLE_APPLICATION_CREDENTIALS to the file with a service account's key"
                }
                Provider::Azure => {
                    "set AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN"
                }
            },
            ObjectsError::BadKey { provider, .. } => match provider {
                Provider::Azure => "set AZURE_STORAGE_KEY to a key of the storage account",
                Provider::Google | Provider::S3 => {
                    "set GOOGLE_APPLICATION_CREDENTIALS to the file with a service account's key"
                }
            },
            ObjectsError::NoBucket { .. } => {
                "create it, or fix `fleet.objects` in config.toml; takeback creates no buckets"
            }
            ObjectsError::Permission { .. } => {
                "the keys need the rights to list, read, create and delete objects there"
            }
            ObjectsError::Credentials { provider, .. } => match provider {
                Provider::S3 => {
                    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
                }
                Provider::Google => {
                    "check GOOGLE_APPLICATION_CREDENTIALS; the token in \
                     GOOGLE_OAUTH_ACCESS_TOKEN is valid for an hour at most"
                }
                Provider::Azure => {
                    "check AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN"
                }
            },
            ObjectsError::Clock { .. } => "set the clock; nothing is lost",
            ObjectsError::Region { .. } => "set AWS_REGION to the region of the bucket",
            ObjectsError::NotStorage { .. } => {
                "check `fleet.objects`, and the variable that names the server"
            }
            ObjectsError::Unreachable { .. }
            | ObjectsError::Server { .. }
            | ObjectsError::Directory { .. } => safe,
            ObjectsError::OtherFleet { .. } => {
                "nothing was changed; use another bucket or another prefix for this fleet"
            }
            ObjectsError::TooNew { .. } => "nothing was changed; update takeback",
            ObjectsError::Empty { .. } => {
                "`takeback fleet sync` uploads this machine's checkpoints"
            }
            ObjectsError::Diverged => {
                "nothing was changed; run `takeback fleet init --new-machine` if this home is a \
                 copy of another machine's, or `takeback fleet init --resend` if it is an older \
                 copy"
            }
            ObjectsError::Busy => LATER,
            ObjectsError::NoKey => {
                "set TAKEBACK_FLEET_KEY, or pass --key-file FILE, and run `takeback fleet init`"
            }
            ObjectsError::Damaged { .. } | ObjectsError::Missing { .. } => {
                "`takeback fleet verify` shows what is affected"
            }
            ObjectsError::File { .. } => SPACE,
            ObjectsError::Export(_) => "run `takeback doctor`",
            ObjectsError::Copy(_) => "nothing was changed; name another directory",
            ObjectsError::Checkout(CheckoutError::Io { .. }) => {
                "nothing is left of the new directory; check the free space there"
            }
            ObjectsError::Checkout(_) => VERIFY,
            ObjectsError::Fleet(_) | ObjectsError::Store(_) => "",
        };
        let reason = match &error {
            ObjectsError::Permission { reason, .. }
            | ObjectsError::Credentials { reason, .. }
            | ObjectsError::Region { reason, .. }
            | ObjectsError::Server { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        let failure = match error {
            ObjectsError::Fleet(error) => return error.into(),
            ObjectsError::Store(error) => return error.into(),
            error => Failure::of(&error).hint(hint),
        };
        match reason {
            Some(reason) => failure.because_of(&reason),
            None => failure,
        }
    }
}
