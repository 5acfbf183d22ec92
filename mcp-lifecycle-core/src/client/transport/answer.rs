use rmcp::model::RequestId;

/// Returns the ID of an answer that is cut off, not valid JSON, or of the wrong form.
///
/// Only members of the outermost object count: an answer has `jsonrpc`, or nothing but an ID and a
/// `result` or `error`. Anything else with an ID (a JSON log line, an echoed request) is no answer
/// and must not fail the call with this ID.
pub(super) fn answer_id(line: &[u8]) -> Option<RequestId> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let mut scan = Scan { rest: line };
    scan.expect(b'{')?;
    let mut id = None;
    let (mut tagged, mut answers, mut foreign) = (false, false, false);
    while let Some((key, value)) = scan.member() {
        match key {
            b"jsonrpc" => tagged = true,
            b"id" if scan.is_cut(value) => {}
            b"id" => id = serde_json::from_slice(value).ok(),
            b"result" | b"error" => answers = true,
            b"method" => return None,
            _ => foreign = true,
        }
        if scan.expect(b',').is_none() {
            break;
        }
    }
    id.filter(|_| tagged || (answers && !foreign))
}

struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn member(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.rest = self.rest.trim_ascii_start();
        let key = self.string()?;
        self.expect(b':')?;
        self.rest = self.rest.trim_ascii_start();
        Some((key, self.value()))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let text = self.rest.strip_prefix(b"\"")?;
        let end = end_of_string(text)?;
        self.rest = &text[end + 1..];
        Some(&text[..end])
    }

    fn value(&mut self) -> &'a [u8] {
        let end = end_of_value(self.rest);
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        value
    }

    fn is_cut(&self, value: &[u8]) -> bool {
        self.rest.is_empty() && value.last().is_some_and(u8::is_ascii_digit)
    }
}

fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn end_of_value(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => match end_of_string(&text[at + 1..]) {
                Some(end) => at += end + 1,
                None => return text.len(),
            },
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_answer_is_found_as_far_as_it_can_be_read() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":7,"result":{"a":"#[..],
            br#"{ "id" : 7 , "result" : { "x" : "}," } , "jsonrpc" : "1.0" }"#,
            br#"{"result":{"id":8,"s":"\"}{"},"id":7}"#,
            br#"{"error":{"code":1},"id":7}"#,
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"",
            br#"{"jsonrpc":"2.0","id":7 "#,
            br#"{"jsonrpc":"2.0","id":7}"#,
        ] {
            let text = String::from_utf8_lossy(line);
            assert_eq!(answer_id(line), Some(RequestId::Number(7)), "{text}");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        for line in [
            "",
            "{",
            "{\"",
            "{\"id\"",
            "{\"id\":",
            "7",
            "{\"a\":\"\\",
            "}{",
            "{]",
            // There may have been more digits.
            r#"{"jsonrpc":"2.0","id":12"#,
            r#"{"jsonrpc":"2.0","id": 12"#,
        ] {
            assert_eq!(answer_id(line.as_bytes()), None, "{line}");
        }
    }
}
