//! A TCP link between two programs that can be slowed, frozen, cut and turned to another server; it reads nothing.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};

/// State of the link at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The port on loopback that it leads to.
    target: u16,
    /// Each piece is held for so long, in each direction.
    delay: Duration,
    /// Connections stay open and nothing passes.
    frozen: bool,
    /// New connections are closed at once.
    down: bool,
    /// Connections made before it grew are closed.
    cuts_count: u64,
}

/// A port on loopback behind which a server's port lies. Dropping it closes all connections.
#[derive(Debug)]
pub struct Link {
    port: u16,
    state: Sender<State>,
    accepting: JoinHandle<()>,
}

impl Link {
    /// A link to `target` on loopback, quick and open. It lives on the test's runtime.
    pub async fn to(target: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("failed to open a link")?;
        let port = listener.local_addr()?.port();
        let (state, seen) =
            channel(State { target, delay: Duration::ZERO, frozen: false, down: false, cuts_count: 0 });
        Ok(Self { port, state, accepting: tokio::spawn(accept(listener, seen)) })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on each piece of data takes so long in each direction.
    pub fn slow_down(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// Connections stay open and nothing passes, or what was held passes now.
    pub fn freeze(&self, frozen: bool) {
        self.state.send_modify(|state| state.frozen = frozen);
    }

    /// Closes all connections and takes no new ones, or takes them again.
    pub fn cut(&self, down: bool) {
        self.state.send_modify(|state| {
            state.down = down;
            state.cuts_count += 1;
        });
    }

    /// Closes all connections; new ones lead to `target`.
    pub fn turn_to(&self, target: u16) {
        self.state.send_modify(|state| {
            state.target = target;
            state.cuts_count += 1;
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Receiver<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if !state.borrow().down {
            connections.spawn(connection(client, state.clone()));
        }
    }
}

/// One connection until either side closes it or the link is cut.
async fn connection(client: TcpStream, state: Receiver<State>) {
    let State { target, cuts_count, .. } = *state.borrow();
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    // Small pieces are not to wait for each other: only the link's own delay counts.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut ended = state.clone();
    tokio::select! {
        () = pass(from_client, to_server, state.clone()) => {}
        () = pass(from_server, to_client, state) => {}
        _ = ended.wait_for(|state| state.cuts_count != cuts_count) => {}
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut state: Receiver<State>) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let delay = state.borrow().delay;
        tokio::time::sleep(delay).await;
        let open = state.wait_for(|state| !state.frozen).await.is_ok();
        if !open || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each byte with the same.
    async fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = socket.read_u8().await {
                        let _ = socket.write_u8(byte).await;
                    }
                });
            }
        });
        port
    }

    /// What is answered; a busy machine may take long.
    async fn answer(socket: &mut TcpStream, byte: u8) -> Option<u8> {
        socket.write_u8(byte).await.ok()?;
        tokio::time::timeout(Duration::from_secs(30), socket.read_u8())
            .await
            .expect("an answer or an end")
            .ok()
    }

    /// True if nothing is answered for a while.
    async fn is_silent(socket: &mut TcpStream, byte: u8) -> bool {
        tokio::time::timeout(Duration::from_millis(300), answer(socket, byte)).await.is_err()
    }

    #[tokio::test]
    async fn a_frozen_link_holds_what_was_said_and_a_cut_one_closes() {
        let link = Link::to(echo().await).await.unwrap();
        let mut socket = TcpStream::connect(("127.0.0.1", link.port())).await.unwrap();
        assert_eq!(answer(&mut socket, 7).await, Some(7));
        link.freeze(true);
        assert!(is_silent(&mut socket, 8).await);
        link.freeze(false);
        assert_eq!(socket.read_u8().await.unwrap(), 8);
        link.cut(true);
        assert!(socket.read_u8().await.is_err());
        let mut refused = TcpStream::connect(("127.0.0.1", link.port())).await.unwrap();
        assert_eq!(answer(&mut refused, 9).await, None);
        link.cut(false);
        let mut again = TcpStream::connect(("127.0.0.1", link.port())).await.unwrap();
        assert_eq!(answer(&mut again, 9).await, Some(9));
    }
}
