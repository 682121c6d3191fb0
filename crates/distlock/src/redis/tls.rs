//! TLS, always verified.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connect::TlsOptions;

/// Shakes hands on `stream`. The files are read anew each time, so that renewed certificates are taken up.
pub(crate) async fn wrap(
    stream: TcpStream,
    host: &str,
    options: &TlsOptions,
) -> io::Result<TlsStream<TcpStream>> {
    let name = options.sni.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| invalid("the host, or `sni`, is not a name that a certificate can have"))?;
    let options = options.clone();
    // Reading the system's certificates takes milliseconds, too long for a runtime's thread.
    let config = tokio::task::spawn_blocking(move || config(&options))
        .await
        .map_err(|_| io::Error::other("the runtime is shutting down"))??;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|why| {
        let said = why.get_ref().and_then(|why| why.downcast_ref::<rustls::Error>());
        match said {
            // What came back is no record of TLS: a plain Redis answers with a text.
            Some(rustls::Error::InvalidMessage(_)) => {
                let text = "the server's reply is not TLS: write redis:// instead of rediss:// if this port is not encrypted";
                io::Error::new(io::ErrorKind::InvalidData, text)
            }
            _ => why,
        }
    })
}

fn config(options: &TlsOptions) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|why| unusable(path, &why))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(invalid("no certificate to trust: give one with `ca`"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|why| unusable(key, &why))?;
            let chain = certificates(cert)?;
            builder.with_client_auth_cert(chain, private).map_err(|why| unusable(cert, &why))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|why| unusable(path, &why))?.collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path, &"no certificate in it")),
        Ok(found) => Ok(found),
        Err(why) => Err(unusable(path, &why)),
    }
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    invalid(&format!("{}: {why}", path.display()))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
