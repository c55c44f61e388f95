//! What can go wrong: every text is one sentence that says what was found and what to do.

use std::fmt;
use std::path::Path;

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself makes no sense: a shape that does not fit, a range without numbers.
    Usage,
    /// No golden tensor has this name.
    Missing,
    /// A file could not be read, or is not what its name says.
    Read,
    /// A trace could not be written.
    Write,
}

/// An error, with a sentence for people and a kind for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of your own, such as from a checkpoint that could not be computed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn usage(message: String) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    pub(crate) fn read(path: &Path, finding: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Read, format!("{}: {finding}", path.display()))
    }

    pub(crate) fn write(what: impl fmt::Display, path: &Path, cause: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Write, format!("cannot write {what} to {} ({cause})", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
