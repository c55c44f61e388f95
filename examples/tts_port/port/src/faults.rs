//! Faults that TTS_FAULT switches on, by name and separated by commas: mistakes known from real ports.

use crate::Result;

/// Every fault, in the order of the pipeline; faults.toml says where each shows first, and its cause.
pub const NAMES: [&str; 26] = [
    "merges-order",
    "mel-hop",
    "mel-window",
    "mel-magnitude",
    "mel-fp16",
    "mel-log",
    "speaker-norm",
    "semantic-transpose",
    "position",
    "qkv-order",
    "causal-mask",
    "norm-eps",
    "swiglu-gelu",
    "weight-transposed",
    "norm-variance",
    "weight-missing",
    "adaln-silu",
    "adaln-chunks",
    "modulate-one",
    "guidance",
    "integrator-sign",
    "prompt-cut",
    "weight-norm",
    "residual",
    "overlap-window",
    "gain",
];

#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<String>);

impl Faults {
    pub fn from_env() -> Result<Faults> {
        let wanted = std::env::var("TTS_FAULT").unwrap_or_default();
        let names: Vec<String> = wanted.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
        match names.iter().find(|name| !NAMES.contains(&name.as_str())) {
            Some(unknown) => Err(format!("TTS_FAULT has no {unknown:?}; it takes {}", NAMES.join(", ")).into()),
            None => Ok(Faults(names)),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        debug_assert!(NAMES.contains(&name), "{name} is not listed");
        self.0.iter().any(|fault| fault == name)
    }
}
