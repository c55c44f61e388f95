//! A small text-to-speech pipeline, ported from PyTorch to plain Rust. Every stage taps its tensors under the names that
//! the reference's modules have, so that `firstdiff compare` can lay the two runs side by side.

pub mod array;
pub mod encoders;
pub mod faults;
pub mod files;
pub mod flow;
pub mod gpt;
pub mod json;
pub mod mel;
pub mod ops;
pub mod pipeline;
pub mod tokenizer;
pub mod vocoder;

pub use pipeline::Port;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
