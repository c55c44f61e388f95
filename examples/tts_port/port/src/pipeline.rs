//! The whole pipeline: its weights, its taps, and the layers that all stages share.

use std::path::Path;
use std::sync::Arc;

use firstdiff::{Recorder, RecorderOptions, Rng, Role};

use crate::array::Array;
use crate::faults::Faults;
use crate::files::{self, Weights};
use crate::ops::{self, Divide};
use crate::tokenizer::Tokenizer;
use crate::{encoders, flow, gpt, mel, vocoder, Result};

pub const SEED: u64 = 42;

/// Everything a run needs: weights, tokenizer, the recorder, and the faults that are switched on.
pub struct Port {
    weights: Arc<Weights>,
    tokenizer: Arc<Tokenizer>,
    recorder: Recorder,
    pub faults: Faults,
}

impl Port {
    /// Load a model folder, and record where FIRSTDIFF_TRACE says.
    pub fn load(folder: &Path) -> Result<Port> {
        Port::with_recorder(folder, || options().from_env())
    }

    /// Load a model folder, and record to a new folder.
    pub fn load_recording(folder: &Path, trace: &Path) -> Result<Port> {
        Port::with_recorder(folder, || options().create(trace))
    }

    fn with_recorder(folder: &Path, recorder: impl Fn() -> firstdiff::Result<Recorder>) -> Result<Port> {
        let faults = Faults::from_env()?;
        let path = folder.join("model.safetensors");
        if !path.is_file() {
            return Err(format!("{} is not there: run `python make_model.py` first", path.display()).into());
        }
        let mut weights = files::read_safetensors(&path)?;
        break_weights(&mut weights, &faults);
        let tokenizer = Tokenizer::load(folder, &faults)?;
        let recorder = recorder()?;
        record_weights(&recorder, &weights)?;
        Ok(Port { weights: Arc::new(weights), tokenizer: Arc::new(tokenizer), recorder, faults })
    }

    /// The sound [1, samples] of a text in a voice.
    pub fn speak(&self, text: &str, voice: &[f32]) -> Result<Array> {
        let ids = self.tokenizer.encode(text)?;
        self.tap_ids("tokenizer.ids", &ids)?;
        let mel = mel::mel(self, voice)?;
        let speaker = encoders::speaker(self, &mel)?;
        let semantic = encoders::semantic(self, &mel)?;
        let (_, latents) = gpt::generate(self, &speaker, &semantic, &ids, SEED)?;
        let made = flow::flow(self, &latents, &mel, &speaker, SEED)?;
        vocoder::vocoder(self, &made)
    }

    /// The same model, recording nothing.
    pub fn silent(&self) -> Port {
        let (weights, tokenizer) = (Arc::clone(&self.weights), Arc::clone(&self.tokenizer));
        Port { weights, tokenizer, recorder: Recorder::disabled(), faults: self.faults.clone() }
    }

    pub fn close(self) -> Result<()> {
        Ok(self.recorder.close()?)
    }

    pub fn tap(&self, name: &str, x: &Array) -> Result<()> {
        Ok(self.recorder.tap(name, &x.data, &x.shape)?)
    }

    pub fn tapped(&self, name: &str, x: Array) -> Result<Array> {
        self.tap(name, &x)?;
        Ok(x)
    }

    /// Sound [1, samples], marked as such.
    pub fn tap_sound(&self, name: &str, x: &Array) -> Result<()> {
        let record = self.recorder.tensor(name).dims("b samples").attr("sample_rate", i64::from(files::SAMPLE_RATE));
        Ok(record.write(&x.data, &x.shape)?)
    }

    /// Whole numbers, as one row of a batch.
    pub fn tap_ids(&self, name: &str, ids: &[i64]) -> Result<()> {
        Ok(self.recorder.tap(name, ids, &[1, ids.len()])?)
    }

    pub fn weight(&self, name: &str) -> Result<&Array> {
        self.weights.get(name).ok_or_else(|| format!("the weights have no {name}").into())
    }

