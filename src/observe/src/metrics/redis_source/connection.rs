//! A connection to a Redis server: opened, authenticated, and on one of its databases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::text::with_causes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::protocol::{self, Value};
use super::{RedisSource, RedisTls, refused};
use crate::metrics::answer::{Outage, Why, cut};
use crate::metrics::call::NUMBER_MAX_BYTES;

/// Longest wait for a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
}

impl Connection {
    /// Connects, and is ready for commands on the database.
    ///
    /// # Errors
    /// `Outage` without a connection, `NotPermitted` without the password or where the server refuses it.
    pub(super) async fn open(source: &RedisSource, database: u32) -> Result<Self, Why> {
        let opened = tokio::time::timeout(CONNECT_DEADLINE, stream(source)).await;
        let stream = opened.unwrap_or(Err(Why::Outage(Outage::Deadline(CONNECT_DEADLINE))))?;
        let mut connection = Self { stream, read: Vec::new() };
        if let Some(file) = &source.password_file {
            let password = password(file)?;
            let answer = match &source.username {
                Some(name) => connection.call(&["AUTH", name, &password]).await?,
                None => connection.call(&["AUTH", &password]).await?,
            };
            refused(&answer)?;
        }
        if database != 0 {
            refused(&connection.call(&["SELECT", &database.to_string()]).await?)?;
        }
        Ok(connection)
    }

    /// Sends a command and reads its answer, which may be an error of the server.
    pub(super) async fn call(&mut self, command: &[&str]) -> Result<Value, Why> {
        let lost = |error: std::io::Error| Why::Outage(Outage::Unreachable(cut(&with_causes(&error), 300)));
        self.stream.write_all(&protocol::written(command)).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)?;
        let mut buffer = [0; 4096];
        loop {
            let found =
                protocol::read(&self.read).map_err(|problem| Why::Outage(Outage::Garbled(problem)))?;
            if let Some((value, length)) = found {
                self.read.drain(..length);
                return Ok(value);
            }
            if NUMBER_MAX_BYTES < self.read.len() {
                let words = format!("it has more than {} KiB", NUMBER_MAX_BYTES >> 10);
                return Err(Why::Outage(Outage::Garbled(words)));
            }
            match self.stream.read(&mut buffer).await.map_err(lost)? {
                0 => {
                    let words = "the server closed the connection".to_owned();
                    return Err(Why::Outage(Outage::Unreachable(words)));
                }
                length => self.read.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

async fn stream(source: &RedisSource) -> Result<Box<dyn Stream>, Why> {
    let lost =
        |error: &dyn std::error::Error| Why::Outage(Outage::Unreachable(cut(&with_causes(error), 300)));
    let plain = TcpStream::connect(&source.address).await.map_err(|error| lost(&error))?;
    let Some(RedisTls { ca_file, server_name }) = &source.tls else { return Ok(Box::new(plain)) };
    let wrong = |problem: String| Why::NotPermitted(problem);
    let host = source.address.rsplit_once(':').map_or(source.address.as_str(), |(host, _)| host);
    let name = server_name.as_deref().unwrap_or(host.trim_matches(['[', ']'])).to_owned();
    let name = ServerName::try_from(name).map_err(|error| wrong(format!("tls.serverName: {error}")))?;
    let config = tls(ca_file).map_err(wrong)?;
    let connector = TlsConnector::from(Arc::new(config));
    let encrypted = connector.connect(name, plain).await.map_err(|error| lost(&error))?;
    Ok(Box::new(encrypted))
}

/// Trust in the CAs of a file, and in no others.
fn tls(ca_file: &Path) -> Result<ClientConfig, String> {
    let unreadable = |error: String| format!("caFile {} cannot be read: {error}", ca_file.display());
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(ca_file).map_err(|error| unreadable(error.to_string()))? {
        let one = one.map_err(|error| unreadable(error.to_string()))?;
        roots.add(one).map_err(|error| unreadable(error.to_string()))?;
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn password(file: &Path) -> Result<String, Why> {
    let read = std::fs::read_to_string(file).map_err(|error| {
        Why::NotPermitted(format!("passwordFile {} of the source cannot be read: {error}", file.display()))
    })?;
    Ok(read.trim_end_matches(['\r', '\n']).to_owned())
}
