//! Where the daemon listens: addresses, TLS, and what a connection may take.
//!
//! The daemon has one table of listeners, a line for each protocol that it speaks. What holds for
//! all of them is decided here alone: an address that others can reach is refused unless it is
//! safe, and all ports are taken before anything else is started.

mod connection_limit;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, extract::Request};
use axum_server::{Handle, Server, accept::Accept, tls_rustls::RustlsConfig};
use hyper_util::rt::TokioTimer;
use rustls::ServerConfig;

use self::connection_limit::ConnectionLimit;
use crate::error::CliError;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 8 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// How long a client may take for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// What the settings say of one listener.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// Its section of the configuration, whose keys messages name.
    pub section: &'static str,
    /// Where.
    pub address: SocketAddr,
    /// Certificate and key as PEM files; `None` where it speaks without TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Connections at a time; one more is closed at once.
    pub connections: usize,
}

impl ListenerSettings {
    /// Whether this machine alone can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Refuses an address that others can reach, unless it is safe.
    pub fn check(&self, has_tokens: impl FnOnce() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let Self { section, address, .. } = self;
        if self.is_loopback() {
            return Ok(());
        }
        if self.tls.is_none() {
            let message =
                format!("{address} can be reached from other machines, and TLS is not set up");
            let hint =
                format!("set {section}.tls_cert and {section}.tls_key, or listen on 127.0.0.1");
            return Err(CliError::refused(message).hint(hint).into());
        }
        // Only the cookie file would be left, and whoever is elsewhere can't read that.
        if !has_tokens()? {
            let message =
                format!("{address} can be reached from other machines, and there are no tokens");
            let hint = "create one with `unspent token add`, or listen on 127.0.0.1";
            return Err(CliError::refused(message).hint(hint).into());
        }
        Ok(())
    }

    /// Takes the port.
    pub fn bind(self) -> anyhow::Result<BoundListener> {
        let address = self.address;
        let socket = TcpListener::bind(address).map_err(|error| {
            CliError::refused(format!("can't listen on {address}: {error}"))
                .hint("is another daemon running? choose another port with --listen")
        })?;
        // The runtime takes it over as it is: a blocking accept would hold one of its threads.
        socket.set_nonblocking(true).context("can't use the socket")?;
        // Port 0 in the settings is any that is free.
        let address = socket.local_addr().context("the socket has no address")?;
        Ok(BoundListener { settings: self, socket, address })
    }
}

/// A listener whose port is taken. Nobody is answered yet.
#[derive(Debug)]
pub struct BoundListener {
    settings: ListenerSettings,
    socket: TcpListener,
    address: SocketAddr,
}

impl BoundListener {
    /// Where it is reached: `https://127.0.0.1:8480`.
    pub fn url(&self) -> String {
        let scheme = if self.settings.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The port it listens on: the one that the system chose where the settings say 0.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers with these routes until the handle ends it.
    pub async fn serve(self, router: Router, handle: Handle<SocketAddr>) -> anyhow::Result<()> {
        let Self { settings, socket, .. } = self;
        let Some((cert, key)) = &settings.tls else {
            let server = axum_server::from_tcp(socket).context("can't use the socket")?;
            return run(&settings, server, router, handle).await;
        };
        let tls = tls(settings.section, cert, key).await?;
        let server = axum_server::from_tcp_rustls(socket, tls);
        run(&settings, server.context("can't use the socket")?, router, handle).await
    }
}

/// The certificate of the files. HTTP/1.1 alone is offered, as nothing else is spoken: who is
/// promised HTTP/2 speaks it, and is never understood.
async fn tls(section: &str, cert: &Path, key: &Path) -> anyhow::Result<RustlsConfig> {
    // Only a second call in one process fails, and then the first one holds.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = RustlsConfig::from_pem_file(cert, key).await.map_err(|error| {
        CliError::input(format!("the certificate or its key can't be used: {error}"))
            .hint(format!("{section}.tls_cert and {section}.tls_key must be PEM files"))
    })?;
    let mut settings = ServerConfig::clone(&tls.get_inner());
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    tls.reload_from_config(Arc::new(settings));
    Ok(tls)
}

async fn run<A>(
    settings: &ListenerSettings,
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
    let most = settings.connections;
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
