//! Golden data: a trace, or a plain folder of .npy files, with its tensors by name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{self, Json};
use crate::line::Role;
use crate::npy;
use crate::recorder::{variable, HEADER, LINES};
use crate::tensor::Tensor;

/// The tensors of a trace, or of a plain folder of `.npy` files; values are read when they are asked for.
///
/// A tensor of a trace is called by its key, such as `layers.0.attn@1:in.0#s2#r3`, which is the plain name for most; a name
/// that only one tensor has is enough. A file in a folder is called by its path without `.npy`, `decoder/mel`, or by its
/// last part alone where only one file has it.
#[derive(Clone, Debug)]
pub struct Golden {
    path: PathBuf,
    entries: Vec<Entry>,
    by_key: HashMap<String, usize>,
    complete: Option<bool>,
}

/// One tensor of golden data, and where it comes from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// What it is called.
    pub name: String,
    /// What it is to its operation.
    pub role: Role,
    /// Which input or output it is.
    pub slot: String,
    /// How many times the name was recorded before, in this step.
    pub call: u64,
    /// The round of a loop.
    pub step: u64,
    /// The process it comes from.
    pub rank: u64,
    seq: Option<i64>,
    source: std::result::Result<Source, String>,
}

#[derive(Clone, Debug)]
struct Source {
    file: PathBuf,
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
}

impl Golden {
    /// Open a trace folder, a plain folder of `.npy` files, or one `.npy` file.
    pub fn open(path: impl AsRef<Path>) -> Result<Golden> {
        let path = path.as_ref().to_path_buf();
        if !path.exists() {
            return Err(Error::new(ErrorKind::Read, format!("{} does not exist", path.display())));
        }
        if path.join(LINES).is_file() {
            return open_trace(path);
        }
        let mut entries = Vec::new();
        if path.is_file() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            entries.push(Entry::of_file(name, path.clone()));
        } else {
            find_files(&path, "", &mut entries)?;
            entries.sort_by(|a, b| a.name.cmp(&b.name));
        }
        if entries.is_empty() {
            return Err(Error::read(&path, "holds neither a trace nor .npy files"));
        }
        Ok(Golden::new(path, entries, None))
    }

    /// Open what the environment variable FIRSTDIFF_INPUT names: the inputs of this run. None while it is unset.
    pub fn input_from_env() -> Result<Option<Golden>> {
        let path = variable("FIRSTDIFF_INPUT");
        if path.is_empty() {
            return Ok(None);
        }
        Golden::open(PathBuf::from(path)).map(Some)
    }

    fn new(path: PathBuf, entries: Vec<Entry>, complete: Option<bool>) -> Golden {
        let by_key = entries.iter().enumerate().map(|(place, entry)| (entry.key(), place)).collect();
        Golden { path, entries, by_key, complete }
    }

    /// The tensors, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the trace was closed; None for a plain folder.
    pub fn is_complete(&self) -> Option<bool> {
        self.complete
    }

    /// Read a tensor by its name or key.
    pub fn load(&self, name: &str) -> Result<Tensor<'static>> {
        self.read(self.find(name)?)
    }

    /// Read the values of an entry.
    pub fn read(&self, entry: &Entry) -> Result<Tensor<'static>> {
        let source = entry.source.as_ref().map_err(|finding| Error::read(&self.path, finding))?;
        let tensor = npy::read(&source.file)?;
        if let Some(shape) = source.shape.as_deref().filter(|shape| *shape != tensor.shape()) {
            let found = format!("has shape {:?} where its line says {shape:?}", tensor.shape());
            return Err(Error::read(&source.file, found));
        }
        match source.dtype {
            Some(dtype) if dtype != tensor.dtype() => {
                if DType::from_descr(&dtype.descr()[1..]) != Some(tensor.dtype()) {
                    let found = format!("has elements of type {} where its line says {dtype}", tensor.dtype());
                    return Err(Error::read(&source.file, found));
                }
                Ok(tensor.with_dtype(dtype))
            }
            _ => Ok(tensor),
        }
    }

    fn find(&self, name: &str) -> Result<&Entry> {
        if let Some(&place) = self.by_key.get(name) {
            return Ok(&self.entries[place]);
        }
        let last_part = |entry: &&Entry| self.complete.is_none() && entry.name.ends_with(&format!("/{name}"));
        let named: Vec<&Entry> = self.entries.iter().filter(|entry| entry.name == name || last_part(entry)).collect();
        match named.as_slice() {
            [entry] => Ok(entry),
            [] => Err(self.missing(name)),
            several => {
                let keys: Vec<String> = several.iter().take(3).map(|entry| entry.key()).collect();
                let text = format!(
                    "{} has several tensors called {name}; say which: {}",
                    self.path.display(),
                    keys.join(", ")
                );
                Err(Error::new(ErrorKind::Missing, text))
            }
        }
    }

    fn missing(&self, name: &str) -> Error {
        let last = name.rsplit(['.', '/']).next().unwrap_or(name);
        let near: Vec<String> =
            self.entries.iter().filter(|entry| entry.name.contains(last)).take(3).map(Entry::key).collect();
        let hint = if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) };
        Error::new(ErrorKind::Missing, format!("{} has no tensor {name}{hint}", self.path.display()))
    }
}

