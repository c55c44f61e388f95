//! Write a trace so that a crash loses at most the tensor being written.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::glob::Filter;
use crate::json::push_text;
use crate::line::{push_table, Line};
use crate::lock::{lock, unlock};
use crate::npy;
use crate::tensor::Tensor;

pub(crate) const HEADER: &str = "trace.json";
pub(crate) const LINES: &str = "tensors.jsonl";
const MOST_AXES: usize = 64; // numpy's limit

/// Records tensors into a trace folder. It can be shared between threads, and copies its data at once: a buffer may be
/// reused as soon as `tap` returns.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("firstdiff-doc-{}", std::process::id()));
/// # std::fs::remove_dir_all(&folder).ok();
/// use firstdiff::{Recorder, Role};
///
/// let recorder = Recorder::create(&folder)?;
/// recorder.tap("mel", &[0.5f32; 6], &[2, 3])?;
/// recorder
///     .tensor("layers.0.ln_1")
///     .role(Role::Input)
///     .op("LayerNorm")
///     .attr("eps", 1e-5)
///     .write(&[1.0f64, 2.0], &[1, 2])?;
/// recorder.close()?;
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), firstdiff::Error>(())
/// ```
///
/// A recorder that is dropped before `close` leaves everything it wrote, marked as not complete.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    filter: Filter,
    place: (u64, u64),
    state: Option<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    header: File,
    header_text: String,
    lines: File,
    lines_length: u64,
    count: u64,
    calls: HashMap<(String, String, u64), u64>,
    broken: bool,
    closed: bool,
}

/// How to record: what `Recorder::options` gives.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    overwrite: bool,
    rank: u64,
    world: u64,
    seed: Option<u64>,
    metadata: Vec<(String, crate::Attr)>,
    only: Option<String>,
    producer: String,
}

impl RecorderOptions {
    /// Replace a trace that is there; without this it is an error.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Which process of how many this is.
    pub fn rank(mut self, rank: u64, world: u64) -> Self {
        self.rank = rank;
        self.world = world;
        self
    }

    /// Note the random seed in trace.json.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Note in trace.json what both runs must agree on, such as the size of the vocabulary.
    pub fn metadata(mut self, name: &str, value: impl Into<crate::Attr>) -> Self {
        self.metadata.push((name.to_string(), value.into()));
        self
    }

    /// Record only names that fit one of these globs, separated by commas, instead of what FIRSTDIFF_ONLY says.
    pub fn only(mut self, globs: &str) -> Self {
        self.only = Some(globs.to_string());
        self
    }

    /// Note the name of your program in trace.json.
    pub fn producer(mut self, name: &str) -> Self {
        self.producer = name.to_string();
        self
    }

    /// Begin a trace in a folder, which is created.
    pub fn create(self, path: impl AsRef<Path>) -> Result<Recorder> {
        let path = path.as_ref().to_path_buf();
        let failed = |error: std::io::Error| Error::write("a trace", &path, error);
        let header_text = self.header();
        let mut header = claim(&path, self.overwrite)?;
        write_header(&mut header, &header_text, "\"complete\": false").map_err(failed)?;
        let lines = File::create(path.join(LINES)).map_err(failed)?;
        let calls = HashMap::new();
        let state =
            State { header, header_text, lines, lines_length: 0, count: 0, calls, broken: false, closed: false };
        let only = self.only.unwrap_or_else(|| variable("FIRSTDIFF_ONLY").to_string_lossy().into_owned());
        let place = (self.rank, self.world);
        Ok(Recorder { path, filter: Filter::new(&only), place, state: Some(Mutex::new(state)) })
    }

    /// Begin the trace that FIRSTDIFF_TRACE names; while it is unset, taps do nothing.
    pub fn from_env(self) -> Result<Recorder> {
        let path = variable("FIRSTDIFF_TRACE");
        if path.is_empty() {
            return Ok(Recorder::disabled());
        }
        self.create(PathBuf::from(path))
    }

    /// The fields of trace.json but `complete`, with a comma at the end.
    fn header(&self) -> String {
        let mut text = "{\n \"format\": \"firstdiff-trace\",\n \"version\": 1,\n \"producer\": {\"name\": ".to_string();
        push_text(&mut text, &self.producer);
        let _ = writeln!(text, ", \"client\": \"rust\", \"version\": \"{}\"}},", env!("CARGO_PKG_VERSION"));
        if let Some(seed) = self.seed {
            let _ = writeln!(text, " \"seed\": {seed},");
        }
        if !self.metadata.is_empty() {
            text.push_str(" \"metadata\": ");
            push_table(&mut text, self.metadata.iter().map(|(name, value)| (name.as_str(), value)));
            text.push_str(",\n");
        }
        let input = variable("FIRSTDIFF_INPUT");
        if !input.is_empty() {
            text.push_str(" \"input\": ");
            push_text(&mut text, &input.to_string_lossy());
            text.push_str(",\n");
        }
        text
    }
}

