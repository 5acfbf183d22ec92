//! Text in a buffer of fixed size: paths, and the lines of JSON of a server's report. Compiled into
//! both programs: it uses `core` alone.

use core::ffi::CStr;

/// A text that ends where there is no room, and is followed by a zero.
#[derive(Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

/// A line of JSON: a pipe takes it whole, or not at all.
pub type Line = Text<4096>;

/// Bytes that foreign text leaves free in a line.
const RESERVE: usize = 128;

#[expect(clippy::new_without_default, reason = "an empty text is no value")]
impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub fn c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    pub fn then(&mut self, part: &str) -> &mut Self {
        for byte in part.bytes() {
            if self.len < N - 1
                && let Some(free) = self.bytes.get_mut(self.len)
            {
                *free = byte;
                self.len += 1;
            }
        }
        self
    }

    pub fn number(&mut self, number: u64) -> &mut Self {
        if number >= 10 {
            self.number(number / 10);
        }
        self.character(char::from(b'0' + (number % 10) as u8))
    }

    fn character(&mut self, character: char) -> &mut Self {
        self.then(character.encode_utf8(&mut [0; 4]))
    }
}

impl Line {
    /// Appends a key that is not the first.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.then(",\"").then(key).then("\":")
    }

    /// Appends milliseconds as seconds.
    pub fn milliseconds(&mut self, number: u64) -> &mut Self {
        self.number(number).then("e-3")
    }

    /// Appends a string, as much of it as there is room for. What is no text, or controls a
    /// terminal, becomes U+FFFD.
    pub fn string(&mut self, text: &[u8]) -> &mut Self {
        self.then("\"");
        for chunk in text.utf8_chunks() {
            let is_cut = !chunk.invalid().is_empty();
            let valid = chunk.valid().chars();
            for character in valid.chain(is_cut.then_some(char::REPLACEMENT_CHARACTER)) {
                match character {
                    _ if !self.has_room() => {}
                    '\n' => drop(self.then("\\n")),
                    '\t' => drop(self.then("\\t")),
                    '"' | '\\' => drop(self.then("\\").character(character)),
                    _ if character.is_control() => drop(self.then("\u{fffd}")),
                    _ => drop(self.character(character)),
                }
            }
        }
        self.then("\"")
    }

    /// Appends a list of strings, as many as there is room for.
    pub fn list<'a>(&mut self, strings: impl Iterator<Item = &'a [u8]>) -> &mut Self {
        self.then("[");
        for (at, string) in strings.enumerate() {
            if self.has_room() {
                self.then(if at == 0 { "" } else { "," }).string(string);
            }
        }
        self.then("]")
    }

    fn has_room(&self) -> bool {
        self.len + RESERVE < self.bytes.len()
    }
}

// By path, because the guardian includes this file by path.
#[cfg(test)]
#[path = "text/tests.rs"]
mod tests;
