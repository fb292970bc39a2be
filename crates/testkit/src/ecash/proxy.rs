//! Faults between a client and a mint.
//!
//! A [`FaultProxy`] listens on a port of its own and passes requests on. What goes wrong is a
//! script: for each path a list of [`Fault`]s, of which every request takes the next; when the list
//! is at its end, requests pass. No clock and no chance decide anything.
//!
//! | fault | the mint | the client |
//! |---|---|---|
//! | [`Fault::Pass`] | gets it | gets the answer |
//! | [`Fault::DropRequest`] | never sees it | connection closed |
//! | [`Fault::DropAnswer`] | carries it out | connection closed |
//! | [`Fault::CutAnswer`] | carries it out | half of the answer |
//! | [`Fault::Delay`] | gets it late | gets the answer |
//! | [`Fault::DelayAnswer`] | carries it out | gets the answer late |
//! | [`Fault::Twice`] | gets it twice | the second answer |
//! | [`Fault::AfterNext`] | gets it after the next one on that path | gets the answer |
//! | [`Fault::Answer`] | never sees it | that answer |
//! | [`Fault::TooMany`] | never sees it | 429, and for how long |
//!
//! WebSockets pass through. They can be cut ([`FaultProxy::break_sockets`]) or made silent
//! ([`FaultProxy::mute_sockets`]), and the faults above hold for their opening.
#![allow(clippy::expect_used)]

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::http::Message;

/// A request that waits for the next one waits no longer than this.
const HOLD_PATIENCE: Duration = Duration::from_secs(60);
/// How long one side may keep the other waiting.
const IO_PATIENCE: Duration = Duration::from_secs(120);

/// What happens to one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing goes wrong.
    Pass,
    /// It is lost on its way.
    DropRequest,
    /// Its answer is lost.
    DropAnswer,
    /// Its answer breaks off in the middle.
    CutAnswer,
    /// It arrives late.
    Delay(Duration),
    /// Its answer arrives late.
    DelayAnswer(Duration),
    /// It arrives twice, and the first answer is lost.
    Twice,
    /// It arrives after the next request on the same path was answered.
    AfterNext,
    /// Somebody on the way answers.
    Answer {
        /// HTTP's status.
        status: u16,
        /// The body.
        body: String,
    },
    /// "Too many requests", and how many seconds to wait.
    TooMany(u64),
}

impl Fault {
    /// What somebody on the way answers, if it is that.
    fn answer(&self) -> Option<Message> {
        match self {
            Self::Answer { status, body } => Some(Message::answer(*status, body)),
            Self::TooMany(seconds) => {
                let mut answer = Message::answer(429, r#"{"detail":"rate limit exceeded"}"#);
                answer.headers.push(("retry-after".into(), seconds.to_string()));
                Some(answer)
            }
            Self::Pass
            | Self::DropRequest
            | Self::DropAnswer
            | Self::CutAnswer
            | Self::Delay(_)
            | Self::DelayAnswer(_)
            | Self::Twice
            | Self::AfterNext => None,
        }
    }

    /// An error as a mint words it.
    pub fn error(code: u16, detail: &str) -> Self {
        let body = serde_json::json!({ "code": code, "detail": detail });
        Self::Answer { status: 400, body: body.to_string() }
    }
}

/// A request that came, and what happened to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// HTTP's method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Its fate.
    pub fault: Fault,
}

type Edit = Arc<dyn Fn(&mut Value) + Send + Sync>;

#[derive(Default)]
struct Script {
    faults: BTreeMap<String, VecDeque<Fault>>,
    edits: BTreeMap<String, Edit>,
    seen: Vec<Seen>,
    /// Requests that are answered or lost, by the script's path.
    finished: BTreeMap<String, u64>,
    /// Both ends of every open WebSocket.
    sockets: Vec<TcpStream>,
    is_muted: bool,
    is_over: bool,
}

struct Shared {
    upstream: SocketAddr,
    script: Mutex<Script>,
    changed: Condvar,
}

