//! HTTP/1.1 spoken byte by byte: what is sent is what was made up.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an answer may take a client with a patience of 1.
const ANSWER: Duration = Duration::from_secs(20);

/// How long nothing may come before it counts a connection as left open.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a body may come before it counts as one without an end, as that of `stats`.
const ENDLESS: Duration = Duration::from_secs(4);

/// An answer was not there in time: nothing is known of it.
#[derive(Debug)]
pub(super) struct Late(pub(super) String);

/// An answer, as it came.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in small letters.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The body did not come to its end.
    pub(super) cut: bool,
    /// The body had no end: only its first line is here.
    pub(super) endless: bool,
    /// Nothing came after it for so long that nothing more was waited for.
    pub(super) then_silence: bool,
    closes: bool,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(found, _)| found == name)
            .map(|(_, value)| &**value)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client that keeps its connection for as long as its peer does.
pub(super) struct Client {
    socket: PathBuf,
    patience: u32,
    /// A connection has ended without an answer: nobody knows what was carried out.
    pub(super) has_lost: bool,
    stream: Option<BufReader<UnixStream>>,
}

impl Client {
    pub(super) fn new(socket: &Path, patience: u32) -> Self {
        let socket = socket.to_owned();
        Self {
            socket,
            patience,
            has_lost: false,
            stream: None,
        }
    }

    /// The answers to requests that are well-formed, in their order; all sent at
    /// once if `pipelined`. What a closed connection left unanswered is sent again.
    pub(super) fn ask(
        &mut self,
        requests: &[(&[u8], bool)],
        pipelined: bool,
    ) -> Result<Vec<Answer>, Late> {
        let mut answers = Vec::new();
        while answers.len() < requests.len() {
            let fresh = self.stream.is_none();
            let rest = &requests[answers.len()..];
            let turn = if pipelined { rest } else { &rest[..1] };
            let patience = self.patience;
            let stream = self.connect();
            // Who refuses a request need not have read all of it.
            for (bytes, _) in turn {
                let _ = stream.get_mut().write_all(bytes);
            }
            for (index, (_, is_head)) in turn.iter().enumerate() {
                match read(stream, *is_head, patience) {
                    Ok(answer) => {
                        let closes = answer.closes;
                        answers.push(answer);
                        if closes {
                            self.stream = None;
                            break;
                        }
                    }
                    Err(error) if is_late(&error) => {
                        let limit = ANSWER * self.patience;
                        let number = answers.len() + 1;
                        return Err(Late(format!("no answer {number} within {limit:?}")));
                    }
                    // An idle connection may end while it is asked.
                    Err(_) if index > 0 || !fresh => {
                        self.has_lost = true;
                        self.stream = None;
                        break;
                    }
                    Err(error) => {
                        self.has_lost = true;
                        self.stream = None;
                        let body = error.to_string().into_bytes();
                        answers.push(Answer {
                            body,
                            ..Answer::default()
                        });
                        break;
                    }
                }
            }
        }
        Ok(answers)
    }

    /// All that comes back for these bytes, until the end of the connection.
    pub(super) fn raw(
        &self,
        bytes: &[u8],
        is_head: bool,
        half_close: bool,
    ) -> Result<Vec<Answer>, Late> {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .set_read_timeout(Some(ANSWER * self.patience))
            .unwrap();
        let mut stream = BufReader::new(stream);
        let _ = stream.get_mut().write_all(bytes);
        if half_close {
            let _ = stream.get_mut().shutdown(Shutdown::Write);
        }
        let mut answers: Vec<Answer> = Vec::new();
        loop {
            match read(&mut stream, is_head && answers.is_empty(), self.patience) {
                Ok(answer) => {
                    let closes = answer.closes;
                    answers.push(answer);
                    if closes {
                        return Ok(answers);
                    }
                }
                Err(error) if is_late(&error) => match answers.last_mut() {
                    Some(last) if !half_close => {
                        last.then_silence = true;
                        return Ok(answers);
                    }
                    _ => return Err(Late("neither an answer nor an end".to_owned())),
                },
                Err(_) => return Ok(answers),
            }
            if !half_close {
                let limit = SILENCE * self.patience;
                stream.get_mut().set_read_timeout(Some(limit)).unwrap();
            }
        }
    }

    fn connect(&mut self) -> &mut BufReader<UnixStream> {
        let (socket, limit) = (&self.socket, ANSWER * self.patience);
        self.stream.get_or_insert_with(|| {
            let stream = UnixStream::connect(socket).unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            BufReader::new(stream)
        })
    }
}

/// The next answer that is one: not "go on".
fn read(stream: &mut BufReader<UnixStream>, is_head: bool, patience: u32) -> io::Result<Answer> {
    loop {
        let answer = read_one(stream, is_head, patience)?;
        if answer.status != 100 {
            return Ok(answer);
        }
    }
}

fn read_one(
    stream: &mut BufReader<UnixStream>,
    is_head: bool,
    patience: u32,
) -> io::Result<Answer> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let first = line(stream)?;
    let status = first.split(' ').nth(1).and_then(|text| text.parse().ok());
    let mut answer = Answer {
        status: status.ok_or_else(|| bad(&first))?,
        closes: first.starts_with("HTTP/1.0"),
        ..Answer::default()
    };
    loop {
        let line = line(stream)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        answer.headers.push((name, value));
    }
    match answer.header("connection") {
        Some(value) if value.eq_ignore_ascii_case("close") => answer.closes = true,
        Some(value) if value.eq_ignore_ascii_case("keep-alive") => answer.closes = false,
        _ => {}
    }
    if answer.status == 101 {
        let _ = stream.get_mut().shutdown(Shutdown::Write);
        answer.closes = true;
        answer.cut = is_cut(stream.read_to_end(&mut answer.body))?;
    } else if is_head || matches!(answer.status, 100..=199 | 204 | 304) {
    } else if answer.header("transfer-encoding").is_some() {
        let limit = ENDLESS * patience;
        match chunks(stream, &mut answer.body, limit) {
            Ok(ended) => answer.endless = !ended,
            Err(error) => answer.cut = is_cut::<()>(Err(error))?,
        }
        if answer.endless {
            let line = answer.body.iter().position(|byte| *byte == b'\n');
            answer.body.truncate(line.unwrap_or_default());
        }
    } else if let Some(length) = answer.header("content-length") {
        let length = length.parse().map_err(|_| bad("length"))?;
        let read = stream.take(length).read_to_end(&mut answer.body);
        answer.cut = is_cut(read)? || answer.body.len() as u64 != length;
    } else {
        answer.closes = true;
        answer.cut = is_cut(stream.read_to_end(&mut answer.body))?;
    }
    answer.closes |= answer.cut || answer.endless;
    Ok(answer)
}

/// Tells a body that ended too soon from one that is late.
fn is_cut<T>(read: io::Result<T>) -> io::Result<bool> {
    match read {
        Ok(_) => Ok(false),
        Err(error) if is_late(&error) => Err(error),
        Err(_) => Ok(true),
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// Reads chunks to the last, or for so long. Whether that was the last.
fn chunks(
    stream: &mut BufReader<UnixStream>,
    body: &mut Vec<u8>,
    limit: Duration,
) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        if begun.elapsed() > limit {
            return Ok(false);
        }
        let size = line(stream)?;
        let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if size == 0 {
            while !line(stream)?.is_empty() {}
            return Ok(true);
        }
        if stream.take(size).read_to_end(body)? as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line(stream)?;
    }
}

fn line(stream: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8_lossy(&line);
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
