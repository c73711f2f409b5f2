//! Encrypted connections to the database, with rustls.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::Socket;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

/// Makes encrypted connections. The server's certificate must be valid for the server's name.
#[derive(Clone)]
pub(crate) struct Rustls {
    config: Arc<ClientConfig>,
}

impl Rustls {
    /// Loads the certificates in the file, or those that the system trusts if there is no file.
    pub(crate) fn new(file: Option<&Path>) -> io::Result<Rustls> {
        let mut roots = RootCertStore::empty();
        let certificates = match file {
            Some(file) => read_certificates(file)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(certificates);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Rustls { config: Arc::new(config) })
    }
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let named = |problem: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {problem}", file.display()))
    };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| named(&error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| named(&error))?;
    match found.is_empty() {
        true => Err(named(&"the file contains no certificate")),
        false => Ok(found),
    }
}

/// Explains why an encrypted connection could not be made. Returns `None` for any other error.
pub(crate) fn explain(error: &postgres::Error) -> Option<&'static str> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(describe(error));
        }
        next = error.source();
    }
    None
}

fn describe(error: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(problem) = error else {
        return "the encrypted connection failed";
    };
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host name"
        }
        CertificateError::UnknownIssuer => "its certificate comes from an unknown authority",
        _ => "its certificate is not valid",
    }
}

impl MakeTlsConnect<Socket> for Rustls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.config)), name })
    }
}

/// The handshake with a host, which turns a connection into an encrypted one.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            Ok(Encrypted(Box::new(self.connector.connect(self.name, socket).await?)))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Encrypted(Box<RustlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
