//! Byte-pair tokenizer, with a vocabulary and a merges file in GPT-2's format.

use std::collections::HashMap;
use std::path::Path;

use crate::faults::Faults;
use crate::json::Json;
use crate::Result;

pub struct Tokenizer {
    vocabulary: HashMap<String, i64>,
    ranks: HashMap<(String, String), usize>,
    characters: Vec<char>,
}

impl Tokenizer {
    pub fn load(folder: &Path, faults: &Faults) -> Result<Tokenizer> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("{} cannot be read ({error})", path.display()))
        };
        let entries = Json::parse(&read("vocab.json")?)?;
        let members = entries.members().iter();
        let vocabulary = members.filter_map(|(piece, id)| Some((piece.clone(), id.number()? as i64))).collect();
        let merges = read("merges.txt")?;
        let mut pairs: Vec<_> = merges.lines().filter(|line| !line.starts_with('#')).collect();
        if faults.has("merges-order") {
            pairs.reverse();
        }
        let pairs = pairs.iter().filter_map(|line| line.split_once(' '));
        let ranks = pairs.enumerate().map(|(rank, (a, b))| ((a.to_string(), b.to_string()), rank)).collect();
        Ok(Tokenizer { vocabulary, ranks, characters: byte_characters() })
    }

    pub fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        for word in words(text) {
            for piece in self.pieces(&word) {
                let id = self.vocabulary.get(&piece);
                ids.push(*id.ok_or_else(|| format!("vocab.json has no {piece:?}, which a merge makes"))?);
            }
        }
        Ok(ids)
    }

    fn pieces(&self, word: &str) -> Vec<String> {
        let mut pieces: Vec<String> = word.bytes().map(|byte| self.characters[byte as usize].to_string()).collect();
        loop {
            let rank =
                |at: usize| self.ranks.get(&(pieces[at].clone(), pieces[at + 1].clone())).map(|rank| (*rank, at));
            match (0..pieces.len().saturating_sub(1)).filter_map(rank).min() {
                Some((_, at)) => {
                    let second = pieces.remove(at + 1);
                    pieces[at].push_str(&second);
                }
                None => return pieces,
            }
        }
    }
}

/// A printable character for each byte, as GPT-2 has them.
fn byte_characters() -> Vec<char> {
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 255;
    let character = |byte| {
        if printable(byte) {
            byte
        } else {
            next += 1;
            next
        }
    };
    (0..256).map(character).map(|code| char::from_u32(code).unwrap_or(' ')).collect()
}

/// Cut a text into ` ?[A-Za-z]+`, ` ?[0-9]+`, white space, and ` ?` with anything else.
fn words(text: &str) -> Vec<String> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Letters,
        Digits,
        Space,
        Others,
    }
    let kind = |c: char| match c {
        'A'..='Z' | 'a'..='z' => Kind::Letters,
        '0'..='9' => Kind::Digits,
        c if c.is_whitespace() => Kind::Space,
        _ => Kind::Others,
    };
    let characters: Vec<char> = text.chars().collect();
    let (mut words, mut at) = (Vec::new(), 0);
    while at < characters.len() {
        let begin = at;
        if characters[at] == ' ' && characters.get(at + 1).map_or(false, |&next| kind(next) != Kind::Space) {
            at += 1;
        }
        let first = kind(characters[at]);
        while at < characters.len() && kind(characters[at]) == first {
            at += 1;
        }
        words.push(characters[begin..at].iter().collect());
    }
    words
}