    pub fn linear(&self, name: &str, x: &Array) -> Result<Array> {
        let (weight, bias) = (self.weight(&format!("{name}.weight"))?, self.weight(&format!("{name}.bias"))?);
        self.tapped(name, ops::linear(x, weight, bias))
    }

    pub fn conv(&self, name: &str, x: &Array, stride: usize, padding: usize) -> Result<Array> {
        let (weight, bias) = (self.weight(&format!("{name}.weight"))?, self.weight(&format!("{name}.bias"))?);
        self.tapped(name, ops::conv(x, weight, bias, stride, padding))
    }

    pub fn embedding(&self, name: &str, ids: &[i64]) -> Result<Array> {
        let table = self.weight(&format!("{name}.weight"))?;
        let width = table.width();
        let rows = ids.iter().flat_map(|&id| &table.data[id as usize * width..(id as usize + 1) * width]);
        // positions have no batch axis in the reference
        let shape = if name.ends_with("positions") { vec![ids.len(), width] } else { vec![1, ids.len(), width] };
        self.tapped(name, Array::new(rows.copied().collect(), &shape))
    }

    pub fn layer_norm(&self, name: &str, x: &Array) -> Result<Array> {
        let affine = (self.weight(&format!("{name}.weight"))?, self.weight(&format!("{name}.bias"))?);
        let eps = if name == "gpt.layers.1.norm1" && self.faults.has("norm-eps") { 1e-3 } else { 1e-5 };
        let wrong = name == "gpt.layers.2.norm2" && self.faults.has("norm-variance");
        let divide = if wrong { Divide::Variance } else { Divide::Deviation };
        self.tapped(name, ops::layer_norm(x, Some(affine), eps, divide))
    }

    pub fn attention(&self, name: &str, x: &Array, heads: usize, causal: bool) -> Result<Array> {
        let qkv = self.linear(&format!("{name}.qkv"), x)?;
        let first = name == "gpt.layers.0.attn";
        let order = if first && self.faults.has("qkv-order") { [1, 0, 2] } else { [0, 1, 2] };
        let [q, k, v] = order.map(|part| qkv.chunk(3, part));
        let causal = causal && !(first && self.faults.has("causal-mask"));
        let mixed = self.tapped(&format!("{name}.heads"), ops::attention(&q, &k, &v, heads, causal))?;
        let out = self.linear(&format!("{name}.out"), &ops::join_heads(&mixed))?;
        self.tapped(name, out)
    }
}

fn options() -> RecorderOptions {
    Recorder::options().seed(SEED).producer("tts-port")
}

/// Record the weights as they are used, so that wrong ones can be told from wrong code. Of those under weight
/// normalisation the file has two parts, which torch names otherwise.
fn record_weights(recorder: &Recorder, weights: &Weights) -> Result<()> {
    let mut names: Vec<&String> = weights.keys().filter(|name| !name.contains(".weight_")).collect();
    names.sort();
    for name in names {
        let (parent, weight) = (name.rsplit_once('.').map_or("", |(parent, _)| parent), &weights[name]);
        recorder.tensor(name).role(Role::Param).parent(parent).write(&weight.data, &weight.shape)?;
    }
    Ok(())
}

/// Faults of loading: a weight that is used as it lies in the file, and one that keeps what it was made with.
fn break_weights(weights: &mut Weights, faults: &Faults) {
    if faults.has("weight-transposed") {
        weights.entry("gpt.layers.2.attn.out.weight".to_string()).and_modify(|weight| *weight = weight.transpose());
    }
    if faults.has("weight-missing") {
        weights.entry("gpt.layers.3.mlp.down.weight".to_string()).and_modify(|weight| {
            let (mut rng, bound) = (Rng::new(SEED, 3), 1.0 / (weight.width() as f32).sqrt());
            weight.data.iter_mut().for_each(|x| *x = bound * (2.0 * rng.uniform_f32() - 1.0));
        });
    }
}
