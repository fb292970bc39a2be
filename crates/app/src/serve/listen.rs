//! The socket, TLS, and what a connection may take.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{Router, extract::Request};
use axum_server::{Handle, Server, accept::Accept, tls_rustls::RustlsConfig};
use hyper_util::rt::TokioTimer;
use rustls::ServerConfig;
use unspent_server::{config::Config, error::CliError};

use super::connection_limit::ConnectionLimit;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 8 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// How long a client may take for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Refuses an address that others can reach, unless it is safe.
pub(super) fn check(
    config: &Config,
    has_tokens: impl FnOnce() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let listen = config.http.listen;
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if config.http.tls_cert.is_none() {
        let message = format!("{listen} can be reached by others, and there is no TLS");
        let hint = "set http.tls_cert and http.tls_key, or listen on 127.0.0.1";
        return Err(CliError::refused(message).hint(hint).into());
    }
    if !has_tokens()? {
        let message = format!("{listen} can be reached by others, and there are no tokens");
        let hint = "make one with `unspent token add`, or listen on 127.0.0.1";
        return Err(CliError::refused(message).hint(hint).into());
    }
    Ok(())
}

/// Takes the port before anything else is started.
pub(super) fn bind(config: &Config) -> anyhow::Result<std::net::TcpListener> {
    let listen = config.http.listen;
    let socket = std::net::TcpListener::bind(listen).map_err(|error| {
        CliError::refused(format!("can't listen on {listen}: {error}"))
            .hint("is another daemon running? choose another port with --listen")
    })?;
    socket.set_nonblocking(true).context("the socket can't be used")?;
    Ok(socket)
}

/// Serves until the handle ends it.
pub(super) async fn serve(
    config: &Config,
    socket: std::net::TcpListener,
    router: Router,
    handle: Handle<SocketAddr>,
) -> anyhow::Result<()> {
    let (Some(cert), Some(key)) = (&config.http.tls_cert, &config.http.tls_key) else {
        let server = axum_server::from_tcp(socket).context("the socket can't be used")?;
        return run(config, server, router, handle).await;
    };
    let tls = tls(cert, key).await?;
    let server = axum_server::from_tcp_rustls(socket, tls).context("the socket can't be used")?;
    run(config, server, router, handle).await
}

/// The certificate of the files. HTTP/1.1 alone is offered, as nothing else is spoken: who is
/// promised HTTP/2 speaks it, and is never understood.
async fn tls(cert: &Path, key: &Path) -> anyhow::Result<RustlsConfig> {
    // Only a second call in one process fails, and then the first one holds.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = RustlsConfig::from_pem_file(cert, key).await.map_err(|error| {
        CliError::input(format!("the certificate or its key can't be used: {error}"))
            .hint("http.tls_cert and http.tls_key are PEM files")
    })?;
    let mut settings = ServerConfig::clone(&tls.get_inner());
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    tls.reload_from_config(Arc::new(settings));
    Ok(tls)
}

async fn run<A>(
    config: &Config,
    server: Server<SocketAddr, A>,
    router: Router,
    handle: Handle<SocketAddr>,
) -> anyhow::Result<()>
where
    A: Accept<
            tokio::net::TcpStream,
            axum::middleware::AddExtension<Router, axum::extract::ConnectInfo<SocketAddr>>,
        > + Clone
        + Send
        + Sync
        + 'static,
    A::Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    A::Service: axum_server::service::SendService<Request<hyper::body::Incoming>> + Send + 'static,
    A::Future: Send + 'static,
{
    let most = config.http.connections;
    let mut server =
        server.map(|accept| ConnectionLimit::new(accept, most)).handle(handle).http1_only();
    let http = server.http_builder();
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    server.serve(service).await.context("the server failed")
}
