use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h3::error::{Code, StreamError};
use h3::server::RequestStream;
use http_body::{Body, Frame, SizeHint};

/// The body of an HTTP/3 request, read from its stream as it is asked for.
pub struct QuicBody {
    stream: RequestStream<h3_quinn::RecvStream, Bytes>,
    /// Bytes still to come, where the request has said so.
    announced: Option<u64>,
    ended: bool,
}

impl QuicBody {
    /// The body that follows the header section on `stream`; `announced` is the request's `Content-Length`.
    pub fn new(stream: RequestStream<h3_quinn::RecvStream, Bytes>, announced: Option<u64>) -> QuicBody {
        QuicBody { stream, announced, ended: false }
    }
}

impl Body for QuicBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let data = match ready!(self.stream.poll_recv_data(context)) {
            Ok(data) => data.map(|mut data| data.copy_to_bytes(data.remaining())),
            Err(error) => {
                self.ended = true;
                return Poll::Ready(Some(Err(error)));
            }
        };
        match &data {
            Some(data) => self.announced = self.announced.map(|left| left.saturating_sub(data.len() as u64)),
            None => self.ended = true,
        }
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for QuicBody {
    /// A client that still sends is told that the rest is not needed, which is no error (RFC 9114 section 4.1).
    fn drop(&mut self) {
        if !self.ended {
            self.stream.stop_sending(Code::H3_NO_ERROR);
        }
    }
}
