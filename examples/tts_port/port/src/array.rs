//! Values with a shape, in C order.

#[derive(Clone, Debug)]
pub struct Array {
    pub data: Vec<f32>,
    pub shape: Vec<usize>,
}

impl Array {
    pub fn new(data: Vec<f32>, shape: &[usize]) -> Array {
        assert_eq!(data.len(), shape.iter().product::<usize>(), "values do not fill {shape:?}");
        Array { data, shape: shape.to_vec() }
    }

    pub fn zeros(shape: &[usize]) -> Array {
        Array::new(vec![0.0; shape.iter().product()], shape)
    }

    /// The last axis.
    pub fn width(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    /// The same values in another shape.
    pub fn reshape(mut self, shape: &[usize]) -> Array {
        assert_eq!(self.data.len(), shape.iter().product::<usize>(), "{:?} does not fill {shape:?}", self.shape);
        self.shape = shape.to_vec();
        self
    }

    pub fn map(&self, f: impl Fn(f32) -> f32) -> Array {
        Array::new(self.data.iter().map(|&x| f(x)).collect(), &self.shape)
    }

    pub fn zip(&self, other: &Array, f: impl Fn(f32, f32) -> f32) -> Array {
        assert_eq!(self.shape, other.shape);
        Array::new(self.data.iter().zip(&other.data).map(|(&x, &y)| f(x, y)).collect(), &self.shape)
    }

    pub fn add(&self, other: &Array) -> Array {
        self.zip(other, |x, y| x + y)
    }

    /// Exchange the last two axes.
    pub fn transpose(&self) -> Array {
        let axes = self.shape.len();
        let (rows, columns) = (self.shape[axes - 2], self.shape[axes - 1]);
        let mut shape = self.shape.clone();
        shape.swap(axes - 2, axes - 1);
        let mut data = Vec::with_capacity(self.data.len());
        for matrix in self.data.chunks(rows * columns) {
            for column in 0..columns {
                data.extend((0..rows).map(|row| matrix[row * columns + column]));
            }
        }
        Array::new(data, &shape)
    }

    /// Part `number` of `parts` along the last axis.
    pub fn chunk(&self, parts: usize, number: usize) -> Array {
        let width = self.width() / parts;
        let mut shape = self.shape.clone();
        *shape.last_mut().expect("an array has an axis") = width;
        let rows = self.data.chunks(self.width());
        Array::new(rows.flat_map(|row| row[number * width..(number + 1) * width].to_vec()).collect(), &shape)
    }

    /// Rows `from..to` of [1, rows, width].
    pub fn rows(&self, from: usize, to: usize) -> Array {
        let width = self.width();
        Array::new(self.data[from * width..to * width].to_vec(), &[1, to - from, width])
    }
}
