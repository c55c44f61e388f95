//! Vocoder: weight-normed transposed convolutions, then short frames that are windowed and added up; 22,050 Hz.

use crate::array::Array;
use crate::ops;
use crate::{Port, Result};

const UPS: usize = 2;
const FRAME: usize = 64;
const FRAME_HOP: usize = 16;
const GAIN: f32 = 0.5;

/// mel [1, frames, 80] -> sound [1, 256 * frames]
pub fn vocoder(port: &Port, mel: &Array) -> Result<Array> {
    let mut x = convolved(port, "vocoder.pre", &mel.transpose(), 3)?;
    for number in 0..UPS {
        let active = port.tapped(&format!("vocoder.acts.{number}"), x.map(leaky))?;
        let name = format!("vocoder.ups.{number}");
        let weight = normed_weight(port, &name)?;
        let up = ops::conv_transpose(&active, &weight, port.weight(&format!("{name}.bias"))?, 4, 2);
        port.tap(&name, &up)?;
        x = residual(port, number, &up)?;
    }
    let frames = convolved(port, "vocoder.post", &x, 3)?.transpose();
    let mut window = ops::hann(FRAME, true);
    if port.faults.has("overlap-window") {
        window.iter_mut().for_each(|w| *w = w.sqrt());
    }
    let windowed = ops::scale_last(&frames, &window);
    port.tap("vocoder.window", &windowed.transpose())?;
    let wave = port.tapped("vocoder.overlap_add", overlap_add(&windowed))?;
    let wave = port.tapped("vocoder.tanh", wave.map(f32::tanh))?;
    let gain = if port.faults.has("gain") { 1.0 } else { GAIN };
    let wave = wave.map(|x| gain * x);
    port.tap_sound("vocoder.gain", &wave)?;
    port.tap_sound("vocoder", &wave)?;
    Ok(wave)
}

fn leaky(x: f32) -> f32 {
    if x < 0.0 {
        0.1 * x
    } else {
        x
    }
}

fn normed_weight(port: &Port, name: &str) -> Result<Array> {
    let (g, v) = (port.weight(&format!("{name}.weight_g"))?, port.weight(&format!("{name}.weight_v"))?);
    if name == "vocoder.ups.0" && port.faults.has("weight-norm") {
        return Ok(v.clone());
    }
    Ok(ops::fold_weight_norm(g, v))
}

fn convolved(port: &Port, name: &str, x: &Array, padding: usize) -> Result<Array> {
    let bias = port.weight(&format!("{name}.bias"))?;
    port.tapped(name, ops::conv(x, &normed_weight(port, name)?, bias, 1, padding))
}

fn residual(port: &Port, number: usize, x: &Array) -> Result<Array> {
    let name = format!("vocoder.residuals.{number}");
    let active = port.tapped(&format!("{name}.act"), x.map(leaky))?;
    let made = convolved(port, &format!("{name}.conv"), &active, 1)?;
    let skip = !(number == 1 && port.faults.has("residual"));
    port.tapped(&name, if skip { x.add(&made) } else { made })
}

/// frames [1, frames, 64] -> sound [1, samples]; Hann windows add up to 2
fn overlap_add(frames: &Array) -> Array {
    let count = frames.shape[1];
    let mut sound = vec![0.0; (count - 1) * FRAME_HOP + FRAME];
    for (number, frame) in frames.data.chunks(FRAME).enumerate() {
        for (sample, value) in sound[number * FRAME_HOP..].iter_mut().zip(frame) {
            *sample += value / 2.0;
        }
    }
    sound.truncate(count * FRAME_HOP);
    Array::new(sound, &[1, count * FRAME_HOP])
}
