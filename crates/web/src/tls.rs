//! Encryption for servers that listen on the network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The maximum time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The maximum number of TLS handshakes at the same time.
const MAX_HANDSHAKES: usize = 64;

/// The pause after a failure to accept a connection, for example because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// A certificate and its key, ready for use.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum CertificateError {
    #[error("the certificate is not in PEM format")]
    Chain(#[source] pem::Error),
    #[error("there is no certificate in the file")]
    NoCertificate,
    #[error("the key is not in PEM format")]
    Key(#[source] pem::Error),
    #[error("the certificate or the key cannot be used")]
    Unusable(#[source] rustls::Error),
}

impl Certificate {
    /// Reads a certificate with its chain, and its private key, from the contents of two files in
    /// PEM format.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(CertificateError::Chain)?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(CertificateError::Unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Certificate(Arc::new(config)))
    }
}

/// A listener whose connections are encrypted. Slow clients do not keep others waiting.
pub(crate) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    pub(crate) fn start(
        listener: TcpListener,
        certificate: Certificate,
    ) -> io::Result<TlsListener> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(MAX_HANDSHAKES);
        task::spawn(accept_all(listener, certificate.0.into(), sender));
        Ok(TlsListener { ready, address })
    }
}

/// Accepts connections until the listener is dropped.
async fn accept_all(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    while !ready.is_closed() {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let Ok((stream, address)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        task::spawn(async move {
            let agreed = timeout(HANDSHAKE, acceptor.accept(stream)).await;
            drop(place);
            // A client whose handshake fails is dropped.
            if let Ok(Ok(stream)) = agreed {
                let _ = ready.send((stream, address)).await;
            }
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The task that accepts connections ends only after this listener is dropped.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
