//! A bounded number of connections: one more is closed at once.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Accepts while there are fewer connections than allowed.
#[derive(Clone)]
pub(super) struct ConnectionLimit<A> {
    inner: A,
    free: Arc<Semaphore>,
}

impl<A> ConnectionLimit<A> {
    pub(super) fn new(inner: A, most: usize) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(most)) }
    }
}

type Accepting<T, S> = Pin<Box<dyn Future<Output = io::Result<(LimitedStream<T>, S)>> + Send>>;

impl<A, I, S> Accept<I, S> for ConnectionLimit<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: 'static,
    A::Service: 'static,
{
    type Stream = LimitedStream<A::Stream>;
    type Service = A::Service;
    type Future = Accepting<A::Stream, A::Service>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        // Before the handshake: that is what costs, and a client that never ends it must count too.
        let permit = self.free.clone().try_acquire_owned();
        let accepting = self.inner.accept(stream, service);
        Box::pin(async move {
            let permit = permit.map_err(|_| io::Error::other("too many connections"))?;
            let (stream, service) = accepting.await?;
            Ok((LimitedStream { stream, _permit: permit }, service))
        })
    }
}

/// A connection that counts against the limit until it ends.
pub(super) struct LimitedStream<T> {
    stream: T,
    _permit: OwnedSemaphorePermit,
}

impl<T: AsyncRead + Unpin> AsyncRead for LimitedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for LimitedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
