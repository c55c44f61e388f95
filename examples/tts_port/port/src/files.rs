//! Files: weights in safetensors, sound in wav.

use std::collections::HashMap;
use std::path::Path;

use crate::array::Array;
use crate::json::Json;
use crate::Result;

pub const SAMPLE_RATE: u32 = 22_050;

pub type Weights = HashMap<String, Array>;

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read ({error})", path.display()).into())
}

pub fn read_text(path: &Path) -> Result<String> {
    let text = String::from_utf8(read(path)?).map_err(|_| format!("{} is not UTF-8 text", path.display()))?;
    match text.trim() {
        "" => Err(format!("{} is empty: there is nothing to say", path.display()).into()),
        words => Ok(words.to_string()),
    }
}

/// Read float32 weights by name.
pub fn read_safetensors(path: &Path) -> Result<Weights> {
    let bytes = read(path)?;
    let broken = || format!("{} is no safetensors file", path.display());
    let size = bytes.get(..8).ok_or_else(broken)?;
    let start = u64::from_le_bytes(size.try_into()?).checked_add(8).ok_or_else(broken)? as usize;
    let header = Json::parse(std::str::from_utf8(bytes.get(8..start).ok_or_else(broken)?)?)?;
    let mut weights = Weights::new();
    for (name, entry) in header.members().iter().filter(|(name, _)| name != "__metadata__") {
        let shape = entry.get("shape").map(Json::numbers).unwrap_or_default();
        let values = match entry.get("data_offsets").map(Json::numbers).as_deref() {
            Some(&[from, to]) => bytes.get(start + from..start + to).ok_or_else(broken)?,
            _ => return Err(broken().into()),
        };
        let data = values.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
        weights.insert(name.clone(), Array::new(data, &shape));
    }
    Ok(weights)
}

/// Read a 16-bit mono file at 22,050 Hz as numbers from -1 to 1.
pub fn read_wav(path: &Path) -> Result<Vec<f32>> {
    let bytes = read(path)?;
    let shown = path.display();
    if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
        return Err(format!("{shown} cannot be read as a wav file (it does not begin with RIFF and WAVE)").into());
    }
    let (mut kind, mut samples, mut at) = (None, Vec::new(), 12);
    while let Some(head) = bytes.get(at..at + 8) {
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = &bytes[at + 8..(at + 8 + size).min(bytes.len())];
        if &head[..4] == b"fmt " && body.len() >= 16 {
            let rate = u32::from_le_bytes([body[4], body[5], body[6], body[7]]);
            kind = Some((u16::from_le_bytes([body[2], body[3]]), u16::from_le_bytes([body[14], body[15]]), rate));
        } else if &head[..4] == b"data" {
            samples = body.chunks_exact(2).map(|x| f32::from(i16::from_le_bytes([x[0], x[1]])) / 32768.0).collect();
        }
        at += 8 + size + size % 2;
    }
    match kind {
        None => Err(format!("{shown} cannot be read as a wav file (it has no format)").into()),
        Some((1, 16, SAMPLE_RATE)) if samples.len() >= SAMPLE_RATE as usize / 2 => Ok(samples),
        Some((1, 16, SAMPLE_RATE)) => {
            let (found, least) = (samples.len(), SAMPLE_RATE / 2);
            Err(format!("{shown} has {found} samples; a voice of half a second ({least}) is needed").into())
        }
        Some((channels, bits, rate)) => Err(format!(
            "{shown} has {channels} channel(s) of {bits} bits at {rate} Hz; it takes one channel of 16 bits at {SAMPLE_RATE} Hz"
        )
        .into()),
    }
}

pub fn write_wav(path: &Path, samples: &[f32]) -> Result<()> {
    let size = 2 * samples.len() as u32;
    let mut bytes = Vec::with_capacity(44 + size as usize);
    bytes.extend(b"RIFF");
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend([1, 0, 1, 0]); // plain numbers, one channel
    bytes.extend(SAMPLE_RATE.to_le_bytes());
    bytes.extend((2 * SAMPLE_RATE).to_le_bytes());
    bytes.extend([2, 0, 16, 0]);
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    for sample in samples {
        bytes.extend(((sample.clamp(-1.0, 1.0) * 32767.0).round() as i16).to_le_bytes());
    }
    std::fs::write(path, bytes).map_err(|error| format!("{} cannot be written ({error})", path.display()).into())
}