impl Entry {
    /// The key as text: the name, and what is not zero or `:out.0`.
    pub fn key(&self) -> String {
        let mut text = self.name.clone();
        if self.call != 0 || looks_suffixed(&self.name) {
            text.push_str(&format!("@{}", self.call));
        }
        let role = match self.role {
            Role::Input => "in",
            Role::Output | Role::Tap => "out",
            other => other.name(),
        };
        if role != "out" || self.slot != "0" {
            text.push_str(&format!(":{role}"));
            if self.slot != "0" || role == "in" {
                text.push_str(&format!(".{}", self.slot));
            }
        }
        if self.step != 0 {
            text.push_str(&format!("#s{}", self.step));
        }
        if self.rank != 0 {
            text.push_str(&format!("#r{}", self.rank));
        }
        text
    }

    fn of_file(name: String, file: PathBuf) -> Entry {
        let source = Ok(Source { file, dtype: None, shape: None });
        Entry { name, role: Role::Output, slot: "0".to_string(), call: 0, step: 0, rank: 0, seq: None, source }
    }

    /// The fields of a line; an error says which is wrong.
    fn of_line(line: &Json, folder: &Path) -> std::result::Result<Entry, String> {
        let text = |name: &str| match line.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.text().map(Some).ok_or(format!("{name} is no text")),
        };
        let count = |name: &str| match line.get(name) {
            None | Some(Json::Null) => Ok(0),
            Some(value) => value.int().and_then(|n| u64::try_from(n).ok()).ok_or(format!("{name} is no count")),
        };
        let name = text("name")?.ok_or("it has no name")?.to_string();
        let role = text("role")?.unwrap_or("output");
        let role = Role::from_name(role).ok_or_else(|| format!("role {role:?} is unknown"))?;
        let slot = match line.get("slot") {
            Some(Json::Int(number)) => number.to_string(),
            _ => text("slot")?.unwrap_or("0").to_string(),
        };
        let (call, step, rank) = (count("call")?, count("step")?, count("rank")?);
        let seq = line.get("seq").and_then(Json::int);
        let source = source_of(line, folder);
        Ok(Entry { name, role, slot, call, step, rank, seq, source })
    }
}

