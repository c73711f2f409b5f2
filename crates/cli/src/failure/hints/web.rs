//! Hints for the errors of `takeback serve`.

use takeback_web::CertificateError;

use crate::failure::Failure;

impl From<CertificateError> for Failure {
    fn from(error: CertificateError) -> Failure {
        Failure::of(&error).hint("both files must be in PEM format, and belong together")
    }
}
