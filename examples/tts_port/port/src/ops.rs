//! Operations on arrays, each as plain as it can be.

use std::f64::consts::PI;

use crate::array::Array;

/// Sum in blocks, so that long sums lose no digits.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>() as f32
}

/// x [.., in] times weight [out, in], plus bias [out].
pub fn linear(x: &Array, weight: &Array, bias: &Array) -> Array {
    let (outputs, inputs) = (weight.shape[0], weight.shape[1]);
    let mut data = Vec::with_capacity(x.data.len() / inputs * outputs);
    for row in x.data.chunks(inputs) {
        data.extend(weight.data.chunks(inputs).zip(&bias.data).map(|(weights, bias)| dot(row, weights) + bias));
    }
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("an array has an axis") = outputs;
    Array::new(data, &shape)
}

/// [rows, inner] times [inner, columns].
pub fn matmul(a: &Array, b: &Array) -> Array {
    let columns = b.transpose();
    let zero = Array::zeros(&[columns.shape[0]]);
    linear(a, &columns, &zero)
}

/// Multiply every row with a vector.
pub fn scale_last(x: &Array, factors: &[f32]) -> Array {
    let rows = x.data.chunks(factors.len());
    Array::new(rows.flat_map(|row| row.iter().zip(factors).map(|(&x, &f)| x * f)).collect(), &x.shape)
}

/// How a normalisation divides.
#[derive(Clone, Copy, PartialEq)]
pub enum Divide {
    Deviation,
    Variance,
}

fn normalised(values: &[f32], eps: f64, divide: Divide) -> impl Iterator<Item = f32> + '_ {
    let count = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    let divisor = if divide == Divide::Variance { variance + eps } else { (variance + eps).sqrt() };
    values.iter().map(move |&x| ((f64::from(x) - mean) / divisor) as f32)
}

/// Normalise the last axis.
pub fn layer_norm(x: &Array, affine: Option<(&Array, &Array)>, eps: f64, divide: Divide) -> Array {
    let mut data: Vec<f32> = x.data.chunks(x.width()).flat_map(|row| normalised(row, eps, divide)).collect();
    if let Some((weight, bias)) = affine {
        for row in data.chunks_mut(x.width()) {
            for (x, (w, b)) in row.iter_mut().zip(weight.data.iter().zip(&bias.data)) {
                *x = *x * w + b;
            }
        }
    }
    Array::new(data, &x.shape)
}

/// Normalise groups of channels of [1, channels, time]; each channel has a weight and a bias.
pub fn group_norm(x: &Array, groups: usize, weight: &Array, bias: &Array) -> Array {
    let size = x.data.len() / groups;
    let mut data: Vec<f32> = x.data.chunks(size).flat_map(|group| normalised(group, 1e-5, Divide::Deviation)).collect();
    for (channel, (w, b)) in data.chunks_mut(x.width()).zip(weight.data.iter().zip(&bias.data)) {
        channel.iter_mut().for_each(|x| *x = *x * w + b);
    }
    Array::new(data, &x.shape)
}

/// x [1, in, time], weight [out, in, size] -> [1, out, time]
pub fn conv(x: &Array, weight: &Array, bias: &Array, stride: usize, padding: usize) -> Array {
    let (inputs, time) = (x.shape[1], x.shape[2]);
    let (outputs, size) = (weight.shape[0], weight.shape[2]);
    let length = (time + 2 * padding - size) / stride + 1;
    let mut data = Vec::with_capacity(outputs * length);
    for out in 0..outputs {
        for at in 0..length {
            let mut sum = f64::from(bias.data[out]);
            for input in 0..inputs {
                for k in 0..size {
                    let place = (at * stride + k).wrapping_sub(padding);
                    if place < time {
                        let factor = weight.data[(out * inputs + input) * size + k];
                        sum += f64::from(x.data[input * time + place]) * f64::from(factor);
                    }
                }
            }
            data.push(sum as f32);
        }
    }
    Array::new(data, &[1, outputs, length])
}