/// Whether a name ends as a key with a call, role, step or rank does.
fn looks_suffixed(name: &str) -> bool {
    let ends_in_number = |mark: &str| {
        name.rfind(mark).map_or(false, |at| {
            let digits = &name[at + mark.len()..];
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let ends_in_role = || {
        let behind = name.rsplit(':').next().filter(|behind| behind.len() < name.len()).unwrap_or("");
        let role = behind.split('.').next().unwrap_or("");
        ["in", "out", "param", "buffer", "grad", "tap"].contains(&role) && !behind.contains(['@', '#'])
    };
    ends_in_number("#r") || ends_in_number("#s") || ends_in_number("@") || ends_in_role()
}

fn source_of(line: &Json, folder: &Path) -> std::result::Result<Source, String> {
    let file = line.get("file").and_then(Json::text).unwrap_or("");
    // a file beside the lines, never a path out of the folder
    if file.is_empty() || file.contains(['/', '\\', '\0']) || file == ".." {
        return Err(format!("its file {file:?} is not in the trace"));
    }
    let dtype = match line.get("dtype") {
        None | Some(Json::Null) => None,
        Some(value) => {
            let name = value.text().unwrap_or("?");
            Some(DType::from_name(name).ok_or(format!("has elements of type {name:?}, which cannot be compared"))?)
        }
    };
    let shape = match line.get("shape") {
        Some(Json::List(sizes)) => {
            let size = |item: &Json| item.int().and_then(|n| usize::try_from(n).ok());
            Some(sizes.iter().map(size).collect::<Option<Vec<_>>>().ok_or("has a shape that is none")?)
        }
        _ => None,
    };
    Ok(Source { file: folder.join(file), dtype, shape })
}

fn open_trace(path: PathBuf) -> Result<Golden> {
    let header = std::fs::read(path.join(HEADER)).ok().and_then(|text| json::parse(&text).ok());
    let version = header.as_ref().and_then(|header| header.get("version")).and_then(Json::int);
    if let Some(version) = version.filter(|&version| version > 1) {
        return Err(Error::read(&path, format!("is a trace of version {version}; this client reads version 1; update it")));
    }
    let complete = header.as_ref().and_then(|header| header.get("complete")) != Some(&Json::Bool(false));
    let text = std::fs::read(path.join(LINES))
        .map_err(|error| Error::read(&path.join(LINES), format!("cannot be read ({error})")))?;
    let mut entries = Vec::new();
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let torn = lines.pop().unwrap_or(b"");
    for (number, line) in lines.iter().enumerate() {
        if !line.iter().all(u8::is_ascii_whitespace) {
            entries.push(parse_line(line, number + 1, &path));
        }
    }
    // a last line without its end counts only if nothing of it is missing
    if let Some(entry) = json::parse(torn).ok().and_then(|line| Entry::of_line(&line, &path).ok()) {
        entries.push(entry);
    }
    number_calls(&mut entries);
    if entries.iter().all(|entry| entry.seq.is_some()) {
        entries.sort_by_key(|entry| entry.seq);
    }
    Ok(Golden::new(path, entries, Some(complete)))
}

/// A line that cannot be read is one entry that says so; the others are read.
fn parse_line(text: &[u8], number: usize, folder: &Path) -> Entry {
    let parsed = json::parse(text).and_then(|line| Entry::of_line(&line, folder));
    parsed.unwrap_or_else(|finding| {
        let mut entry = Entry::of_file(format!("line {number}"), PathBuf::new());
        entry.source = Err(format!("line {number} of {LINES} cannot be read ({finding})"));
        entry
    })
}

/// Recorders need not count: a name that comes again is the next call; a stated call that does is an error.
fn number_calls(entries: &mut [Entry]) {
    let mut seen: HashMap<String, u64> = HashMap::new();
    for entry in entries {
        let key = entry.key();
        let again = seen.get(&key).copied().unwrap_or(0);
        seen.insert(key.clone(), again + 1);
        if again == 0 {
            continue;
        }
        if entry.call == 0 {
            entry.call = again;
            *seen.entry(entry.key()).or_insert(0) += 1;
        } else {
            entry.source = Err(format!("{key} was recorded twice"));
        }
    }
}

/// The .npy files below a folder, without hidden ones and links to folders.
fn find_files(folder: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<()> {
    let unreadable = |error| Error::read(folder, format!("cannot be read ({error})"));
    for file in std::fs::read_dir(folder).map_err(unreadable)? {
        let file = file.map_err(unreadable)?;
        let name = file.file_name().to_string_lossy().into_owned();
        let kind = file.file_type().map_err(unreadable)?;
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            find_files(&file.path(), &format!("{prefix}{name}/"), entries)?;
        } else if let Some(stem) = name.strip_suffix(".npy") {
            entries.push(Entry::of_file(format!("{prefix}{stem}"), file.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_python() {
        let mut entry = Entry::of_file("layers.0.attn".to_string(), PathBuf::new());
        assert_eq!(entry.key(), "layers.0.attn");
        (entry.call, entry.role, entry.step, entry.rank) = (1, Role::Input, 2, 3);
        assert_eq!(entry.key(), "layers.0.attn@1:in.0#s2#r3");
        (entry.call, entry.role, entry.step, entry.rank) = (0, Role::Param, 0, 0);
        assert_eq!(entry.key(), "layers.0.attn:param");
        for (name, key) in [("a@1", "a@1@0"), ("a#s2", "a#s2@0"), ("a:in.0", "a:in.0@0"), ("a:b", "a:b"), ("a@", "a@")]
        {
            assert_eq!(Entry::of_file(name.to_string(), PathBuf::new()).key(), key);
        }
    }
}
