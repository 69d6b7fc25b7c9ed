use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A TCP stream that is handed back when whoever uses it drops it.
///
/// A socket that is closed while its client still sends (a WINDOW_UPDATE is enough) answers with a reset, which throws
/// away what the client has not received yet. So a connection that ends in the middle of things must linger.
pub struct Lent {
    stream: Option<TcpStream>,
    owner: Option<oneshot::Sender<TcpStream>>,
}

/// The owner's claim on a lent stream.
pub struct Claim(oneshot::Receiver<TcpStream>);

/// Lends a stream.
pub fn lend(stream: TcpStream) -> (Lent, Claim) {
    let (owner, claim) = oneshot::channel();
    (Lent { stream: Some(stream), owner: Some(owner) }, Claim(claim))
}

impl Claim {
    /// Once the stream is back: ends our side, and waits until the client has ended its own.
    pub async fn linger(self) -> io::Result<()> {
        let Ok(mut stream) = self.0.await else { return Ok(()) };
        stream.shutdown().await?;
        let mut ignored = [0; 4096];
        while stream.read(&mut ignored).await? > 0 {}
        Ok(())
    }
}

impl Lent {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(self.get_mut().stream.as_mut().expect("the stream leaves only when this is dropped"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(stream), Some(owner)) = (self.stream.take(), self.owner.take()) {
            // Without a claim the stream is closed here.
            let _ = owner.send(stream);
        }
    }
}

impl AsyncRead for Lent {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Lent {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
