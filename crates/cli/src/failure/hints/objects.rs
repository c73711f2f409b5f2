//! Hints for the errors of a fleet's checkpoints.

use takeback_fleet::ObjectsError;
use takeback_tree::CheckoutError;

use super::{LATER, SPACE, VERIFY};
use crate::failure::Failure;

impl From<ObjectsError> for Failure {
    fn from(error: ObjectsError) -> Failure {
        let safe = "nothing is lost: the checkpoints on this machine are complete";
        let hint = match &error {
            ObjectsError::NotConfigured => "run `takeback config set fleet.objects s3://BUCKET`",
            ObjectsError::BadAddress(_) => {
                "fix `fleet.objects` in config.toml, or AWS_ENDPOINT_URL"
            }
            ObjectsError::NotJoined => "run `takeback fleet init`",
            ObjectsError::NoCredentials => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ObjectsError::NoBucket { .. } => {
                "create it, or fix `fleet.objects` in config.toml; takeback creates no buckets"
            }
            ObjectsError::Permission { .. } => {
                "the keys need the rights to list, read, create and delete objects there"
            }
            ObjectsError::Credentials { .. } => {
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
            }
            ObjectsError::Clock { .. } => "set the clock; nothing is lost",
            ObjectsError::Region { .. } => "set AWS_REGION to the region of the bucket",
            ObjectsError::NotS3 { .. } => "check `fleet.objects` and AWS_ENDPOINT_URL",
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
