//! What the voice sounds like (speaker), and what it says (semantic): two encoders of its mel spectrogram.

use crate::array::Array;
use crate::ops::{self, Divide};
use crate::{Port, Result};

const SEMANTIC: usize = 48;
const HEADS: usize = 4;
const POOL: usize = 8;

/// mel [1, frames, mels] -> speaker [1, 64] of length 1
pub fn speaker(port: &Port, mel: &Array) -> Result<Array> {
    let x = port.conv("speaker.conv1", &mel.transpose(), 2, 2)?;
    let (weight, bias) = (port.weight("speaker.norm1.weight")?, port.weight("speaker.norm1.bias")?);
    let x = if port.faults.has("speaker-norm") {
        ops::layer_norm(&x.transpose(), Some((weight, bias)), 1e-5, Divide::Deviation).transpose()
    } else {
        ops::group_norm(&x, 4, weight, bias)
    };
    port.tap("speaker.norm1", &x)?;
    let x = port.tapped("speaker.act1", x.map(ops::silu))?;
    let x = port.conv("speaker.conv2", &x, 2, 1)?;
    let x = ops::group_norm(&x, 4, port.weight("speaker.norm2.weight")?, port.weight("speaker.norm2.bias")?);
    port.tap("speaker.norm2", &x)?;
    let x = port.tapped("speaker.act2", x.map(ops::silu))?;
    let means = x.data.chunks(x.width()).map(|channel| channel.iter().sum::<f32>() / channel.len() as f32);
    let x = port.linear("speaker.proj", &Array::new(means.collect(), &[1, x.shape[1]]))?;
    let length = x.data.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
    port.tapped("speaker", x.map(|x| x / length))
}

/// mel [1, frames, mels] -> semantic tokens [1, tokens, 48]
pub fn semantic(port: &Port, mel: &Array) -> Result<Array> {
    let x = port.conv("semantic.conv", &mel.transpose(), 4, 1)?;
    let tokens = x.width();
    let x = if port.faults.has("semantic-transpose") { x } else { x.transpose() };
    port.tap("semantic.transpose", &x)?;
    let x = x.reshape(&[1, tokens, SEMANTIC]);
    let normed = port.layer_norm("semantic.norm1", &x)?;
    let x = x.add(&port.attention("semantic.attn", &normed, HEADS, false)?);
    let normed = port.layer_norm("semantic.norm2", &x)?;
    let hidden = port.tapped("semantic.act", port.linear("semantic.fc1", &normed)?.map(ops::gelu))?;
    let x = x.add(&port.linear("semantic.fc2", &hidden)?);
    let pools = x.data.chunks_exact(POOL * SEMANTIC);
    let pooled = pools.flat_map(|rows| {
        (0..SEMANTIC).map(move |n| (0..POOL).map(|row| rows[row * SEMANTIC + n]).sum::<f32>() / POOL as f32)
    });
    let pooled = Array::new(pooled.collect(), &[1, tokens / POOL, SEMANTIC]);
    port.tap("semantic.pool", &pooled.transpose())?;
    let x = port.layer_norm("semantic.norm", &pooled)?;
    port.tapped("semantic", x)
}
