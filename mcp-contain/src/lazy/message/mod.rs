//! Kind of a line, and the request that it belongs to: all that a relay has to know of it.
//!
//! - [`Message`]: one line
//! - [`Id`]: the id of a request, equal where the two texts say the same
//! - [`scan`]: the walk through its text

mod scan;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use scan::member;
use scan::{Key, Scan};

/// One line. Slices are the text of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Request {
        id: &'a [u8],
        method: &'a [u8],
        params: Option<&'a [u8]>,
    },
    Notification {
        method: &'a [u8],
        params: Option<&'a [u8]>,
    },
    Response {
        id: &'a [u8],
        answer: Answer<'a>,
    },
    /// An array, which may hold several messages.
    Batch,
    /// White space.
    Blank,
    /// Anything else.
    Other,
}

/// The content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    /// The text of the result, or of the error.
    pub(crate) text: &'a [u8],
    pub(crate) is_error: bool,
    /// The result says that there is another page.
    pub(crate) has_next: bool,
    /// The result is a task, which goes on in the server.
    pub(crate) is_task: bool,
}

impl<'a> Message<'a> {
    /// Looks at a line, without its end.
    pub(crate) fn of(line: &'a [u8]) -> Self {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let mut scan = Scan::new(line);
        match scan.peek() {
            None => return Self::Blank,
            Some(b'[') => return Self::Batch,
            Some(_) => {}
        }
        let mut parts = Parts::default();
        let whole = scan.object(|scan, key| parts.take(scan, key));
        if whole.is_none() || scan.peek().is_some() {
            return Self::Other;
        }
        parts.message()
    }
}

#[derive(Default)]
struct Parts<'a> {
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    answer: Option<Answer<'a>>,
}

impl<'a> Parts<'a> {
    fn take(&mut self, scan: &mut Scan<'a>, key: Key<'a>) -> Option<()> {
        match &*key.name() {
            b"id" => self.id = Some(scan.value()?),
            b"method" => self.method = Some(scan.value()?),
            b"params" => self.params = Some(scan.value()?),
            b"result" => self.answer = Some(result(scan)?),
            b"error" => {
                self.answer = Some(Answer {
                    text: scan.value()?,
                    is_error: true,
                    has_next: false,
                    is_task: false,
                });
            }
            _ => {
                scan.value()?;
            }
        }
        Some(())
    }

    fn message(self) -> Message<'a> {
        let Self {
            id,
            method,
            params,
            answer,
        } = self;
        match (id, method, answer) {
            (Some(id), Some(method), _) => Message::Request { id, method, params },
            (None, Some(method), _) => Message::Notification { method, params },
            (Some(id), None, Some(answer)) => Message::Response { id, answer },
            _ => Message::Other,
        }
    }
}

/// Reads a result, and what its own members say: the only ones that are looked at, for a result may be long.
fn result<'a>(scan: &mut Scan<'a>) -> Option<Answer<'a>> {
    let (mut has_next, mut is_task) = (false, false);
    let mut whole = *scan;
    if scan.peek() == Some(b'{') {
        scan.object(|scan, key| {
            let value = scan.value()?;
            match &*key.name() {
                b"nextCursor" => has_next = value != b"null",
                b"task" => is_task |= value.first() == Some(&b'{'),
                b"resultType" => is_task |= value == b"\"task\"",
                _ => {}
            }
            Some(())
        })?;
    } else {
        scan.value()?;
    }
    let text = whole.until(scan);
    Some(Answer {
        text,
        is_error: false,
        has_next,
        is_task,
    })
}

/// The parameters that are looked at, in one walk: they may be long.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Params<'a> {
    pub(crate) meta: Option<&'a [u8]>,
    pub(crate) cursor: Option<&'a [u8]>,
    pub(crate) uri: Option<&'a [u8]>,
    pub(crate) task: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        let mut params = Self::default();
        let _ = Scan::new(text).object(|scan, key| {
            let value = Some(scan.value()?);
            match &*key.name() {
                b"_meta" => params.meta = value,
                b"cursor" => params.cursor = value,
                b"uri" => params.uri = value,
                b"task" => params.task = value,
                _ => {}
            }
            Some(())
        });
        params
    }
}

/// The id of a request. Equal ids may be written differently: a server may answer `1.0` with `1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(Box<[u8]>);

impl Id {
    pub(crate) fn of(text: &[u8]) -> Self {
        use serde_json::Value;
        let plain = match serde_json::from_slice(text) {
            Ok(Value::String(text)) => format!("\"{text}").into_bytes(),
            Ok(Value::Number(number)) => match number.as_f64() {
                Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 => {
                    format!("{float:.0}").into_bytes()
                }
                _ => number.to_string().into_bytes(),
            },
            _ => text.to_vec(),
        };
        Self(plain.into())
    }

    /// The number of bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A method without quotes and escapes.
pub(crate) fn unquoted(text: &[u8]) -> Cow<'_, [u8]> {
    match text {
        [b'"', inner @ .., b'"'] if memchr::memchr(b'\\', inner).is_none() => Cow::Borrowed(inner),
        _ => match serde_json::from_slice::<String>(text) {
            Ok(text) => Cow::Owned(text.into_bytes()),
            Err(_) => Cow::Borrowed(text),
        },
    }
}