/// A bad line to a mint. Dropping it closes the line.
pub struct FaultProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl FaultProxy {
    /// A line to the server at `url`, `http://127.0.0.1:port`.
    ///
    /// # Panics
    ///
    /// When the address isn't one, or no port can be had.
    pub fn start(url: &str) -> Self {
        let upstream = url.trim_start_matches("http://").trim_end_matches('/');
        let upstream = upstream.parse().expect("an address and a port");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let address = listener.local_addr().expect("a socket has an address");
        let (script, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { upstream, script, changed });
        let serving = shared.clone();
        thread::spawn(move || serving.serve(&listener));
        Self { shared, address }
    }

    /// Its address, in the place of the mint's.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The fates of the next requests whose path starts with `path`, after those told before. Of
    /// several paths that fit, the longest that has fates left counts.
    pub fn script(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        self.shared.script().faults.entry(path.to_owned()).or_default().extend(faults);
    }

    /// Changes every JSON answer under a path, such as a mint's description of itself.
    pub fn edit(&self, path: &str, edit: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.shared.script().edits.insert(path.to_owned(), Arc::new(edit));
    }

    /// All requests that came.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.script().seen.clone()
    }

    /// How many requests came under a path.
    pub fn count(&self, path: &str) -> usize {
        self.shared.script().seen.iter().filter(|seen| seen.path.starts_with(path)).count()
    }

    /// Cuts every open WebSocket; returns how many.
    pub fn break_sockets(&self) -> usize {
        let sockets = std::mem::take(&mut self.shared.script().sockets);
        sockets.iter().for_each(close);
        sockets.len() / 2
    }

    /// Lets WebSockets stand open while nothing comes through, or ends that.
    pub fn mute_sockets(&self, is_muted: bool) {
        self.shared.script().is_muted = is_muted;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.script().is_over = true;
        self.shared.changed.notify_all();
        self.break_sockets();
        // Wakes the thread that waits for somebody to come.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.script().is_over {
                return;
            }
            let Ok(stream) = stream else { continue };
            let shared = self.clone();
            // Whoever hung up knows it already.
            thread::spawn(move || drop(shared.pass(stream)));
        }
    }

    /// One connection: one request.
    fn pass(&self, client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(IO_PATIENCE))?;
        let mut from = BufReader::new(client.try_clone()?);
        let Some(mut request) = Message::read_head(&mut from)? else { return Ok(()) };
        let (method, path) = request.target();
        let (method, path) = (method.to_owned(), path.to_owned());
        let (key, fault) = self.next_fault(&method, &path);
        let done = if request.is_upgrade() {
            self.pass_socket(&request, client, from, &fault)
        } else {
            request.read_body(&mut from, false)?;
            self.carry_out(&request, client, &path, &key, &fault)
        };
        *self.script().finished.entry(key).or_default() += 1;
        self.changed.notify_all();
        done
    }

    /// The script's path that a request falls under, and its fate.
    fn next_fault(&self, method: &str, path: &str) -> (String, Fault) {
        let mut script = self.script();
        let fitting = script.faults.iter_mut().rev();
        let mut fitting = fitting.filter(|(key, _)| path.starts_with(key.as_str()));
        let next = fitting.find_map(|(key, faults)| Some((key.clone(), faults.pop_front()?)));
        let (key, fault) = next.unwrap_or_else(|| {
            let keys = script.faults.keys().rev();
            let key = keys.filter(|key| path.starts_with(key.as_str())).max_by_key(|key| key.len());
            (key.cloned().unwrap_or_default(), Fault::Pass)
        });
        let (method, path) = (method.to_owned(), path.to_owned());
        script.seen.push(Seen { method, path, fault: fault.clone() });
        (key, fault)
    }

    fn carry_out(
        &self,
        request: &Message,
        mut client: TcpStream,
        path: &str,
        key: &str,
        fault: &Fault,
    ) -> io::Result<()> {
        if let Some(answer) = fault.answer() {
            return client.write_all(&answer.bytes());
        }
        match fault {
            Fault::DropRequest => return Ok(()),
            Fault::Delay(delay) => thread::sleep(*delay),
            Fault::AfterNext => self.wait_for_next(key),
            Fault::Twice => drop(self.ask(request, path)?),
            Fault::Pass
            | Fault::DropAnswer
            | Fault::CutAnswer
            | Fault::DelayAnswer(_)
            | Fault::Answer { .. }
            | Fault::TooMany(_) => {}
        }
        let answer = self.ask(request, path)?.bytes();
        match fault {
            Fault::DropAnswer => Ok(()),
            Fault::CutAnswer => client.write_all(answer.split_at(answer.len() / 2).0),
            Fault::DelayAnswer(delay) => {
                thread::sleep(*delay);
                client.write_all(&answer)
            }
            Fault::Pass
            | Fault::DropRequest
            | Fault::Delay(_)
            | Fault::Twice
            | Fault::AfterNext
            | Fault::Answer { .. }
            | Fault::TooMany(_) => client.write_all(&answer),
        }
    }

    fn wait_for_next(&self, key: &str) {
        let (mut script, until) = (self.script(), Instant::now() + HOLD_PATIENCE);
        let known = script.finished.get(key).copied();
        while script.finished.get(key).copied() == known && !script.is_over {
            let Some(rest) = until.checked_duration_since(Instant::now()) else { return };
            let waited = self.changed.wait_timeout(script, rest);
            script = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ask(&self, request: &Message, path: &str) -> io::Result<Message> {
        let mut upstream = TcpStream::connect(self.upstream)?;
        upstream.set_read_timeout(Some(IO_PATIENCE))?;
        upstream.write_all(&request.bytes())?;
        let mut from = BufReader::new(upstream);
        let head = Message::read_head(&mut from)?;
        let mut answer = head.ok_or_else(|| io::Error::other("the server says nothing"))?;
        answer.read_body(&mut from, true)?;
        let edits = self.script().edits.clone();
        for (_, edit) in edits.iter().filter(|(key, _)| path.starts_with(key.as_str())) {
            let mut json = serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
            edit(&mut json);
            answer.body = json.to_string().into_bytes();
        }
        Ok(answer)
    }

    fn pass_socket(
        &self,
        request: &Message,
        mut client: TcpStream,
        mut from: BufReader<TcpStream>,
        fault: &Fault,
    ) -> io::Result<()> {
        if let Some(answer) = fault.answer() {
            return client.write_all(&answer.bytes());
        }
        match fault {
            Fault::DropRequest => return Ok(()),
            Fault::Delay(delay) => thread::sleep(*delay),
            Fault::Pass
            | Fault::DropAnswer
            | Fault::CutAnswer
            | Fault::DelayAnswer(_)
            | Fault::Twice
            | Fault::AfterNext
            | Fault::Answer { .. }
            | Fault::TooMany(_) => {}
        }
        let mut upstream = TcpStream::connect(self.upstream)?;
        request.write_head(&mut upstream)?;
        client.set_read_timeout(None)?;
        self.script().sockets.extend([client.try_clone()?, upstream.try_clone()?]);
        let mut back = upstream.try_clone()?;
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(self.copy(&mut back, &mut client));
                close(&client);
            });
            drop(self.copy(&mut from, &mut upstream));
            close(&upstream);
        });
        Ok(())
    }

    /// Copies bytes until an end closes; while sockets are muted they are thrown away.
    fn copy(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            if !self.script().is_muted {
                to.write_all(bytes.split_at(count).0)?;
            }
        }
    }
}

