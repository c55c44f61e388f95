//! The program that the conformance set is put to; tests/conformance/README.md describes its commands.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use firstdiff::{DType, Golden, Outcome, Recorder, Rng, Role, Tensor, Validator};

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["write", tensors, folder] => write(tensors, folder, false),
        ["crash", tensors, folder] => write(tensors, folder, true),
        ["read", folders @ ..] => folders.iter().try_for_each(|folder| read(folder)),
        ["check", cases, folder] => check(cases, folder),
        ["draws"] => draws(),
        _ => Err("usage: write|crash TENSORS FOLDER, read TRACE..., check CASES FOLDER, draws".into()),
    }
}

/// The lines of a table below its heading, each taken apart.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split('\t').collect())
}

fn write(tensors: &str, folder: &str, crash: bool) -> Done {
    let text = std::fs::read_to_string(tensors)?;
    let mut open: Option<(String, Recorder)> = None;
    for row in rows(&text).filter(|row| (row[0] == "crash") == crash) {
        if open.as_ref().map_or(true, |(trace, _)| trace != row[0]) {
            if let Some((_, recorder)) = open.take() {
                recorder.close()?;
            }
            let options = Recorder::options().rank(row[1].parse()?, row[2].parse()?);
            open = Some((row[0].to_string(), options.create(Path::new(folder).join(row[0]))?));
        }
        if let Some((_, recorder)) = &open {
            write_row(recorder, &row)?;
        }
    }
    if crash {
        std::process::abort();
    }
    open.map_or(Ok(()), |(_, recorder)| recorder.close())?;
    Ok(())
}

fn write_row(recorder: &Recorder, row: &[&str]) -> Done {
    let (name, slot, op, dims) = (decoded(row[3])?, decoded(row[5])?, decoded(row[7])?, decoded(row[8])?);
    let role = Role::from_name(row[4]).ok_or("an unknown role")?;
    let mut tensor = recorder.tensor(&name).role(role).slot(&slot).step(row[6].parse()?);
    if row[7] != "-" {
        tensor = tensor.op(&op);
    }
    if row[8] != "-" {
        tensor = tensor.dims(&dims);
    }
    let dtype = DType::from_name(row[9]).ok_or("an unknown type")?;
    let shape = shape_of(row[10])?;
    let mut rng = Rng::new(33, row[11].parse()?);
    let size: usize = shape.iter().product();
    let bytes = match (row[12].strip_prefix("hex:"), row[12]) {
        (Some(digits), _) => unhex(digits)?,
        (None, "normal") if dtype == DType::Float32 => {
            (0..size).flat_map(|_| (rng.normal() as f32).to_le_bytes()).collect()
        }
        (None, "normal") => (0..size).flat_map(|_| rng.normal().to_le_bytes()).collect(),
        _ => {
            let length = size * dtype.size();
            let mut bytes: Vec<u8> = (0..(length + 3) / 4).flat_map(|_| rng.next_u32().to_le_bytes()).collect();
            bytes.truncate(length);
            let mask = if dtype == DType::Bool { 1 } else { 255 };
            bytes.iter().map(|byte| byte & mask).collect()
        }
    };
    tensor.write_tensor(&Tensor::from_bytes(dtype, &shape, bytes)?)?;
    Ok(())
}

fn read(folder: &str) -> Done {
    let golden = Golden::open(folder)?;
    let first = match golden.is_complete() {
        None => "plain",
        Some(true) => "complete",
        Some(false) => "incomplete",
    };
    let mut out = format!("{first}\n");
    for entry in golden.entries() {
        let tensor = golden.read(entry)?;
        let (name, slot, role) = (encoded(&entry.name), encoded(&entry.slot), entry.role.name());
        let (call, step, rank, dtype) = (entry.call, entry.step, entry.rank, tensor.dtype());
        let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
        let shape = if shape.is_empty() { "scalar".to_string() } else { shape.join(",") };
        let start = 0xcbf29ce484222325u64;
        let hash =
            tensor.bytes().iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3));
        writeln!(out, "{name}\t{call}\t{step}\t{role}\t{slot}\t{rank}\t{dtype}\t{shape}\t{hash:016x}")?;
    }
    print!("{out}");
    Ok(())
}

