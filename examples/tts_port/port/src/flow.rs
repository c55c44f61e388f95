//! Flow matching with a diffusion transformer: from noise to mel frames, in the voice of the prompt.

use firstdiff::Rng;

use crate::array::Array;
use crate::gpt::DIM as LATENT;
use crate::mel::MELS;
use crate::ops::{self, Divide};
use crate::{Port, Result};

const DIM: usize = 64;
const HEADS: usize = 4;
const BLOCKS: usize = 2;
const STEPS: usize = 4;
const PROMPT: usize = 16;
const FRAMES_PER_CODE: usize = 4;
const GUIDANCE: f32 = 0.7;
const NOISE_STREAM: u64 = 2;

/// latents [1, codes, 64], mel of the voice, speaker [1, 64] -> mel [1, 4 * codes, 80]
pub fn flow(port: &Port, latents: &Array, voice: &Array, speaker: &Array, seed: u64) -> Result<Array> {
    let frames = PROMPT + FRAMES_PER_CODE * latents.shape[1];
    let mut rng = Rng::new(seed, NOISE_STREAM);
    let noise = (0..frames * MELS).map(|_| rng.normal() as f32).collect();
    let mut x = port.tapped("flow.noise", Array::new(noise, &[1, frames, MELS]))?;
    let condition = condition(latents, voice, speaker, frames);
    for step in 0..STEPS {
        let velocity = velocity(port, &x, &condition, step as f32 / STEPS as f32)?;
        let guided = guidance(port, &velocity)?;
        let sign = if port.faults.has("integrator-sign") { -1.0 } else { 1.0 };
        x = port.tapped("flow.step", x.zip(&guided, |x, v| x + sign * v / STEPS as f32))?;
    }
    let begin = if port.faults.has("prompt-cut") { 0 } else { PROMPT };
    port.tapped("flow.cut", x.rows(begin, frames))
}

/// Prompt, latents and speaker of every frame [frames, 80 + 64 + 64].
fn condition(latents: &Array, voice: &Array, speaker: &Array, frames: usize) -> Vec<Vec<f32>> {
    let row = |frame: usize| match frame.checked_sub(PROMPT) {
        None => [&voice.data[frame * MELS..(frame + 1) * MELS], &[0.0; LATENT], &speaker.data[..]].concat(),
        Some(after) => {
            let code = after / FRAMES_PER_CODE;
            [&[0.0; MELS], &latents.data[code * LATENT..(code + 1) * LATENT], &speaker.data[..]].concat()
        }
    };
    (0..frames).map(row).collect()
}

/// Velocities with and without the condition [2, frames, 80].
fn velocity(port: &Port, x: &Array, condition: &[Vec<f32>], t: f32) -> Result<Array> {
    let time = time(port, t)?;
    let frames = condition.len();
    let mut data = Vec::new();
    for given in [true, false] {
        for (row, condition) in x.data.chunks(MELS).zip(condition) {
            data.extend(row);
            data.extend(condition.iter().map(|&c| if given { c } else { 0.0 }));
        }
    }
    let width = data.len() / frames / 2;
    let mut x = port.linear("flow.velocity.input", &Array::new(data, &[2, frames, width]))?;
    for number in 0..BLOCKS {
        x = block(port, number, &x, &time)?;
    }
    let parts = adaln(port, "flow.velocity.adaln", &time)?;
    let normed = port.tapped("flow.velocity.norm", ops::layer_norm(&x, None, 1e-6, Divide::Deviation))?;
    let x = modulate(&normed, &parts.chunk(2, 0), &parts.chunk(2, 1), 1.0);
    port.tap("flow.velocity.modulate", &x)?;
    port.linear("flow.velocity.out", &x)
}

