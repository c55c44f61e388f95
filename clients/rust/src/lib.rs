//! Record and validate the tensors of a model, for [firstdiff](https://github.com/firstdiff/firstdiff), which finds where
//! two runs of the same model part ways, and why.
//!
//! - [`Recorder`] leaves a trace that `firstdiff compare` reads; [`tap`] does so from anywhere.
//! - [`Validator`] checks tensors against a trace or a folder of `.npy` files.
//! - [`Rng`] draws the same random numbers as Python's `firstdiff.rng`.
//!
//! Everything takes plain slices and shapes, needs nothing but `std`, and returns errors instead of panicking.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `FIRSTDIFF_TRACE` | where [`Recorder::from_env`] and [`tap`] write; while it is unset they do nothing |
//! | `FIRSTDIFF_ONLY` | record only names that fit one of these globs, separated by commas |
//! | `FIRSTDIFF_INPUT` | the inputs of this run, which [`Golden::input_from_env`] opens; noted in trace.json |
#![warn(missing_debug_implementations)]

mod divergence;
mod dtype;
mod error;
mod glob;
mod global;
mod golden;
mod json;
mod line;
mod lock;
mod npy;
mod recorder;
mod rng;
mod tensor;
mod validator;

pub use divergence::Divergence;
pub use dtype::{Bf16Bits, DType, Element, F16Bits};
pub use error::{Error, ErrorKind, Result};
pub use global::{close, tap};
pub use golden::{Entry, Golden};
pub use line::{Attr, Role};
pub use recorder::{Recorder, RecorderOptions, TensorRecord};
pub use rng::{philox4x32, Rng};
pub use tensor::Tensor;
pub use validator::{Check, Difference, Differences, Outcome, Summary, Tolerance, Validator};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