fn close(stream: &TcpStream) {
    // It may be closed already.
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A server that numbers the requests it gets, and echoes the first message of a WebSocket.
    fn server() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counted) = (stream.unwrap(), counted.clone());
                thread::spawn(move || answer(&mut stream, &counted));
            }
        });
        (url, count)
    }

    fn answer(stream: &mut TcpStream, counted: &AtomicUsize) {
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let mut request = Message::read_head(&mut from).unwrap().unwrap();
        request.read_body(&mut from, false).unwrap();
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        if request.is_upgrade() {
            let mut bytes = [0; 4];
            while from.read_exact(&mut bytes).is_ok() {
                stream.write_all(&bytes).unwrap();
            }
            return;
        }
        let body = format!(r#"{{"number":{number}}}"#);
        stream.write_all(&Message::answer(200, &body).bytes()).unwrap();
    }

    fn get(proxy: &FaultProxy, path: &str) -> Result<(u16, String), String> {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let called = config.build().new_agent().get(format!("{}{path}", proxy.url())).call();
        let mut answer = called.map_err(|error| error.to_string())?;
        let body = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        Ok((answer.status().as_u16(), body))
    }

    fn numbered(number: usize) -> Result<(u16, String), String> {
        Ok((200, format!(r#"{{"number":{number}}}"#)))
    }

    #[test]
    fn each_fault_happens_once_and_in_order() {
        let (url, count) = server();
        let proxy = FaultProxy::start(&url);
        let wait = Duration::from_millis(1);
        proxy.script("/a", [Fault::DropRequest, Fault::DropAnswer, Fault::CutAnswer]);
        proxy.script("/a", [Fault::Twice, Fault::Delay(wait), Fault::DelayAnswer(wait)]);
        proxy.script("/a", [Fault::TooMany(3), Fault::error(11_001, "spent")]);
        assert_eq!(get(&proxy, "/b"), numbered(1));
        assert!(get(&proxy, "/a").is_err() && count.load(Ordering::SeqCst) == 1);
        assert!(get(&proxy, "/a/1").is_err() && count.load(Ordering::SeqCst) == 2);
        assert!(get(&proxy, "/a").is_err() && count.load(Ordering::SeqCst) == 3);
        assert_eq!(get(&proxy, "/a"), numbered(5));
        assert_eq!(get(&proxy, "/a"), numbered(6));
        assert_eq!(get(&proxy, "/a"), numbered(7));
        assert_eq!(get(&proxy, "/a").unwrap().0, 429);
        let error = get(&proxy, "/a").unwrap();
        assert!(error.0 == 400 && error.1.contains("11001"), "{error:?}");
        assert_eq!(get(&proxy, "/a"), numbered(8));
        assert_eq!((proxy.count("/a"), proxy.count("/b")), (9, 1));
    }

    #[test]
    fn a_held_request_arrives_after_the_next_one() {
        let (url, _) = server();
        let proxy = FaultProxy::start(&url);
        proxy.script("/a", [Fault::AfterNext]);
        thread::scope(|scope| {
            let held = scope.spawn(|| get(&proxy, "/a"));
            while proxy.count("/a") == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(get(&proxy, "/a"), numbered(1));
            assert_eq!(held.join().unwrap(), numbered(2));
        });
    }

    #[test]
    fn answers_can_be_edited() {
        let (url, _) = server();
        let proxy = FaultProxy::start(&url);
        proxy.edit("/info", |json| json["number"] = "none".into());
        assert_eq!(get(&proxy, "/info").unwrap().1, r#"{"number":"none"}"#);
        assert_eq!(get(&proxy, "/other"), numbered(2));
    }

    #[test]
    fn sockets_pass_fall_silent_and_break() {
        let (url, _) = server();
        let proxy = FaultProxy::start(&url);
        let mut socket = TcpStream::connect(proxy.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n").unwrap();
        let mut bytes = [0; 4];
        socket.write_all(b"ping").unwrap();
        socket.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ping");
        proxy.mute_sockets(true);
        socket.write_all(b"lost").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(socket.read_exact(&mut bytes).is_err());
        proxy.mute_sockets(false);
        assert_eq!(proxy.break_sockets(), 1);
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(socket.read(&mut bytes).unwrap(), 0);
    }
}