fn check(cases: &str, folder: &str) -> Done {
    let text = std::fs::read_to_string(cases)?;
    for row in rows(&text) {
        let mut validator = Validator::open(Path::new(folder).join(row[0]))?;
        let mut name = decoded(row[1])?;
        let golden = validator.load_golden(&name)?;
        let mut bytes = golden.bytes().to_vec();
        let mut shape = golden.shape().to_vec();
        let width = golden.dtype().size();
        match row[2].split_once(':') {
            Some(("set", changes)) => {
                for change in changes.split(';') {
                    let (place, digits) = change.split_once(':').ok_or("a change without a colon")?;
                    let start = place.parse::<usize>()? * width;
                    bytes[start..start + width].copy_from_slice(&unhex(digits)?);
                }
            }
            Some((_, other)) => shape = shape_of(other)?,
            None if row[2] == "absent" => name.push_str("-absent"),
            None => {}
        }
        println!("{}", judged(&mut validator, &name, golden.dtype(), &bytes, &shape));
    }
    Ok(())
}

fn judged(validator: &mut Validator, name: &str, dtype: DType, bytes: &[u8], shape: &[usize]) -> String {
    let tensor = match Tensor::from_bytes(dtype, shape, bytes) {
        Ok(tensor) => tensor,
        Err(_) => return "error\t-\t-\t-".to_string(),
    };
    match &validator.check_tensor(name, &tensor).outcome {
        Outcome::Pass(found) => format!("pass\t{}\t{}\t{:016x}", found.beyond, found.nonfinite, found.max.to_bits()),
        Outcome::ValueMismatch(found) => {
            format!("value\t{}\t{}\t{:016x}", found.beyond, found.nonfinite, found.max.to_bits())
        }
        Outcome::ShapeMismatch { .. } => "shape\t-\t-\t-".to_string(),
        _ => "error\t-\t-\t-".to_string(),
    }
}

fn draws() -> Done {
    let rng = || Rng::new(0x0123456789abcdef, 0xfedcba9876543210);
    let mut out = String::new();
    let mut kind = |heading: &str, draw: &mut dyn FnMut(&mut Rng, u64) -> Done<String>| -> Done {
        let mut rng = rng();
        writeln!(out, "# {heading}")?;
        (0..1000).try_for_each(|number| Ok(writeln!(out, "{}", draw(&mut rng, number)?)?))
    };
    kind("next_u32", &mut |rng, _| Ok(format!("{:08x}", rng.next_u32())))?;
    kind("jumps", &mut |rng, number| {
        rng.set_position(number * 4294967311);
        Ok(format!("{:08x}", rng.next_u32()))
    })?;
    kind("uniform", &mut |rng, _| Ok(format!("{:016x}", rng.uniform().to_bits())))?;
    kind("uniform_f32", &mut |rng, _| Ok(format!("{:08x}", rng.uniform_f32().to_bits())))?;
    kind("normal", &mut |rng, _| Ok(format!("{:016x}", rng.normal().to_bits())))?;
    kind("gumbel", &mut |rng, _| Ok(format!("{:016x}", rng.gumbel().to_bits())))?;
    for (low, high) in [(0, 10), (-1000, 3221224472), (0, 4294967296)] {
        kind(&format!("integers {low} {high}"), &mut |rng, _| Ok(rng.integers(low, high)?.to_string()))?;
    }
    let order = rng().permutation(1000)?;
    kind("permutation 1000", &mut |_, number| Ok(order[number as usize].to_string()))?;
    print!("{out}");
    Ok(())
}

fn shape_of(text: &str) -> Done<Vec<usize>> {
    if text == "scalar" {
        return Ok(Vec::new());
    }
    Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

fn decoded(text: &str) -> Done<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        if first == b'%' {
            bytes.extend(unhex(std::str::from_utf8(behind.get(..2).ok_or("% without digits")?)?)?);
            rest = &behind[2..];
        } else {
            bytes.push(first);
            rest = behind;
        }
    }
    Ok(String::from_utf8(bytes)?)
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text == "-" {
        return "%2D".to_string();
    }
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn unhex(digits: &str) -> Done<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