/// The same time for both halves of the batch [2, 64].
fn time(port: &Port, t: f32) -> Result<Array> {
    let half = DIM / 2;
    let rate = |k: usize| (-(10_000f64.ln()) as f32 * k as f32 / half as f32).exp();
    let angles: Vec<f32> = (0..half).map(|k| 100.0 * t * rate(k)).collect();
    let waves: Vec<f32> = angles.iter().map(|a| a.cos()).chain(angles.iter().map(|a| a.sin())).collect();
    let x = port.linear("flow.velocity.time.fc1", &Array::new([waves.clone(), waves].concat(), &[2, DIM]))?;
    let x = port.tapped("flow.velocity.time.act", x.map(ops::silu))?;
    port.linear("flow.velocity.time.fc2", &x)
}

/// SiLU and a linear layer in front of what is chunked into shifts, scales and gates: [2, parts * 64].
fn adaln(port: &Port, name: &str, time: &Array) -> Result<Array> {
    let plain = name == "flow.velocity.blocks.0.adaln" && port.faults.has("adaln-silu");
    let activated = if plain { time.clone() } else { time.map(ops::silu) };
    port.tap(&format!("{name}.act"), &activated)?;
    port.linear(&format!("{name}.linear"), &activated)
}

/// x [2, frames, 64] * (1 + scale [2, 64]) + shift [2, 64]
fn modulate(x: &Array, shift: &Array, scale: &Array, one: f32) -> Array {
    let frames = x.shape[1];
    let value = |(at, &x): (usize, &f32)| {
        let place = at / (frames * DIM) * DIM + at % DIM;
        x * (one + scale.data[place]) + shift.data[place]
    };
    Array::new(x.data.iter().enumerate().map(value).collect(), &x.shape)
}

/// x + gate [2, 64] * y
fn gated(x: &Array, gate: &Array, y: &Array) -> Array {
    let frames = x.shape[1];
    let values = x.data.iter().zip(&y.data).enumerate();
    let gate = |at: usize| gate.data[at / (frames * DIM) * DIM + at % DIM];
    Array::new(values.map(|(at, (&x, &y))| x + gate(at) * y).collect(), &x.shape)
}

fn block(port: &Port, number: usize, x: &Array, time: &Array) -> Result<Array> {
    let name = |part: &str| format!("flow.velocity.blocks.{number}.{part}");
    let parts = adaln(port, &name("adaln"), time)?;
    let part = |n: usize| parts.chunk(6, n);
    let (shift, scale) = if port.faults.has("adaln-chunks") && number == 0 { (1, 0) } else { (0, 1) };
    let normed = port.tapped(&name("norm1"), ops::layer_norm(x, None, 1e-6, Divide::Deviation))?;
    let modulated = port.tapped(&name("modulate1"), modulate(&normed, &part(shift), &part(scale), 1.0))?;
    let x = gated(x, &part(2), &port.attention(&name("attn"), &modulated, HEADS, false)?);
    let normed = port.tapped(&name("norm2"), ops::layer_norm(&x, None, 1e-6, Divide::Deviation))?;
    let one = if port.faults.has("modulate-one") && number == 1 { 0.0 } else { 1.0 };
    let modulated = port.tapped(&name("modulate2"), modulate(&normed, &part(3), &part(4), one))?;
    let hidden = port.tapped(&name("act"), port.linear(&name("fc1"), &modulated)?.map(ops::gelu_tanh))?;
    let x = gated(&x, &part(5), &port.linear(&name("fc2"), &hidden)?);
    port.tapped(&format!("flow.velocity.blocks.{number}"), x)
}

/// Classifier-free guidance: away from what the model does without a condition.
fn guidance(port: &Port, velocity: &Array) -> Result<Array> {
    let (conditional, unconditional) = velocity.data.split_at(velocity.data.len() / 2);
    let pairs = conditional.iter().zip(unconditional);
    let other = port.faults.has("guidance");
    let guided = pairs.map(|(c, u)| if other { u + GUIDANCE * (c - u) } else { (1.0 + GUIDANCE) * c - GUIDANCE * u });
    port.tapped("flow.guidance", Array::new(guided.collect(), &[1, velocity.shape[1], MELS]))
}
