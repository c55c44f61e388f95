//! As much JSON as a trace needs.

use std::fmt::Write;

const DEEPEST: usize = 64;

/// A parsed value; numbers that are whole and fit are `Int`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            // as in Python, the last of several fields of one name counts
            Json::Object(fields) => fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Json::Int(number) => Some(*number),
            _ => None,
        }
    }
}

/// Append a text as JSON, with everything but quotes, backslashes and control characters as it is.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32); // writing to a String cannot fail
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Append a number; those that JSON lacks are texts.
pub(crate) fn push_float(out: &mut String, number: f64) {
    if number.is_nan() {
        out.push_str("\"nan\"");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { "\"inf\"" } else { "\"-inf\"" });
    } else {
        let _ = write!(out, "{number:?}");
    }
}

/// Parse a whole text; the error says what was wrong with it.
pub(crate) fn parse(text: &[u8]) -> Result<Json, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_string())?;
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.space();
    if parser.at < text.len() {
        return Err(format!("there is more behind its end, at byte {}", parser.at));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn space(&mut self) {
        let blanks = self.rest().iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        self.at += blanks;
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        self.space();
        if self.take(token) {
            return Ok(());
        }
        Err(format!("{token:?} was expected at byte {}", self.at))
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEEPEST {
            return Err("it is nested too deeply".to_string());
        }
        self.space();
        match self.rest().first() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut fields = Vec::new();
        self.expect("{")?;
        self.space();
        if self.take("}") {
            return Ok(Json::Object(fields));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.expect(":")?;
            fields.push((name, self.value(depth + 1)?));
            self.space();
            if self.take("}") {
                return Ok(Json::Object(fields));
            }
            self.expect(",")?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        self.expect("[")?;
        self.space();
        if self.take("]") {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(Json::List(items));
            }
            self.expect(",")?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(format!("a text was expected at byte {}", self.at));
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let mut chars = rest.chars();
            match chars.next() {
                None => return Err("a text has no end".to_string()),
                Some('"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') => {
                    self.at += 1;
                    out.push(self.escaped()?);
                }
                Some(c) if c < ' ' => return Err(format!("a control character stands at byte {}", self.at)),
                Some(c) => {
                    self.at += c.len_utf8();
                    out.push(c);
                }
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let mark = self.rest().first().copied();
        self.at += usize::from(mark.map_or(false, |byte| byte.is_ascii()));
        Ok(match mark {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unicode()?,
            _ => return Err(format!("an escape that JSON lacks stands at byte {}", self.at)),
        })
    }

    fn unicode(&mut self) -> Result<char, String> {
        let high = self.hex4()?;
        if (0xD800..0xDC00).contains(&high) {
            let before = self.at;
            if self.take("\\u") {
                let low = self.hex4()?;
                if (0xDC00..0xE000).contains(&low) {
                    let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                self.at = before;
            }
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|text| u32::from_str_radix(text, 16).ok());
        self.at += 4;
        code.ok_or_else(|| "\\u wants four hexadecimal digits".to_string())
    }

    fn number(&mut self) -> Result<Json, String> {
        let length = self.rest().iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let text = &self.text[self.at..self.at + length];
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("a value was expected at byte {}", self.at));
        }
        self.at += length;
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(Json::Int(whole));
        }
        text.parse::<f64>().map(Json::Float).map_err(|_| format!("{text:?} is no number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["", "plain", "日本語 🧮", "\" \\ / \n\r\t \u{8}\u{c}\u{1}\u{7f}\u{2028}", "\\u0041"] {
            let mut json = String::new();
            push_text(&mut json, text);
            assert_eq!(parse(json.as_bytes()).unwrap(), Json::Text(text.to_string()));
        }
    }

    #[test]
    fn values_are_read() {
        let value =
            parse(br#" {"a": [1, -2.5, 1e3, true, null, {}], "b": "\ud83e\uddee\u00e9\ud800", "a": 3} "#).unwrap();
        assert_eq!(value.get("a").and_then(Json::int), Some(3));
        assert_eq!(value.get("b").and_then(Json::text), Some("🧮é\u{fffd}"));
        assert_eq!(parse(b"[]").unwrap(), Json::List(vec![]));
        assert_eq!(parse(b"12345678901234567890").unwrap(), Json::Float(12345678901234567890.0));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let whole = r#"{"name": "日本\u00e9", "shape": [1, 2], "x": -1.5e-3, "y": {"z": [true, null]}}"#;
        assert!(parse(whole.as_bytes()).is_ok());
        for end in 0..whole.len() {
            assert!(parse(&whole.as_bytes()[..end]).is_err(), "cut at {end}");
        }
        for place in 0..whole.len() {
            for byte in [0, b'"', b'\\', b'{', b']', b'u', b'-', 0xff, 0xe6] {
                let mut damaged = whole.as_bytes().to_vec();
                damaged[place] = byte;
                let _ = parse(&damaged);
            }
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        for text in ["", "nul", "\"\\u12\"", "\"\\uéé\"", "{\"a\" 1}", "[1 2]", "-", "+1", "1 2", "NaN", "\"\\é\""] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        let mut out = String::new();
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-5, 2.0, 1e300] {
            push_float(&mut out, number);
            out.push(' ');
        }
        assert_eq!(out, "\"nan\" \"inf\" \"-inf\" 1e-5 2.0 1e300 ");
    }
}
