//! The signatures of frameworks that docs/clients.md calls, so that its blocks are type-checked without them.
#![allow(dead_code, unused_variables)]

mod candle_core {
    pub struct Tensor;
    impl Tensor {
        pub fn flatten_all(&self) -> Result<Tensor, std::io::Error> {
            unimplemented!()
        }
        pub fn to_vec1<T>(&self) -> Result<Vec<T>, std::io::Error> {
            unimplemented!()
        }
        pub fn dims(&self) -> &[usize] {
            unimplemented!()
        }
    }
}

mod burn {
    pub mod tensor {
        pub mod backend {
            pub trait Backend {}
        }
        pub struct Tensor<B: backend::Backend, const D: usize>(std::marker::PhantomData<B>);
        pub struct TensorData;
        impl<B: backend::Backend, const D: usize> Tensor<B, D> {
            pub fn to_data(&self) -> TensorData {
                unimplemented!()
            }
            pub fn dims(&self) -> [usize; D] {
                unimplemented!()
            }
        }
        #[derive(Debug)]
        pub enum DataError {}
        impl TensorData {
            pub fn as_slice<E>(&self) -> Result<&[E], DataError> {
                unimplemented!()
            }
        }
    }
}

mod ndarray {
    pub struct ArrayD<A>(A);
    impl<A> ArrayD<A> {
        pub fn as_standard_layout(&self) -> ArrayD<A> {
            unimplemented!()
        }
        pub fn as_slice(&self) -> Option<&[A]> {
            unimplemented!()
        }
        pub fn shape(&self) -> &[usize] {
            unimplemented!()
        }
    }
}

mod tch {
    pub struct Tensor;
    impl Tensor {
        pub fn flatten(&self, start: i64, end: i64) -> Tensor {
            unimplemented!()
        }
        pub fn size(&self) -> Vec<i64> {
            unimplemented!()
        }
    }
    impl<T> TryFrom<&Tensor> for Vec<T> {
        type Error = std::io::Error;
        fn try_from(tensor: &Tensor) -> Result<Self, Self::Error> {
            unimplemented!()
        }
    }
}
