//! The element types of the trace format.

/// An element type, named as in the trace format.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    Float64,
    Float32,
    Float16,
    Complex128,
    Complex64,
    Bool,
    Int64,
    Int32,
    Int16,
    Int8,
    UInt64,
    UInt32,
    UInt16,
    UInt8,
    BFloat16,
    Float8_E4M3FN,
    Float8_E5M2,
    Float8_E4M3FNUZ,
    Float8_E5M2FNUZ,
    Float8_E4M3,
    Float8_E3M4,
    Float8_E4M3B11FNUZ,
    Float8_E8M0FNU,
}

/// Each type, its name, numpy's word for what the file holds, and the bytes of an element.
const TABLE: [(DType, &str, &str, usize); 23] = [
    (DType::Float64, "float64", "<f8", 8),
    (DType::Float32, "float32", "<f4", 4),
    (DType::Float16, "float16", "<f2", 2),
    (DType::Complex128, "complex128", "<c16", 16),
    (DType::Complex64, "complex64", "<c8", 8),
    (DType::Bool, "bool", "|b1", 1),
    (DType::Int64, "int64", "<i8", 8),
    (DType::Int32, "int32", "<i4", 4),
    (DType::Int16, "int16", "<i2", 2),
    (DType::Int8, "int8", "|i1", 1),
    (DType::UInt64, "uint64", "<u8", 8),
    (DType::UInt32, "uint32", "<u4", 4),
    (DType::UInt16, "uint16", "<u2", 2),
    (DType::UInt8, "uint8", "|u1", 1),
    (DType::BFloat16, "bfloat16", "<u2", 2),
    (DType::Float8_E4M3FN, "float8_e4m3fn", "|u1", 1),
    (DType::Float8_E5M2, "float8_e5m2", "|u1", 1),
    (DType::Float8_E4M3FNUZ, "float8_e4m3fnuz", "|u1", 1),
    (DType::Float8_E5M2FNUZ, "float8_e5m2fnuz", "|u1", 1),
    (DType::Float8_E4M3, "float8_e4m3", "|u1", 1),
    (DType::Float8_E3M4, "float8_e3m4", "|u1", 1),
    (DType::Float8_E4M3B11FNUZ, "float8_e4m3b11fnuz", "|u1", 1),
    (DType::Float8_E8M0FNU, "float8_e8m0fnu", "|u1", 1),
];

/// How the elements of a type are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Float,
    Whole,
    Other,
}

impl DType {
    /// The type of a name such as `bfloat16`.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The name in the trace format.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The bytes of an element.
    pub fn size(self) -> usize {
        self.row().3
    }

    /// numpy's word for what a .npy file of this type holds; raw bits for bf16 and fp8.
    pub(crate) fn descr(self) -> &'static str {
        self.row().2
    }

    /// The type of numpy's word, little-endian or without an order.
    pub(crate) fn from_descr(kind: &str) -> Option<DType> {
        TABLE.iter().find(|row| &row.2[1..] == kind).map(|row| row.0)
    }

    pub(crate) fn family(self) -> Family {
        use DType::*;
        match self {
            Float64 | Float32 | Float16 | BFloat16 => Family::Float,
            Bool | Int64 | Int32 | Int16 | Int8 | UInt64 | UInt32 | UInt16 | UInt8 => Family::Whole,
            _ => Family::Other,
        }
    }

    fn row(self) -> &'static (DType, &'static str, &'static str, usize) {
        &TABLE[self as usize]
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The bits of a half-precision number, such as `half::f16::to_bits` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16Bits(pub u16);

/// The bits of a bfloat16 number, such as `half::bf16::to_bits` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16Bits(pub u16);

impl F16Bits {
    /// See the bits of a slice as half-precision numbers, without copying.
    pub fn slice(bits: &[u16]) -> &[F16Bits] {
        // SAFETY: F16Bits is a transparent u16
        unsafe { std::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
    }

    /// The number.
    pub fn to_f64(self) -> f64 {
        let sign = if self.0 >> 15 == 1 { -1.0 } else { 1.0 };
        let exponent = i32::from(self.0 >> 10 & 31);
        let mantissa = f64::from(self.0 & 1023);
        sign * match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
        }
    }
}

impl Bf16Bits {
    /// See the bits of a slice as bfloat16 numbers, without copying.
    pub fn slice(bits: &[u16]) -> &[Bf16Bits] {
        // SAFETY: Bf16Bits is a transparent u16
        unsafe { std::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
    }

    /// The number.
    pub fn to_f64(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.0) << 16))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices can be recorded and validated.
pub trait Element: Copy + sealed::Sealed {
    /// Its name in the format.
    const DTYPE: DType;
    #[doc(hidden)]
    fn from_little(bytes: &[u8]) -> Self;
    #[doc(hidden)]
    fn push_little(self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($kind:ty, $dtype:ident, $bits:ty, $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $kind {}
        impl Element for $kind {
            const DTYPE: DType = DType::$dtype;
            fn from_little(bytes: &[u8]) -> Self {
                let mut little = [0; std::mem::size_of::<$bits>()];
                little.copy_from_slice(bytes);
                let from: fn($bits) -> $kind = $from;
                from(<$bits>::from_le_bytes(little))
            }
            fn push_little(self, out: &mut Vec<u8>) {
                let to: fn($kind) -> $bits = $to;
                out.extend_from_slice(&to(self).to_le_bytes());
            }
        }
    )*};
}

elements! {
    f64, Float64, u64, f64::to_bits, f64::from_bits;
    f32, Float32, u32, f32::to_bits, f32::from_bits;
    F16Bits, Float16, u16, |x| x.0, F16Bits;
    Bf16Bits, BFloat16, u16, |x| x.0, Bf16Bits;
    i64, Int64, i64, |x| x, |x| x;
    i32, Int32, i32, |x| x, |x| x;
    i16, Int16, i16, |x| x, |x| x;
    i8, Int8, i8, |x| x, |x| x;
    u64, UInt64, u64, |x| x, |x| x;
    u32, UInt32, u32, |x| x, |x| x;
    u16, UInt16, u16, |x| x, |x| x;
    u8, UInt8, u8, |x| x, |x| x;
    bool, Bool, u8, u8::from, |x| x != 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_types() {
        for row in &TABLE {
            assert_eq!(row.0.name(), row.1);
            assert_eq!(DType::from_name(row.1), Some(row.0));
        }
        assert_eq!(DType::from_descr("f4"), Some(DType::Float32));
        assert_eq!(DType::from_descr("u1"), Some(DType::UInt8));
        assert_eq!(DType::from_descr("V16"), None);
    }

    #[test]
    fn half_precision_numbers_have_their_values() {
        let cases =
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7bff, 65504.0), (0x7c00, f64::INFINITY)];
        for (bits, value) in cases {
            assert_eq!(F16Bits(bits).to_f64(), value);
        }
        assert!(F16Bits(0x7e01).to_f64().is_nan());
        assert!(F16Bits(0x8000).to_f64().is_sign_negative());
        assert_eq!(Bf16Bits(0x3f80).to_f64(), 1.0);
        assert!(Bf16Bits(0xffc1).to_f64().is_nan());
    }
}
