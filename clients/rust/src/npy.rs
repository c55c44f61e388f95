//! Read and write .npy: a header and plain numbers.

use std::path::Path;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{byte_count, Tensor};

const MAGIC: &[u8] = b"\x93NUMPY";
const LONGEST_HEADER: usize = 1 << 16;
const GROWTH_DIGITS: usize = 21; // numpy leaves room for the first axis to grow

/// The header that numpy writes for a tensor in C order.
pub(crate) fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let listed = if sizes.len() == 1 { format!("{},", sizes[0]) } else { sizes.join(", ") };
    let mut text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({listed}), }}", dtype.descr());
    if let Some(first) = sizes.first() {
        text.push_str(&" ".repeat(GROWTH_DIGITS - first.len()));
    }
    let padding = 64 - (10 + text.len() + 1) % 64;
    text.push_str(&" ".repeat(padding % 64));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Read a file whole; the error names it and says what is wrong.
pub(crate) fn read(path: &Path) -> Result<Tensor<'static>> {
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, format!("cannot be read ({error})")))?;
    decode(&bytes).map_err(|finding| Error::read(path, finding))
}

/// Decode the bytes of a file into C order, little-endian.
pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Tensor<'static>, String> {
    let (text, data) = split(bytes)?;
    let header = Header::parse(text).ok_or("has a header that is not numpy's")?;
    let (big, kind) = match header.descr.split_at(1) {
        (">", kind) => (true, kind),
        ("<" | "|" | "=", kind) => (false, kind),
        _ => return Err(format!("has elements of type {:?}, which cannot be compared", header.descr)),
    };
    // numpy saves ml_dtypes' bfloat16 as two bytes without a type
    let dtype = if kind == "V2" { Some(DType::BFloat16) } else { DType::from_descr(kind) };
    let dtype = dtype.ok_or_else(|| format!("has elements of type {:?}, which cannot be compared", header.descr))?;
    let wanted = byte_count(dtype, &header.shape).ok_or("claims more elements than memory holds")?;
    if data.len() < wanted {
        return Err(format!(
            "has {} bytes of values where shape {:?} of {dtype} needs {wanted}; was it cut off?",
            data.len(),
            header.shape
        ));
    }
    let mut values = if header.fortran_order && header.shape.len() > 1 {
        c_order(&data[..wanted], &header.shape, dtype.size())
    } else {
        data[..wanted].to_vec()
    };
    if big {
        let complex = matches!(dtype, DType::Complex64 | DType::Complex128);
        let width = if complex { dtype.size() / 2 } else { dtype.size() };
        values.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Tensor::from_bytes(dtype, &header.shape, values).map_err(|error| error.to_string())
}

/// The text of the header, and what follows it.
fn split(bytes: &[u8]) -> std::result::Result<(&str, &[u8]), String> {
    if !bytes.starts_with(MAGIC) {
        return Err("does not start as a .npy file does".to_string());
    }
    let wide = bytes.get(6).map_or(false, |&version| version > 1);
    let first = if wide { 12 } else { 10 };
    let length = bytes.get(8..first).ok_or("ends inside its header")?;
    let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
    if length > LONGEST_HEADER {
        return Err(format!("claims a header of {length} bytes"));
    }
    let text = bytes.get(first..first + length).ok_or("ends inside its header")?;
    let text = std::str::from_utf8(text).map_err(|_| "has a header that is not text")?;
    Ok((text, &bytes[first + length..]))
}

struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Read numpy's dict; None for anything else.
    fn parse(text: &str) -> Option<Header> {
        let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let descr = after(inside, "descr")?;
        let quote = descr.chars().next().filter(|c| "'\"".contains(*c))?;
        let descr = descr[1..].split(quote).next().filter(|word| word.len() > 1 && word.is_ascii())?;
        let order = after(inside, "fortran_order")?;
        if !order.starts_with("True") && !order.starts_with("False") {
            return None;
        }
        let sizes = after(inside, "shape")?.strip_prefix('(')?.split(')').next()?;
        let sizes = sizes.trim().trim_end_matches(',');
        let shape = if sizes.trim().is_empty() {
            Vec::new()
        } else {
            sizes.split(',').map(|n| n.trim().trim_end_matches('L').parse().ok()).collect::<Option<Vec<usize>>>()?
        };
        Some(Header { descr: descr.to_string(), fortran_order: order.starts_with("True"), shape })
    }
}

/// What stands behind the colon of a field.
fn after<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let start = text.find(&format!("'{field}'")).or_else(|| text.find(&format!("\"{field}\"")))?;
    Some(text[start + field.len() + 2..].trim_start().strip_prefix(':')?.trim_start())
}

/// Bring the elements of Fortran order into C order.
fn c_order(data: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut strides = vec![width; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut index = vec![0; shape.len()];
    let mut offset = 0;
    let mut out = Vec::with_capacity(data.len());
    while out.len() < data.len() {
        out.extend_from_slice(&data[offset..offset + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tensor: &Tensor<'_>) -> Vec<u8> {
        let mut bytes = header(tensor.dtype(), tensor.shape());
        bytes.extend(tensor.bytes());
        bytes
    }

    fn with_header(text: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn headers_are_multiples_of_64_bytes_whatever_the_shape() {
        for shape in [vec![], vec![0], vec![5], vec![2, 3], vec![1; 32], vec![usize::MAX, 0]] {
            let bytes = header(DType::Float32, &shape);
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(bytes.last(), Some(&b'\n'));
            assert_eq!(split(&bytes).map(|(text, rest)| (text.len() + 10, rest.len())), Ok((bytes.len(), 0)));
        }
    }

    #[test]
    fn tensors_come_back() {
        for shape in [&[][..], &[1], &[1, 1, 1]] {
            let tensor = Tensor::owned(vec![7i32], shape).unwrap();
            assert_eq!(decode(&file(&tensor)).unwrap(), tensor);
        }
    }

    #[test]
    fn fortran_and_big_endian_files_are_turned() {
        let data: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|n| n.to_be_bytes()).collect();
        let bytes = with_header("{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}", &data);
        let tensor = decode(&bytes).unwrap();
        assert_eq!(tensor.to_vec::<i16>().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(tensor.shape(), [2, 3]);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let whole = file(&Tensor::owned(vec![1.0f32; 6], &[2, 3]).unwrap());
        for end in 0..whole.len() {
            assert!(decode(&whole[..end]).is_err(), "cut at {end}");
        }
        for place in 0..128 {
            for byte in [0, 0xff, b'9', b'(', b'\'', b',', b'}', b' '] {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                let _ = decode(&damaged);
            }
        }
        for (text, found) in [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "\"|O\", which cannot be compared"),
            ("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", "\"<U3\", which cannot be compared"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "not numpy's"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "not numpy's"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", "more elements"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", "was it cut off?"),
            ("{'descr': 'é4', 'fortran_order': False, 'shape': (1,), }", "not numpy's"),
        ] {
            let error = decode(&with_header(text, &[0; 4])).unwrap_err();
            assert!(error.contains(found), "{error}");
        }
    }
}