impl Recorder {
    /// Begin a trace in a new folder.
    pub fn create(path: impl AsRef<Path>) -> Result<Recorder> {
        Recorder::options().create(path)
    }

    /// Begin the trace that the environment variable FIRSTDIFF_TRACE names; while it is unset, taps do nothing.
    pub fn from_env() -> Result<Recorder> {
        Recorder::options().from_env()
    }

    /// A recorder whose taps cost a branch and copy nothing.
    pub fn disabled() -> Recorder {
        Recorder { path: PathBuf::new(), filter: Filter::default(), place: (0, 1), state: None }
    }

    /// Say more before recording begins.
    pub fn options() -> RecorderOptions {
        let producer = "firstdiff".to_string();
        RecorderOptions { overwrite: false, rank: 0, world: 1, seed: None, metadata: Vec::new(), only: None, producer }
    }

    /// Whether taps are recorded.
    pub fn is_enabled(&self) -> bool {
        self.state.is_some()
    }

    /// The folder that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Record values under a name; a name that comes again is the next call of it.
    #[inline]
    pub fn tap<T: Element>(&self, name: &str, values: &[T], shape: &[usize]) -> Result<()> {
        if self.state.is_none() {
            return Ok(());
        }
        self.tensor(name).write(values, shape)
    }

    /// Say more of a tensor before its values are written.
    pub fn tensor<'a>(&'a self, name: &'a str) -> TensorRecord<'a> {
        TensorRecord { recorder: self, line: Line::new(name, self.place) }
    }

    /// Mark the trace complete. What failed before is told again.
    pub fn close(self) -> Result<()> {
        self.finish("\"complete\": true")
    }

    /// End after a failure: what was written stays, and trace.json says why there is no more.
    pub fn abandon(self, reason: &str) -> Result<()> {
        self.finish(&incomplete(reason))
    }

    fn finish(&self, ending: &str) -> Result<()> {
        let mut state = match self.lock() {
            Some(state) if !state.closed => state,
            _ => return Ok(()),
        };
        state.closed = true;
        let broken = incomplete("an earlier tensor could not be written");
        let ending = if state.broken { broken.as_str() } else { ending };
        let text = format!("{}{}", state.header_text, format_args!(" \"tensors\": {},\n", state.count));
        let written = write_header(&mut state.header, &text, ending);
        unlock(&state.header);
        written.map_err(|error| {
            Error::new(ErrorKind::Write, format!("cannot finish {} ({error})", self.path.display()))
        })?;
        if state.broken {
            let message = format!("{} is not complete: a tensor could not be written", self.path.display());
            return Err(Error::new(ErrorKind::Write, message));
        }
        Ok(())
    }

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        // a thread that panicked between two writes left nothing that the next line could spoil
        self.state.as_ref().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, mut line: Line<'_>, tensor: &Tensor<'_>) -> Result<()> {
        let name = line.name;
        if tensor.shape().len() > MOST_AXES {
            let axes = tensor.shape().len();
            return Err(Error::usage(format!("{name} has {axes} axes; a .npy file holds at most {MOST_AXES}")));
        }
        let mut state = match self.lock() {
            Some(state) => state,
            None => return Ok(()),
        };
        if state.broken || state.closed {
            return Err(Error::write(name, &self.path, "an earlier tensor could not be written"));
        }
        let file = format!("{:06}.npy", state.count);
        let path = self.path.join(&file);
        if let Err(error) = save(&path, tensor) {
            state.broken = true;
            std::fs::remove_file(&path).ok(); // a full disk gets room for trace.json to say so
            return Err(Error::write(name, &self.path, error));
        }
        let calls = state.calls.entry(line.identity()).or_insert(0);
        line.call = *calls;
        *calls += 1;
        let text = line.to_json(state.count, &file, tensor);
        if let Err(error) = state.lines.write_all(text.as_bytes()) {
            state.broken = true;
            let length = state.lines_length;
            state.lines.set_len(length).ok(); // no half line, where the disk lets us
            std::fs::remove_file(&path).ok();
            return Err(Error::write(name, &self.path, error));
        }
        state.lines_length += text.len() as u64;
        state.count += 1;
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() {
            "the program panicked"
        } else {
            "the recorder was dropped before it was closed"
        };
        self.finish(&incomplete(reason)).ok(); // nobody is left to be told
    }
}

