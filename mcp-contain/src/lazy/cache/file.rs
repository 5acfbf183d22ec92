//! The text of a file: a line that says so, and a line for each answer.

use std::io::{self, BufRead as _, BufReader, Read};

use super::super::decision::words::Key;
use super::{ANSWER_MAX, Entry};

/// The first line of a file.
const SCHEMA: &[u8] = b"mcp-contain/lazy/1\n";

/// The most of a file, in bytes and in answers.
pub(super) const BYTES_MAX: usize = 4 << 20;
pub(super) const ENTRIES_MAX: usize = 64;

/// The length of a key, as it is written.
const KEY_LEN: usize = 64;

/// The answer of this key. Of the others nothing is looked at, and nothing is kept.
pub(super) fn find(file: impl Read, key: &Key) -> io::Result<Option<Entry>> {
    let mut text = BufReader::with_capacity(1 << 16, file.take(2 * BYTES_MAX as u64));
    let mut start = [0; SCHEMA.len()];
    text.read_exact(&mut start)?;
    if start != SCHEMA {
        return Ok(None);
    }
    let key = hex(key);
    loop {
        let mut line = Vec::with_capacity(KEY_LEN);
        text.by_ref()
            .take(KEY_LEN as u64)
            .read_until(b'\n', &mut line)?;
        match line.last() {
            None => return Ok(None),
            // Too short to be one.
            Some(b'\n') => {}
            Some(_) if line == key.as_bytes() => {
                text.read_until(b'\n', &mut line)?;
                return Ok(entry(&line));
            }
            Some(_) => drop(text.skip_until(b'\n')?),
        }
    }
}

/// The text with this answer in place of the one of the same key, or without it. The oldest go.
pub(super) fn replaced(old: &[u8], key: &Key, entry: Option<&Entry>) -> Vec<u8> {
    let key = hex(key);
    let old = old.strip_prefix(SCHEMA).unwrap_or_default();
    let lines = old.split_inclusive(|&byte| byte == b'\n');
    let mut lines: Vec<_> = lines
        .filter(|line| is_line(line) && !line.starts_with(key.as_bytes()))
        .collect();
    let new = entry.map(|entry| {
        let kind: &[u8] = if entry.is_error {
            b" error "
        } else {
            b" result "
        };
        [key.as_bytes(), kind, &entry.answer, b"\n"].concat()
    });
    lines.extend(new.as_deref());
    let mut len = SCHEMA.len();
    let fit = lines.iter().rev().take(ENTRIES_MAX).take_while(|line| {
        len += line.len();
        len <= BYTES_MAX
    });
    let fit = fit.count();
    lines.drain(..lines.len() - fit);
    lines.insert(0, SCHEMA);
    lines.concat()
}

/// Whether this may be the line of an answer.
fn is_line(line: &[u8]) -> bool {
    let rest = line.get(KEY_LEN..).unwrap_or_default();
    rest.ends_with(b"\n") && (rest.starts_with(b" result ") || rest.starts_with(b" error "))
}

/// A line of a file: key, kind, answer.
fn entry(line: &[u8]) -> Option<Entry> {
    let line = line.strip_suffix(b"\n")?;
    let mut words = line.splitn(3, |&byte| byte == b' ').skip(1);
    let is_error = match words.next()? {
        b"result" => false,
        b"error" => true,
        _ => return None,
    };
    let answer = words.next()?.to_vec();
    if answer.len() > ANSWER_MAX {
        return None;
    }
    serde_json::from_slice::<serde_json::Value>(&answer).ok()?;
    Some(Entry { is_error, answer })
}

/// A key, as it is written.
pub(super) fn hex(key: &Key) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A key from how it is written.
pub(super) fn unhex(text: &[u8]) -> Option<Key> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() == KEY_LEN && text.is_ascii())?;
    let mut key = Key::default();
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(key)
}
