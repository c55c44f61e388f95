//! A tensor: its type, its shape, and its values as little-endian bytes in C order.

use std::borrow::Cow;

use crate::dtype::{Bf16Bits, DType, Element, F16Bits};
use crate::error::{Error, Result};

/// Values with a type and a shape, borrowed from a slice or owned.
///
/// ```
/// use firstdiff::Tensor;
///
/// let mel = vec![0.0f32; 6];
/// let tensor = Tensor::new(&mel, &[2, 3])?;
/// assert_eq!(tensor.to_f32()?, mel);
/// assert!(Tensor::new(&mel, &[4, 3]).is_err());
/// # Ok::<(), firstdiff::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Tensor<'a> {
    /// See a slice as a tensor; an error if the shape does not fit it.
    pub fn new<T: Element>(values: &'a [T], shape: &[usize]) -> Result<Tensor<'a>> {
        Tensor::from_bytes(T::DTYPE, shape, little_endian(values))
    }

    /// Little-endian bytes in C order as a tensor of any type of the format.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: impl Into<Cow<'a, [u8]>>) -> Result<Tensor<'a>> {
        let bytes = bytes.into();
        let wanted = byte_count(dtype, shape);
        if wanted != Some(bytes.len()) {
            return Err(Error::usage(format!(
                "shape {shape:?} does not fit {} elements of {dtype}",
                bytes.len() / dtype.size()
            )));
        }
        Ok(Tensor { dtype, shape: shape.to_vec(), bytes })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The values as little-endian bytes in C order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The values, which must be of this very type (bits of bf16 may lie in a file as uint16).
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let bits = self.dtype == DType::UInt16 && matches!(T::DTYPE, DType::BFloat16 | DType::Float16);
        if self.dtype != T::DTYPE && !bits {
            return Err(Error::usage(format!("the tensor holds {}, not {}", self.dtype, T::DTYPE)));
        }
        Ok(self.bytes.chunks_exact(self.dtype.size()).map(T::from_little).collect())
    }

    /// The values rounded to f32, from any type but complex numbers and fp8.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        if self.dtype == DType::Float32 {
            return self.to_vec();
        }
        Ok(self.to_f64()?.into_iter().map(|value| value as f32).collect())
    }

    /// The values as f64, from any type but complex numbers and fp8.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        Ok(self.floats()?.collect())
    }

    /// The values as f64, one after the other.
    pub(crate) fn floats(&self) -> Result<Box<dyn Iterator<Item = f64> + '_>> {
        Ok(match self.dtype {
            DType::Float64 => self.each(|x: f64| x),
            DType::Float32 => self.each(|x: f32| f64::from(x)),
            DType::Float16 => self.each(F16Bits::to_f64),
            DType::BFloat16 => self.each(Bf16Bits::to_f64),
            _ => Box::new(self.wholes()?.map(|value| value as f64)),
        })
    }

    /// The values of a whole-number or bool tensor, exactly, one after the other.
    pub(crate) fn wholes(&self) -> Result<Box<dyn Iterator<Item = i128> + '_>> {
        Ok(match self.dtype {
            DType::Int64 => self.each(|x: i64| x.into()),
            DType::Int32 => self.each(|x: i32| x.into()),
            DType::Int16 => self.each(|x: i16| x.into()),
            DType::Int8 => self.each(|x: i8| x.into()),
            DType::UInt64 => self.each(|x: u64| x.into()),
            DType::UInt32 => self.each(|x: u32| x.into()),
            DType::UInt16 => self.each(|x: u16| x.into()),
            DType::UInt8 => self.each(|x: u8| x.into()),
            DType::Bool => self.each(|x: bool| x.into()),
            other => return Err(Error::usage(format!("values of {other} cannot be turned into plain numbers here"))),
        })
    }

    fn each<T: Element + 'static, V: 'static>(&self, to: fn(T) -> V) -> Box<dyn Iterator<Item = V> + '_> {
        Box::new(self.bytes.chunks_exact(self.dtype.size()).map(move |bytes| to(T::from_little(bytes))))
    }

    /// The same bytes seen as another type of the same size.
    pub(crate) fn with_dtype(mut self, dtype: DType) -> Tensor<'a> {
        debug_assert_eq!(self.dtype.size(), dtype.size());
        self.dtype = dtype;
        self
    }
}

impl Tensor<'static> {
    /// Values that a checkpoint computed, as a tensor of their own.
    pub fn owned<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Tensor<'static>> {
        Tensor::from_bytes(T::DTYPE, shape, little_endian(&values).into_owned())
    }
}

/// The bytes of so many elements; None if there are more than memory can hold.
pub(crate) fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(dtype.size(), |bytes, &n| bytes.checked_mul(n))
}

/// The bytes of a slice: as they lie in memory where that is little-endian.
fn little_endian<T: Element>(values: &[T]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        // SAFETY: the trait is sealed, and its types are plain numbers (or bool) without padding
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), std::mem::size_of_val(values)) };
        return Cow::Borrowed(bytes);
    }
    let mut bytes = Vec::with_capacity(std::mem::size_of_val(values));
    for &value in values {
        value.push_little(&mut bytes);
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let payload = f32::from_bits(0x7fc0_0001);
        let tensor = Tensor::owned(vec![1.5f32, payload, -0.0], &[3]).unwrap();
        assert_eq!(tensor.to_vec::<f32>().unwrap()[1].to_bits(), 0x7fc0_0001);
        assert_eq!(Tensor::new(&[true, false], &[2]).unwrap().bytes(), [1, 0]);
        assert_eq!(Tensor::new(&[-2i16], &[]).unwrap().to_f64().unwrap(), [-2.0]);
        assert_eq!(Tensor::new(&[u64::MAX], &[1, 1]).unwrap().wholes().unwrap().next(), Some(i128::from(u64::MAX)));
        assert_eq!(Tensor::new(F16Bits::slice(&[0x3c00]), &[1]).unwrap().to_f32().unwrap(), [1.0]);
    }

    #[test]
    fn a_shape_that_does_not_fit_is_an_error() {
        let values = [0.0f64; 6];
        for shape in [&[5usize][..], &[2, 4], &[], &[0], &[usize::MAX, usize::MAX], &[usize::MAX / 8 + 2, 8]] {
            let error = Tensor::new(&values, shape).unwrap_err();
            assert!(error.to_string().contains("does not fit 6 elements of float64"), "{error}");
        }
        assert!(Tensor::new::<f32>(&[], &[0, usize::MAX, 7]).is_ok());
    }

    #[test]
    fn types_are_not_mixed_up() {
        let ids = Tensor::owned(vec![1i64], &[1]).unwrap();
        assert_eq!(ids.to_vec::<f32>().unwrap_err().to_string(), "the tensor holds int64, not float32");
        assert!(Tensor::from_bytes(DType::Complex64, &[1], vec![0; 8]).unwrap().to_f64().is_err());
    }
}
