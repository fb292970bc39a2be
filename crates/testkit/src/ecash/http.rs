//! As much of HTTP/1.1 as a proxy for tests needs: one message a connection, in whole.

use std::io::{self, BufRead, Read, Write};

/// No head or body of a test is larger.
const MOST_BYTES: u64 = 64 << 20;

/// A request or an answer.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The first line.
    pub(super) line: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// An answer of our own, in JSON.
    pub(super) fn answer(status: u16, body: &str) -> Self {
        Self {
            line: format!("HTTP/1.1 {status} Said By The Proxy"),
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.as_bytes().to_vec(),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Method and path of a request.
    pub(super) fn target(&self) -> (&str, &str) {
        let mut words = self.line.split(' ');
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    pub(super) fn is_upgrade(&self) -> bool {
        self.header("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"))
    }

    /// Reads the first line and the headers; `None` when the other side has closed.
    pub(super) fn read_head(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.by_ref().take(MOST_BYTES).read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            lines.push(line.to_owned());
        }
        let mut lines = lines.into_iter();
        let line = lines.next().unwrap_or_default();
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        Ok(Some(Self { line, headers: headers.collect(), body: Vec::new() }))
    }

    /// Reads the body of a head. An answer without a length ends with the connection.
    pub(super) fn read_body(&mut self, from: &mut impl BufRead, is_answer: bool) -> io::Result<()> {
        if self.header("transfer-encoding").is_some_and(|how| how.contains("chunked")) {
            return self.read_chunks(from);
        }
        let length = self.header("content-length").and_then(|length| length.parse::<u64>().ok());
        let length = match length {
            Some(length) => length,
            None if is_answer => MOST_BYTES,
            None => 0,
        };
        from.take(length.min(MOST_BYTES)).read_to_end(&mut self.body)?;
        Ok(())
    }

    fn read_chunks(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let size = line.trim().split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            from.take(size.min(MOST_BYTES)).read_to_end(&mut self.body)?;
            from.read_line(&mut String::new())?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// The bytes to send; with a length, and the connection ends after it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let ours = ["content-length", "transfer-encoding", "connection"];
        let mut out = format!("{}\r\n", self.line);
        for (name, value) in self.headers.iter().filter(|(name, _)| !ours.contains(&&**name)) {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", self.body.len()));
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.body);
        out
    }

    /// Sends a head as it came.
    pub(super) fn write_head(&self, to: &mut impl Write) -> io::Result<()> {
        let mut out = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        to.write_all(out.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn bodies_with_a_length_in_chunks_and_to_the_end_are_read() {
        let read = |text: &str, is_answer| {
            let mut from = BufReader::new(text.as_bytes());
            let mut message = Message::read_head(&mut from).unwrap().unwrap();
            message.read_body(&mut from, is_answer).unwrap();
            String::from_utf8(message.body).unwrap()
        };
        assert_eq!(read("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcd", false), "abc");
        assert_eq!(read("GET /a HTTP/1.1\r\nHost: x\r\n\r\nabcd", false), "");
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nabcd", true), "abcd");
        let chunks =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(read(chunks, true), "abc");
        assert!(Message::read_head(&mut BufReader::new(&b""[..])).unwrap().is_none());
    }
}
