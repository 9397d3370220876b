//! Keys and certificates, made for one run: those of a control plane in memory, those of a server and its client as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The name that the API server's front proxy shows to aggregated API servers.
pub(crate) const FRONT_PROXY_NAME: &str = "front-proxy-client";

/// PEM texts for the API server's command line.
#[derive(Debug)]
pub(crate) struct Pki {
    pub(crate) service_account_key: String,
    pub(crate) service_account_public_key: String,
    pub(crate) front_proxy_ca: String,
    pub(crate) front_proxy_cert: String,
    pub(crate) front_proxy_key: String,
}

/// Makes fresh P-256 keys and the front-proxy pair of CA and client certificate.
pub(crate) fn generate() -> Result<Pki> {
    let service_account = KeyPair::generate().context("failed to make the service account key")?;

    let ca_key = KeyPair::generate().context("failed to make the front-proxy CA key")?;
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "front-proxy-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_cert = ca.self_signed(&ca_key).context("failed to sign the front-proxy CA")?;

    let client_key = KeyPair::generate().context("failed to make the front-proxy key")?;
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, FRONT_PROXY_NAME);
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    client.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let issuer = Issuer::new(ca, ca_key);
    let client_cert =
        client.signed_by(&client_key, &issuer).context("failed to sign the front-proxy client")?;

    Ok(Pki {
        service_account_key: service_account.serialize_pem(),
        service_account_public_key: service_account.public_key_pem(),
        front_proxy_ca: ca_cert.pem(),
        front_proxy_cert: client_cert.pem(),
        front_proxy_key: client_key.serialize_pem(),
    })
}

/// Files of a CA, of one that signed nothing, and certificates with their keys.
#[derive(Debug)]
pub struct MutualTls {
    pub ca: PathBuf,
    pub other_ca: PathBuf,
    pub server: (PathBuf, PathBuf),
    pub client: (PathBuf, PathBuf),
}

impl MutualTls {
    /// Writes the files into `folder`, for a server of this name.
    pub fn new(folder: &Path, server: &str) -> Result<Self> {
        let file = |name: &str, text: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text)?;
            Ok(path)
        };
        let authority = || -> Result<(String, Issuer<'static, KeyPair>)> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            Ok((params.self_signed(&key)?.pem(), Issuer::new(params, key)))
        };
        let (ca, issuer) = authority()?;
        let leaf = |name: &str, usage: ExtendedKeyUsagePurpose| -> Result<(PathBuf, PathBuf)> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.extended_key_usages = vec![usage];
            let cert = params.signed_by(&key, &issuer)?;
            Ok((
                file(&format!("{name}.crt"), &cert.pem())?,
                file(&format!("{name}.key"), &key.serialize_pem())?,
            ))
        };
        Ok(Self {
            ca: file("ca.crt", &ca)?,
            other_ca: file("other-ca.crt", &authority()?.0)?,
            server: leaf(server, ExtendedKeyUsagePurpose::ServerAuth)?,
            client: leaf("operator.example", ExtendedKeyUsagePurpose::ClientAuth)?,
        })
    }
}
