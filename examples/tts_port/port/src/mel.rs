//! Mel spectrogram of a voice: frames, window, power, mel filters, log10.

use std::f64::consts::PI;

use crate::array::Array;
use crate::ops;
use crate::{Port, Result};

const N_FFT: usize = 2048;
const HOP: usize = 256;
pub const MELS: usize = 80;
const BINS: usize = N_FFT / 2 + 1;
const RATE: f64 = 22_050.0;

/// wave [samples] -> mel [1, frames, mels]
pub fn mel(port: &Port, wave: &[f32]) -> Result<Array> {
    let frames = frames(wave, if port.faults.has("mel-hop") { 220 } else { HOP });
    port.tap("mel.frames", &frames)?;
    let window = ops::hann(N_FFT, !port.faults.has("mel-window"));
    let windowed = ops::scale_last(&frames, &window);
    port.tap("mel.window", &windowed)?;
    let mut power = power(&windowed, port.faults.has("mel-magnitude"));
    if port.faults.has("mel-fp16") {
        power = power.map(ops::to_f16);
    }
    port.tap("mel.power", &power)?;
    let bands = ops::matmul(&power, &filters());
    port.tap("mel.filters", &bands)?;
    let natural = port.faults.has("mel-log");
    let log = bands.map(|x| if natural { x.max(1e-5).ln() } else { x.max(1e-5).log10() });
    port.tap("mel.log", &log)?;
    let count = log.shape[0];
    let mel = log.reshape(&[1, count, MELS]);
    port.tap("mel", &mel)?;
    Ok(mel)
}

/// Cut frames [frames, 2048] out of a sound that is mirrored at both ends.
fn frames(wave: &[f32], hop: usize) -> Array {
    let (half, last) = (N_FFT as isize / 2, wave.len() as isize - 1);
    let mirrored = |at: isize| wave[if at > last { 2 * last - at } else { at.abs() } as usize];
    let count = wave.len() / hop + 1;
    let start = |frame: usize| (frame * hop) as isize - half;
    let data = (0..count).flat_map(|frame| (0..N_FFT as isize).map(move |k| start(frame) + k)).map(mirrored).collect();
    Array::new(data, &[count, N_FFT])
}

/// The squares of what a Fourier transform gives, [frames, 1025].
fn power(frames: &Array, magnitude: bool) -> Array {
    let mut data = Vec::new();
    for frame in frames.data.chunks(N_FFT) {
        let mut values: Vec<(f64, f64)> = frame.iter().map(|&x| (f64::from(x), 0.0)).collect();
        fourier(&mut values);
        let squares = values[..BINS].iter().map(|(re, im)| re * re + im * im);
        data.extend(squares.map(|square| if magnitude { square.sqrt() } else { square } as f32));
    }
    Array::new(data, &[frames.shape[0], BINS])
}

/// Fast Fourier transform of a power of two, in place.
fn fourier(values: &mut [(f64, f64)]) {
    let size = values.len();
    if size == 1 {
        return;
    }
    let mut even: Vec<_> = values.iter().copied().step_by(2).collect();
    let mut odd: Vec<_> = values.iter().copied().skip(1).step_by(2).collect();
    fourier(&mut even);
    fourier(&mut odd);
    for k in 0..size / 2 {
        let (sin, cos) = (-2.0 * PI * k as f64 / size as f64).sin_cos();
        let turned = (cos * odd[k].0 - sin * odd[k].1, cos * odd[k].1 + sin * odd[k].0);
        values[k] = (even[k].0 + turned.0, even[k].1 + turned.1);
        values[k + size / 2] = (even[k].0 - turned.0, even[k].1 - turned.1);
    }
}

/// Triangles that are evenly spaced in mel (HTK's formula), [1025, 80].
fn filters() -> Array {
    let highest = 2595.0 * (1.0 + RATE / 2.0 / 700.0).log10();
    let corner = |n: usize| 700.0 * (10f64.powf(highest * n as f64 / (MELS + 1) as f64 / 2595.0) - 1.0);
    let mut filters = Array::zeros(&[BINS, MELS]);
    for bin in 0..BINS {
        let frequency = RATE / 2.0 * bin as f64 / (BINS - 1) as f64;
        for band in 0..MELS {
            let (low, middle, high) = (corner(band), corner(band + 1), corner(band + 2));
            let height = ((frequency - low) / (middle - low)).min((high - frequency) / (high - middle));
            filters.data[bin * MELS + band] = height.max(0.0) as f32;
        }
    }
    filters
}
