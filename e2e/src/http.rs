//! GET over plain HTTP on loopback, for servers that are asked by tests alone.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The body of `path`. Errors for any answer but 200.
pub async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.context("failed to connect")?;
    // Version 1.0: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.split(' ').nth(1) == Some("200"), "{path} says {status}: {body}");
    Ok(body.to_owned())
}

/// Escapes everything but letters and digits of ASCII for the value of a query.
pub fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}