/// A tensor to be recorded, with whatever is known of it; the fields are those of the trace format.
#[derive(Debug)]
#[must_use = "nothing is recorded before write"]
pub struct TensorRecord<'a> {
    recorder: &'a Recorder,
    line: Line<'a>,
}

impl<'a> TensorRecord<'a> {
    /// What the tensor is to its operation; a plain tap is a `Tap`.
    pub fn role(mut self, role: crate::Role) -> Self {
        self.line.role = role;
        self
    }

    /// Which input or output it is: a position or a keyword (any of `@ : #` becomes `_`).
    pub fn slot(mut self, slot: &str) -> Self {
        self.line.slot = slot.replace(['@', ':', '#'], "_");
        self
    }

    /// The round of a generation or training loop.
    pub fn step(mut self, step: u64) -> Self {
        self.line.step = step;
        self
    }

    /// The kind of operation, such as `LayerNorm`.
    pub fn op(mut self, op: &'a str) -> Self {
        self.line.op = Some(op);
        self
    }

    /// The name of the module around it.
    pub fn parent(mut self, parent: &'a str) -> Self {
        self.line.parent = Some(parent);
        self
    }

    /// Names of the axes, such as `b s h d`.
    pub fn dims(mut self, dims: &'a str) -> Self {
        self.line.dims = Some(dims);
        self
    }

    /// A setting of the operation, such as `eps`: a number, a text or a truth value.
    pub fn attr(mut self, name: &'a str, value: impl Into<crate::Attr>) -> Self {
        self.line.attrs.push((name, value.into()));
        self
    }

    /// Write the values of a slice.
    pub fn write<T: Element>(self, values: &[T], shape: &[usize]) -> Result<()> {
        if !self.wanted() {
            return Ok(());
        }
        let tensor = Tensor::new(values, shape)
            .map_err(|error| Error::usage(format!("{} cannot be recorded: {error}", self.line.name)))?;
        self.recorder.write(self.line, &tensor)
    }

    /// Write a tensor of any type.
    pub fn write_tensor(self, tensor: &Tensor<'_>) -> Result<()> {
        if !self.wanted() {
            return Ok(());
        }
        self.recorder.write(self.line, tensor)
    }

    fn wanted(&self) -> bool {
        self.recorder.is_enabled() && self.recorder.filter.wants(self.line.name)
    }
}

pub(crate) fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_default()
}

fn incomplete(reason: &str) -> String {
    let mut text = "\"complete\": false,\n \"error\": ".to_string();
    push_text(&mut text, reason);
    text
}

/// Header and values in one call to the system: a trace is thousands of small files.
fn save(path: &Path, tensor: &Tensor<'_>) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let header = npy::header(tensor.dtype(), tensor.shape());
    let values = tensor.bytes();
    let written = match file.write_vectored(&[IoSlice::new(&header), IoSlice::new(values)]) {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => 0,
        other => other?,
    };
    file.write_all(header.get(written..).unwrap_or(&[]))?;
    file.write_all(values.get(written.saturating_sub(header.len())..).unwrap_or(&[]))
}

/// In place, for the lock is on this very file.
fn write_header(file: &mut File, text: &str, ending: &str) -> std::io::Result<()> {
    let whole = format!("{text} {ending}\n}}\n");
    file.seek(SeekFrom::Start(0))?;
    file.write_all(whole.as_bytes())?;
    file.set_len(whole.len() as u64)
}

/// Create trace.json, locked, or take over one that may be replaced.
fn claim(path: &Path, overwrite: bool) -> Result<File> {
    let failed = |error: std::io::Error| Error::write("a trace", path, error);
    std::fs::create_dir_all(path).map_err(failed)?;
    let header = path.join(HEADER);
    match OpenOptions::new().read(true).write(true).create_new(true).open(&header) {
        Ok(file) => {
            lock(&file);
            Ok(file)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let file = OpenOptions::new().read(true).write(true).open(&header).map_err(failed)?;
            let shown = path.display();
            if !lock(&file) {
                let message = format!("another process is writing a trace to {shown}; give each its own folder");
                return Err(Error::new(ErrorKind::Write, message));
            }
            if !overwrite {
                unlock(&file);
                let message = format!("{shown} holds a trace already; choose another folder, or use overwrite(true)");
                return Err(Error::new(ErrorKind::Write, message));
            }
            clear(path).map_err(failed)?;
            Ok(file)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Remove what an earlier recorder wrote, and nothing else.
fn clear(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_suffix(".npy").unwrap_or("");
        if name == LINES || number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
