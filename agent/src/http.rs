//! One HTTP request for the enrolment: POST of JSON, one answer, connection closed. Never follows a redirect, never reads without bound.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use thiserror::Error;

use crate::endpoint::Endpoint;

/// A connection, a read or a write takes at most so long; over LTE a handshake needs seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes of an answer's body.
const MAX_BODY: usize = 64 * 1024;
/// Most bytes of an answer's head.
const MAX_HEAD: u64 = 16 * 1024;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The network, or TLS (an authority that is not the pinned one shows here).
    #[error("cannot reach {0}")]
    Network(String, #[source] io::Error),
    /// The name is none that a certificate can be for.
    #[error("{0} is not a name for TLS")]
    Name(String),
    /// TLS cannot be set up.
    #[error("TLS")]
    Tls(#[from] rustls::Error),
    /// The answer is no HTTP, or over its bounds.
    #[error("the answer is not HTTP as we know it: {0}")]
    Answer(&'static str),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

/// Posts JSON to `path`. With `tls` over TLS.
///
/// Errors: [`HttpError`].
pub fn post(
    server: &Endpoint,
    path: &str,
    json: &str,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Answer, HttpError> {
    let network = |e| HttpError::Network(server.to_string(), e);
    let socket = connect(server).map_err(network)?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\nUser-Agent: furrow-agent/{}\r\n\r\n{json}",
        json.len(),
        env!("CARGO_PKG_VERSION"),
    );
    match tls {
        None => exchange(socket, &request),
        Some(config) => {
            let name = ServerName::try_from(server.host.clone())
                .map_err(|_| HttpError::Name(server.host.clone()))?;
            let connection = ClientConnection::new(config, name)?;
            exchange(StreamOwned::new(connection, socket), &request)
        }
    }
    .map_err(|error| match error {
        Broken::Network(error) => network(error),
        Broken::Answer(what) => HttpError::Answer(what),
    })
}

fn connect(server: &Endpoint) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (server.host.as_str(), server.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[derive(Debug)]
enum Broken {
    Network(io::Error),
    Answer(&'static str),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Result<Answer, Broken> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    read_answer(BufReader::new(stream))
}

fn read_answer(mut input: impl BufRead) -> Result<Answer, Broken> {
    let mut head = input.by_ref().take(MAX_HEAD);
    let mut line = || -> Result<String, Broken> {
        let mut line = Vec::new();
        head.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(Broken::Answer("its head is cut off or too long"));
        }
        let line = String::from_utf8(line).map_err(|_| Broken::Answer("its head is no text"))?;
        Ok(line.trim_end_matches('\r').to_owned())
    };
    let status = status_of(&line()?).ok_or(Broken::Answer("its first line"))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let line = line()?;
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            let value = value.trim().parse::<usize>();
            length = Some(value.map_err(|_| Broken::Answer("its length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body = match length {
        _ if chunked => read_chunks(&mut input)?,
        Some(length) => read_exactly(&mut input, length, 0)?,
        None => read_rest(&mut input)?,
    };
    Ok(Answer { status, body })
}

fn status_of(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split(' ').nth(1)?.parse().ok()
}

fn read_exactly(input: &mut impl Read, length: usize, before: usize) -> Result<Vec<u8>, Broken> {
    if length.saturating_add(before) > MAX_BODY {
        return Err(Broken::Answer("too long"));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(body)
}

/// Up to the end of the connection; its end may come without a farewell of TLS.
fn read_rest(input: &mut impl Read) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    let most = u64::try_from(MAX_BODY + 1).unwrap_or(u64::MAX);
    match input.take(most).read_to_end(&mut body) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        _ => {}
    }
    if body.len() > MAX_BODY {
        return Err(Broken::Answer("too long"));
    }
    Ok(body)
}

fn read_chunks(input: &mut impl BufRead) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        input.by_ref().take(64).read_until(b'\n', &mut line)?;
        let size = std::str::from_utf8(&line)
            .ok()
            .and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok())
            .ok_or(Broken::Answer("a chunk's size"))?;
        if size == 0 {
            return Ok(body);
        }
        let part = read_exactly(input, size, body.len())?;
        body.extend(part);
        let mut end = [0; 2];
        input.read_exact(&mut end)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Answer, Broken> {
        read_answer(text.as_bytes())
    }

    #[test]
    fn bodies_are_read_in_each_of_their_three_forms() {
        for text in [
            "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello, and more",
            "HTTP/1.1 201 \r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.0 201 Created\nServer: x\n\nhello",
        ] {
            let answer = read(text).expect("a good answer");
            assert_eq!((answer.status, &answer.body[..]), (201, &b"hello"[..]));
        }
    }

    #[test]
    fn what_is_no_answer_or_over_its_bounds_is_an_error() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(20_000));
        let rest = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(70_000));
        for text in [
            "",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
            &long,
            &rest,
        ] {
            assert!(read(text).is_err(), "{}", text.get(..40).unwrap_or(text));
        }
    }
}
