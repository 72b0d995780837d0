//! Just enough HTTP/1.1 for a server in a test: read a request, write an answer, keep the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A request as it arrived; header names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What goes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Close the connection after so many bytes of the body.
    pub(crate) cut_after: Option<usize>,
    /// Say nothing more after so many bytes of the body, for this long.
    pub(crate) stall_after: Option<(usize, Duration)>,
    /// Send the body in pieces of this size with this pause between them.
    pub(crate) drip: Option<(usize, Duration)>,
}

impl Answer {
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers = headers
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        Self {
            status,
            headers,
            body: body.into(),
            ..Self::default()
        }
    }

    pub(crate) fn header(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.without(name);
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(&mut self, name: &str) -> &mut Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }
}

/// Plain or TLS.
#[derive(Clone)]
pub(crate) enum Wire {
    Plain,
    Tls(Arc<rustls::ServerConfig>),
}

impl Wire {
    /// TLS with the test authority's certificate for `hub.test` and 127.0.0.1.
    pub(crate) fn tls() -> Self {
        let chain = vec![CertificateDer::from_pem_slice(include_bytes!("tls/hub.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/hub.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        Self::Tls(Arc::new(
            config.with_no_client_auth().with_single_cert(chain, key).unwrap(),
        ))
    }
}

/// Serves every connection on its own thread until the process ends. Returns the port.
pub(crate) fn serve(wire: Wire, answer: impl Fn(Request) -> Answer + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (wire, answer) = (wire.clone(), answer.clone());
            std::thread::spawn(move || {
                // A test may leave a connection open: a thread must not wait for it for ever.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                let _ = match wire {
                    Wire::Plain => talk(stream, answer.as_ref()),
                    Wire::Tls(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        talk(rustls::StreamOwned::new(session, stream), answer.as_ref())
                    }
                };
            });
        }
    });
    port
}

fn talk(stream: impl Read + Write, answer: &dyn Fn(Request) -> Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream)? {
        let head = request.method == "HEAD";
        let answer = answer(request);
        if !write_answer(stream.get_mut(), &answer, head)? {
            break;
        }
    }
    Ok(())
}

pub(crate) fn read_request(stream: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_string);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 || line.trim().is_empty() {
            let body = read_body(stream, &headers)?;
            return Ok(Some(Request {
                method,
                path,
                headers,
                body,
            }));
        }
        if let Some((key, value)) = line.split_once(':') {
            headers.push((key.trim().to_ascii_lowercase(), value.trim().to_string()));
        }
    }
}

/// As many bytes as the headers announce, or chunks up to the empty one.
fn read_body(stream: &mut impl BufRead, headers: &[(String, String)]) -> std::io::Result<Vec<u8>> {
    let header = |name: &str| {
        headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let mut body = Vec::new();
    if header("transfer-encoding") == Some("chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            stream.take(size as u64).read_to_end(&mut body)?;
            stream.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    let size = header("content-length").and_then(|size| size.parse().ok()).unwrap_or(0);
    stream.take(size).read_to_end(&mut body)?;
    Ok(body)
}

/// Whether the connection can go on.
fn write_answer(stream: &mut impl Write, answer: &Answer, head: bool) -> std::io::Result<bool> {
    let mut text = format!("HTTP/1.1 {} Status\r\n", answer.status);
    let given = answer
        .headers
        .iter()
        .any(|(key, _)| key.eq_ignore_ascii_case("content-length"));
    let chunked = answer
        .headers
        .iter()
        .any(|(key, _)| key.eq_ignore_ascii_case("transfer-encoding"));
    for (key, value) in &answer.headers {
        text += &format!("{key}: {value}\r\n");
    }
    if !given && !chunked {
        text += &format!("content-length: {}\r\n", answer.body.len());
    }
    stream.write_all((text + "\r\n").as_bytes())?;
    if head {
        stream.flush()?;
        return Ok(true);
    }
    let sent = answer.cut_after.unwrap_or(answer.body.len()).min(answer.body.len());
    let (piece, pause) = answer.drip.unwrap_or((1 << 16, Duration::ZERO));
    let mut done = 0;
    for piece in answer.body[..sent].chunks(piece) {
        if let Some((_, pause)) = answer.stall_after.filter(|(after, _)| done >= *after) {
            stream.flush()?;
            std::thread::sleep(pause);
        }
        if chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        stream.write_all(piece)?;
        if chunked {
            stream.write_all(b"\r\n")?;
        }
        if !pause.is_zero() {
            stream.flush()?;
            std::thread::sleep(pause);
        }
        done += piece.len();
    }
    if chunked && sent == answer.body.len() {
        stream.write_all(b"0\r\n\r\n")?;
    }
    stream.flush()?;
    Ok(sent == answer.body.len())
}

/// A proxy that knows CONNECT alone and leads every name to a port of this machine. Returns its own port.
pub(crate) fn serve_proxy(to_port: u16, asked: impl Fn(Request) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(asked);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || tunnel(client, to_port, asked.as_ref()));
        }
    });
    port
}

fn tunnel(client: TcpStream, to_port: u16, asked: &dyn Fn(Request)) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let Some(request) = read_request(&mut reader)? else {
        return Ok(());
    };
    let known = request.method == "CONNECT";
    asked(request);
    let mut client = client;
    if !known {
        return client.write_all(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n");
    }
    let server = TcpStream::connect(("127.0.0.1", to_port))?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    let mut to_server = server;
    std::io::copy(&mut reader, &mut to_server)?;
    to_server.shutdown(std::net::Shutdown::Write)
}
