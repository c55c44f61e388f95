//! As much JSON as vocabularies and the headers of safetensors need.

use std::iter::Peekable;
use std::str::Chars;

use crate::Result;

#[derive(Clone, Debug)]
pub enum Json {
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
    Other,
}

impl Json {
    pub fn parse(text: &str) -> Result<Json> {
        value(&mut text.chars().peekable())
    }

    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn numbers(&self) -> Vec<usize> {
        match self {
            Json::List(items) => items.iter().filter_map(Json::number).collect(),
            _ => Vec::new(),
        }
    }

    pub fn number(&self) -> Option<usize> {
        match self {
            Json::Number(number) => Some(*number as usize),
            _ => None,
        }
    }
}

type Source<'a> = Peekable<Chars<'a>>;

fn value(source: &mut Source<'_>) -> Result<Json> {
    skip_space(source);
    match source.peek() {
        Some('{') => {
            let members = sequence(source, '}', |source| {
                let name = text(source)?;
                skip_space(source);
                expect(source, ':')?;
                Ok((name, value(source)?))
            })?;
            Ok(Json::Object(members))
        }
        Some('[') => Ok(Json::List(sequence(source, ']', value)?)),
        Some('"') => Ok(Json::Text(text(source)?)),
        Some(_) => {
            let mut word = String::new();
            while let Some(&next) = source.peek() {
                if ",]}".contains(next) || next.is_whitespace() {
                    break;
                }
                word.push(next);
                source.next();
            }
            Ok(word.parse().map_or(Json::Other, Json::Number))
        }
        None => Err("the JSON ends too early".into()),
    }
}

fn sequence<T>(source: &mut Source<'_>, end: char, item: fn(&mut Source<'_>) -> Result<T>) -> Result<Vec<T>> {
    source.next();
    let mut items = Vec::new();
    loop {
        skip_space(source);
        match source.peek() {
            Some(&next) if next == end => {
                source.next();
                return Ok(items);
            }
            Some(',') => {
                source.next();
                skip_space(source);
            }
            _ => {}
        }
        items.push(item(source)?);
    }
}

fn text(source: &mut Source<'_>) -> Result<String> {
    skip_space(source);
    expect(source, '"')?;
    let mut text = String::new();
    loop {
        match source.next().ok_or("a text in the JSON has no end")? {
            '"' => return Ok(text),
            '\\' => match source.next().ok_or("a text in the JSON has no end")? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'u' => {
                    let digits: String = source.by_ref().take(4).collect();
                    text.push(char::from_u32(u32::from_str_radix(&digits, 16)?).unwrap_or('\u{fffd}'));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

fn expect(source: &mut Source<'_>, wanted: char) -> Result<()> {
    match source.next() {
        Some(next) if next == wanted => Ok(()),
        found => Err(format!("the JSON has {found:?} where {wanted:?} should be").into()),
    }
}

fn skip_space(source: &mut Source<'_>) {
    while source.peek().map_or(false, |next| next.is_whitespace()) {
        source.next();
    }
}
