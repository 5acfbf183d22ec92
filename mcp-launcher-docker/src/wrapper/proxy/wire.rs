//! Reading whole messages: heads, and bodies of either framing.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::head::{self, Length};

/// The longest head of a request or an answer.
const LONGEST_HEAD: usize = 256 << 10;

/// The longest body of a create, and the longest answer to one.
const LONGEST_BODY: u64 = 16 << 20;

/// Reads up to the end of a head. What was read beyond it stays in `buffer`.
pub(super) async fn read_head(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = head::end(buffer) {
            let rest = buffer.split_off(end);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(too_long("head"));
        }
        if from.read_buf(buffer).await? == 0 {
            return match buffer.is_empty() {
                true => Ok(None),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
    }
}

/// Reads a body, of which `buffer` may hold the beginning.
pub(super) async fn read_body(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    length: Length,
) -> io::Result<Vec<u8>> {
    match length {
        Length::None => Ok(Vec::new()),
        Length::Exact(n) if n > LONGEST_BODY => Err(too_long("body")),
        Length::Exact(n) => take(from, buffer, n as usize).await,
        Length::Chunked => read_chunks(from, buffer).await,
    }
}

/// Reads an answer to its end, which is that of the connection.
pub(super) async fn read_answer(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut bounded = from.take(LONGEST_BODY + 1);
    bounded.read_to_end(&mut answer).await?;
    match answer.len() as u64 > LONGEST_BODY {
        true => Err(too_long("answer")),
        false => Ok(answer),
    }
}

async fn read_chunks(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from, buffer).await?;
        let size = line.split(|&b| b == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size).map_err(io::Error::other)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if size == 0 {
            // Trailers, up to the empty line.
            while !read_line(from, buffer).await?.is_empty() {}
            return Ok(body);
        }
        if size.saturating_add(body.len() as u64) > LONGEST_BODY {
            return Err(too_long("body"));
        }
        body.extend(take(from, buffer, size as usize).await?);
        read_line(from, buffer).await?;
    }
}

async fn read_line(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n") {
            let rest = buffer.split_off(end + 2);
            let mut line = std::mem::replace(buffer, rest);
            line.truncate(end);
            return Ok(line);
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(too_long("line"));
        }
        fill(from, buffer).await?;
    }
}

async fn take(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    n: usize,
) -> io::Result<Vec<u8>> {
    while buffer.len() < n {
        fill(from, buffer).await?;
    }
    let rest = buffer.split_off(n);
    Ok(std::mem::replace(buffer, rest))
}

async fn fill(from: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> io::Result<()> {
    match from.read_buf(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn too_long(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: &[u8], length: Length) -> io::Result<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        // Byte by byte: no frame begins where a read does.
        let mut from = bytes.chunks(1).fold(
            Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>,
            |all, byte| Box::new(all.chain(std::io::Cursor::new(byte.to_vec()))),
        );
        runtime.block_on(read_body(&mut from, &mut Vec::new(), length))
    }

    #[test]
    fn an_answer_without_an_end_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let read = |mut from: &[u8]| runtime.block_on(read_answer(&mut from));
        assert_eq!(read(b"HTTP/1.1 201").unwrap(), b"HTTP/1.1 201");
        let endless = runtime.block_on(read_answer(&mut tokio::io::repeat(b'x')));
        assert!(endless.is_err());
    }

    #[test]
    fn chunks_are_put_together() {
        let chunks = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n";
        assert_eq!(body(chunks, Length::Chunked).unwrap(), b"abcde");
        assert_eq!(body(b"abcdef", Length::Exact(3)).unwrap(), b"abc");
        assert!(body(b"zz\r\n", Length::Chunked).is_err());
        assert!(body(b"ab", Length::Exact(3)).is_err());
        assert!(body(b"fffffffffff\r\n", Length::Chunked).is_err());
    }
}
