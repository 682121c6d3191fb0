//! Certificates made for one server.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// What a server with TLS asks of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Clients check the server's certificate and show none of their own.
    Server,
    /// Clients must show a certificate too.
    Mutual,
    /// As [`Server`](Tls::Server), but its certificate has long expired.
    Expired,
}

/// The files of one throw-away authority: PEM, in the server's own directory.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate; what a client trusts.
    pub ca: PathBuf,
    /// The server's certificate, for `localhost` and `127.0.0.1`.
    pub server_cert: PathBuf,
    /// The server's private key.
    pub server_key: PathBuf,
    /// A client's certificate.
    pub client_cert: PathBuf,
    /// A client's private key.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes an authority and writes its certificates into `dir`.
    pub fn generate(dir: &Path, tls: Tls) -> Self {
        let ca_key = key();
        let mut ca = params("distlock test authority", &[]);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_cert = ca.self_signed(&ca_key).expect("a well-formed authority can be signed");
        let issuer = Issuer::new(ca, ca_key);

        let issue = |mut params: CertificateParams, usages: &[ExtendedKeyUsagePurpose]| {
            let key = key();
            params.extended_key_usages = usages.to_vec();
            let cert = params.signed_by(&key, &issuer).expect("a well-formed request is signed");
            (cert.pem(), key.serialize_pem())
        };
        let hosts = ["localhost", "127.0.0.1"];
        // Servers of a cluster are each other's clients.
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let mut server = params("distlock test server", &hosts);
        if tls == Tls::Expired {
            server.not_before = rcgen::date_time_ymd(2019, 1, 1);
            server.not_after = rcgen::date_time_ymd(2019, 12, 31);
        }
        let server = issue(server, &both);
        let client = issue(params("distlock test client", &[]), &both[1..]);

        let write = |name: &str, pem: &str| {
            let path = dir.join(name);
            fs::write(&path, pem).expect("the server's own directory can be written to");
            path
        };
        Certificates {
            ca: write("ca.pem", &ca_cert.pem()),
            server_cert: write("server.pem", &server.0),
            server_key: write("server.key", &server.1),
            client_cert: write("client.pem", &client.0),
            client_key: write("client.key", &client.1),
        }
    }

    /// The query part of a URL by which a client finds its files.
    pub(super) fn query(&self, tls: Tls) -> String {
        let ca = format!("?ca={}", self.ca.display());
        match tls {
            Tls::Server | Tls::Expired => ca,
            Tls::Mutual => {
                let (cert, key) = (self.client_cert.display(), self.client_key.display());
                format!("{ca}&cert={cert}&key={key}")
            }
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the system gives random bytes")
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the host names are plain ASCII");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