/// x [1, in, time], weight [in, out, size] -> [1, out, stride * time]: every value sets down a kernel.
pub fn conv_transpose(x: &Array, weight: &Array, bias: &Array, stride: usize, padding: usize) -> Array {
    let (inputs, time) = (x.shape[1], x.shape[2]);
    let (outputs, size) = (weight.shape[1], weight.shape[2]);
    let length = (time - 1) * stride + size - 2 * padding;
    let mut sums: Vec<f64> = bias.data.iter().flat_map(|&b| vec![f64::from(b); length]).collect();
    for input in 0..inputs {
        for at in 0..time {
            let value = f64::from(x.data[input * time + at]);
            for out in 0..outputs {
                for k in 0..size {
                    let place = (at * stride + k).wrapping_sub(padding);
                    if place < length {
                        sums[out * length + place] +=
                            value * f64::from(weight.data[(input * outputs + out) * size + k]);
                    }
                }
            }
        }
    }
    Array::new(sums.iter().map(|&x| x as f32).collect(), &[1, outputs, length])
}

/// The weight of weight normalisation: every first index of v has the length that g says.
pub fn fold_weight_norm(g: &Array, v: &Array) -> Array {
    let size = v.data.len() / v.shape[0];
    let folded = v.data.chunks(size).zip(&g.data).flat_map(|(row, &g)| {
        let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        row.iter().map(move |&x| (f64::from(x) * f64::from(g) / length) as f32)
    });
    Array::new(folded.collect(), &v.shape)
}

/// Queries, keys and values [batch, tokens, dim] -> [batch, heads, tokens, dim of a head]
pub fn attention(q: &Array, k: &Array, v: &Array, heads: usize, causal: bool) -> Array {
    let (batch, tokens, dim) = (q.shape[0], q.shape[1], q.shape[2]);
    let size = dim / heads;
    let part = |x: &Array, row: usize, head: usize| {
        let begin = row * dim + head * size;
        x.data[begin..begin + size].to_vec()
    };
    let mut data = Vec::with_capacity(q.data.len());
    for (item, head) in (0..batch).flat_map(|item| (0..heads).map(move |head| (item, head))) {
        let rows = item * tokens..(item + 1) * tokens;
        let keys: Vec<_> = rows.clone().map(|row| part(k, row, head)).collect();
        let values: Vec<_> = rows.map(|row| part(v, row, head)).collect();
        for token in 0..tokens {
            let query = part(q, item * tokens + token, head);
            let seen = if causal { token + 1 } else { tokens };
            let scores: Vec<f32> = keys[..seen].iter().map(|key| dot(&query, key) / (size as f32).sqrt()).collect();
            let weights = softmax(&scores);
            data.extend((0..size).map(|n| {
                weights.iter().zip(&values).map(|(&w, value)| f64::from(w) * f64::from(value[n])).sum::<f64>() as f32
            }));
        }
    }
    Array::new(data, &[batch, heads, tokens, size])
}

/// [batch, heads, tokens, size] -> [batch, tokens, heads * size]
pub fn join_heads(x: &Array) -> Array {
    let (batch, heads, tokens, size) = (x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
    let mut data = Vec::with_capacity(x.data.len());
    for (item, token) in (0..batch).flat_map(|item| (0..tokens).map(move |token| (item, token))) {
        for head in 0..heads {
            let begin = ((item * heads + head) * tokens + token) * size;
            data.extend(&x.data[begin..begin + size]);
        }
    }
    Array::new(data, &[batch, tokens, heads * size])
}

fn softmax(scores: &[f32]) -> Vec<f32> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// GELU by erf.
pub fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
}

/// GELU by tanh.
pub fn gelu_tanh(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())) as f32
}

/// The error function: a series near 0, a continued fraction further out.
fn erf(x: f64) -> f64 {
    let square = x * x;
    if x.abs() < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -square / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 2.0 / PI.sqrt() * sum;
    }
    let fraction = (1..60).rev().fold(0.0, |rest, n| f64::from(n) / 2.0 / (x.abs() + rest));
    x.signum() * (1.0 - (-square).exp() / PI.sqrt() / (x.abs() + fraction))
}

/// A Hann window, periodic as spectra need it, or symmetric.
pub fn hann(size: usize, periodic: bool) -> Vec<f32> {
    let span = if periodic { size } else { size - 1 } as f64;
    (0..size).map(|n| (0.5 - 0.5 * (2.0 * PI * n as f64 / span).cos()) as f32).collect()
}

/// Round to the nearest float16, and back; beyond 65,504 there is only infinity.
pub fn to_f16(x: f32) -> f32 {
    if x.abs() >= 65_520.0 {
        return x.signum() * f32::INFINITY;
    }
    let exponent = x.abs().log2().floor().max(-14.0);
    let step = (exponent - 10.0).exp2();
    (x / step).round() * step
}
