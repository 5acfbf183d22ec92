//! Walks through the text of a JSON object, without a copy and without a tree.

use std::borrow::Cow;

/// A key as it stands in the text, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a>(&'a [u8]);

impl Key<'_> {
    /// The key, without escapes.
    pub(crate) fn name(&self) -> Cow<'_, [u8]> {
        if memchr::memchr(b'\\', self.0).is_none() {
            return Cow::Borrowed(self.0);
        }
        let quoted = [b"\"", self.0, b"\""].concat();
        match serde_json::from_slice::<String>(&quoted) {
            Ok(name) => Cow::Owned(name.into_bytes()),
            Err(_) => Cow::Borrowed(self.0),
        }
    }
}

/// A text, and how far it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Reads an object: calls `member` for each, which has to read the value. `None` if
    /// this is no object, or not a whole one.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Key<'a>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.expect(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = Key(self.string()?);
            self.expect(b':')?;
            member(self, key)?;
            if self.expect(b',').is_none() {
                return self.expect(b'}');
            }
        }
    }

    /// Reads a value, and returns its text.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        match self.peek()? {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => self.container()?,
            _ => {
                let rest = self.text.get(self.at..)?;
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r');
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        self.text
            .get(start..self.at)
            .filter(|text| !text.is_empty())
    }

    /// The first byte that is no white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.get(self.at).copied()
    }

    /// The text from here to where another scan of the same text is.
    pub(crate) fn until(&mut self, end: &Self) -> &'a [u8] {
        self.space();
        self.text.get(self.at..end.at).unwrap_or_default()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Reads a string, and returns what is between the quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let mut at = start;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.text.get(at..)?)?;
            if self.text.get(at) == Some(&b'"') {
                self.at = at + 1;
                return self.text.get(start..at);
            }
            at += 2;
        }
    }

    /// Reads to the bracket that closes the one here.
    fn container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// The value of this member of an object.
pub(crate) fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let mut scan = Scan::new(object);
    scan.object(|scan, key| {
        let value = scan.value()?;
        if *key.name() == *name.as_bytes() {
            found = Some(value);
        }
        Some(())
    })?;
    found
}
