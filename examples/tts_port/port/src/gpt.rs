//! A GPT that makes mel codes: voice and text in front, then one code after the other.

use firstdiff::Rng;

use crate::array::Array;
use crate::ops;
use crate::{Port, Result};

pub const DIM: usize = 64;
const HEADS: usize = 4;
const LAYERS: usize = 4;
const CODES: usize = 64;
const START: i64 = CODES as i64;
const SAMPLING_STREAM: u64 = 1;

/// The codes [count] and the latents behind them [1, count, 64].
pub fn generate(port: &Port, speaker: &Array, semantic: &Array, ids: &[i64], seed: u64) -> Result<(Vec<i64>, Array)> {
    let count = 8 + ids.len() / 2;
    let mut logits = forward(port, speaker, semantic, ids, &[START])?.0;
    let mut codes = vec![START];
    let mut rng = Rng::new(seed, SAMPLING_STREAM);
    // prompt and codes tell enough: the rounds are not recorded, as in the reference
    let silent = port.silent();
    loop {
        let noisy: Vec<f32> = logits.data.iter().map(|logit| logit + rng.gumbel() as f32).collect();
        let best = (0..CODES).fold(0, |best, code| if noisy[code] > noisy[best] { code } else { best });
        codes.push(best as i64);
        let (next, hidden) = forward(&silent, speaker, semantic, ids, &codes)?;
        if codes.len() > count {
            let latents = hidden.rows(hidden.shape[1] - count, hidden.shape[1]);
            codes.remove(0);
            port.tap_ids("gpt.codes", &codes)?;
            port.tap("gpt.latents", &latents)?;
            return Ok((codes, latents));
        }
        logits = next;
    }
}

/// The logits of the next code, and what the last layer made of all tokens.
fn forward(port: &Port, speaker: &Array, semantic: &Array, ids: &[i64], codes: &[i64]) -> Result<(Array, Array)> {
    let mut x = prompt(port, speaker, semantic, ids, codes)?;
    for number in 0..LAYERS {
        x = layer(port, number, &x)?;
    }
    let x = port.layer_norm("gpt.norm", &x)?;
    let last = x.rows(x.shape[1] - 1, x.shape[1]).reshape(&[1, DIM]);
    Ok((port.linear("gpt.head", &last)?, x))
}

fn prompt(port: &Port, speaker: &Array, semantic: &Array, ids: &[i64], codes: &[i64]) -> Result<Array> {
    let speaker = port.linear("gpt.prompt.speaker", speaker)?;
    let semantic = port.linear("gpt.prompt.semantic", semantic)?;
    let text = port.embedding("gpt.prompt.text", ids)?;
    let codes = port.embedding("gpt.prompt.codes", codes)?;
    let data: Vec<f32> = [speaker.data, semantic.data, text.data, codes.data].concat();
    let tokens = data.len() / DIM;
    let first = i64::from(port.faults.has("position"));
    let positions = port.embedding("gpt.prompt.positions", &(first..first + tokens as i64).collect::<Vec<_>>())?;
    let sums = data.iter().zip(&positions.data).map(|(x, position)| x + position).collect();
    port.tapped("gpt.prompt", Array::new(sums, &[1, tokens, DIM]))
}

fn layer(port: &Port, number: usize, x: &Array) -> Result<Array> {
    let name = |part: &str| format!("gpt.layers.{number}.{part}");
    let normed = port.layer_norm(&name("norm1"), x)?;
    let x = x.add(&port.attention(&name("attn"), &normed, HEADS, true)?);
    let normed = port.layer_norm(&name("norm2"), &x)?;
    let gelu = number == 1 && port.faults.has("swiglu-gelu");
    let gate = port.linear(&name("mlp.gate"), &normed)?.map(if gelu { ops::gelu } else { ops::silu });
    port.tap(&name("mlp.act"), &gate)?;
    let up = port.linear(&name("mlp.up"), &normed)?;
    let hidden = port.linear(&name("mlp.down"), &gate.zip(&up, |x, y| x * y))?;
    port.tapped(&format!("gpt.layers.{number}"), x.add(&hidden))
}
