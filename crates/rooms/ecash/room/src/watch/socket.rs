//! One WebSocket to a mint, with the messages of NUT-17.

use std::{
    io,
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use cashu::mint_url::MintUrl;
use serde::Deserialize;
use serde_json::{Value, json};
use tungstenite::{
    Message, WebSocket, client_tls_with_config, protocol::WebSocketConfig, stream::MaybeTlsStream,
};
use unspent_engine::outgoing::{may_call, private};

use super::{super::mint::PERMISSION, ListenerOptions, MintWatch};

/// Largest message: a notice holds a quote with its change.
const MESSAGE_BYTES: usize = 1 << 20;
/// How long reading may wait before the thread looks at something else.
const READ_SLICE: Duration = Duration::from_millis(200);

/// What came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SocketNews {
    /// A request was granted.
    Granted(u64),
    /// A request was refused.
    Refused(u64),
    /// There is news under this subscription.
    Notice(String),
    /// Nothing that matters here.
    Nothing,
}

/// An open socket.
pub(super) struct Socket {
    inner: WebSocket<MaybeTlsStream<TcpStream>>,
    next_id: u64,
    /// When something last came.
    heard_at: Instant,
    pinged_at: Instant,
    options: ListenerOptions,
}

impl Socket {
    /// Connects to a mint. The error says why not, without secrets: the address is the mint's own.
    pub(super) fn connect(mint: &MintUrl, options: ListenerOptions) -> Result<Self, String> {
        let url = mint.join("v1/ws").map_err(|error| error.to_string())?;
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        let host = url.host_str().ok_or("the address names no host")?;
        let port = url.port_or_known_default().ok_or("the address names no port")?;
        let stream = reach(host, port, options)?;
        let timed = stream.try_clone().map_err(|error| error.to_string())?;
        let request = format!("{scheme}{}", url.as_str().trim_start_matches(url.scheme()));
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES))
            .max_frame_size(Some(MESSAGE_BYTES));
        let (inner, _) = client_tls_with_config(request, stream, Some(config), None)
            .map_err(|error| error.to_string())?;
        // Only now: while TLS and HTTP are agreed on, a slow mint may take its whole deadline.
        timed.set_read_timeout(Some(READ_SLICE)).map_err(|error| error.to_string())?;
        let now = Instant::now();
        Ok(Self { inner, next_id: 1, heard_at: now, pinged_at: now, options })
    }

    /// Asks for notices; returns the number under which the mint answers.
    pub(super) fn subscribe(&mut self, id: &str, watch: &MintWatch) -> Result<u64, String> {
        let params = json!({ "kind": watch.kind.name(), "subId": id, "filters": watch.filters });
        self.request("subscribe", &params)
    }

    /// Wants no more notices.
    pub(super) fn unsubscribe(&mut self, id: &str) -> Result<u64, String> {
        self.request("unsubscribe", &json!({ "subId": id }))
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<u64, String> {
        let id = self.next_id;
        self.next_id += 1;
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": id });
        self.send(Message::text(text.to_string())).map(|()| id)
    }

    fn send(&mut self, message: Message) -> Result<(), String> {
        self.inner.send(message).map_err(|error| error.to_string())
    }

    /// Waits a moment for something to come. Silence is broken by a ping; a silence that goes on
    /// is an error, as is the end of the connection.
    pub(super) fn hear(&mut self) -> Result<SocketNews, String> {
        match self.inner.read() {
            Ok(message) => {
                self.heard_at = Instant::now();
                Ok(match message {
                    Message::Text(text) => heard(text.as_str()),
                    Message::Close(_) => return Err("the mint closed the connection".into()),
                    Message::Binary(_)
                    | Message::Ping(_)
                    | Message::Pong(_)
                    | Message::Frame(_) => SocketNews::Nothing,
                })
            }
            Err(tungstenite::Error::Io(error)) if is_timeout(&error) => self.endure_silence(),
            Err(error) => Err(error.to_string()),
        }
    }

    fn endure_silence(&mut self) -> Result<SocketNews, String> {
        let silence = self.heard_at.elapsed();
        if silence > self.options.dead_after {
            return Err(format!("nothing was heard for {} s", silence.as_secs()));
        }
        if silence.min(self.pinged_at.elapsed()) > self.options.ping_every {
            self.pinged_at = Instant::now();
            self.send(Message::Ping(Vec::new().into()))?;
        }
        Ok(SocketNews::Nothing)
    }

    pub(super) fn close(mut self) {
        // Whoever is gone doesn't hear it.
        let _ = self.inner.close(None);
        let _ = self.inner.flush();
    }
}

fn reach(host: &str, port: u16, options: ListenerOptions) -> Result<TcpStream, String> {
    let deadline = options.deadline;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (name, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut reason = "the name leads nowhere".to_owned();
    for address in addresses {
        // What is dialled is what was checked: a name may lead elsewhere when it is asked a second
        // time.
        if !may_call(address.ip(), options.allow_private) {
            reason = private(PERMISSION);
            continue;
        }
        match TcpStream::connect_timeout(&address, deadline) {
            Ok(stream) => {
                let set = stream
                    .set_read_timeout(Some(deadline))
                    .and_then(|()| stream.set_write_timeout(Some(deadline)))
                    .and_then(|()| stream.set_nodelay(true));
                return set.map(|()| stream).map_err(|error| error.to_string());
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    error: Option<Value>,
    method: Option<String>,
    params: Option<NoticeParams>,
}

#[derive(Deserialize)]
struct NoticeParams {
    #[serde(rename = "subId")]
    sub_id: String,
}

/// What a message says. One that can't be read says nothing: the next look finds out.
fn heard(text: &str) -> SocketNews {
    let Ok(incoming) = serde_json::from_str::<Incoming>(text) else { return SocketNews::Nothing };
    match incoming {
        Incoming { method: Some(method), params: Some(params), .. } if method == "subscribe" => {
            SocketNews::Notice(params.sub_id)
        }
        Incoming { id: Some(id), error: Some(error), .. } if !error.is_null() => {
            SocketNews::Refused(id)
        }
        Incoming { id: Some(id), .. } => SocketNews::Granted(id),
        _ => SocketNews::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_understood_and_nonsense_is_not() {
        let notice =
            r#"{"jsonrpc":"2.0","method":"subscribe","params":{"subId":"a","payload":{}}}"#;
        assert_eq!(heard(notice), SocketNews::Notice("a".into()));
        let granted = r#"{"jsonrpc":"2.0","result":{"status":"OK","subId":"a"},"id":3}"#;
        assert_eq!(heard(granted), SocketNews::Granted(3));
        let refused = r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"},"id":3}"#;
        assert_eq!(heard(refused), SocketNews::Refused(3));
        for nonsense in ["", "[]", "{}", r#"{"method":"subscribe"}"#, r#"{"id":"x"}"#] {
            assert_eq!(heard(nonsense), SocketNews::Nothing, "{nonsense}");
        }
    }
}
