//! Compare tensors with golden data.

use std::fmt;
use std::path::Path;

use crate::dtype::{DType, Element, Family};
use crate::error::{Error, Result};
use crate::golden::Golden;
use crate::tensor::Tensor;

const FIRST_DIFFERENCES: usize = 10;

/// Checks tensors against golden data, and keeps the results.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("firstdiff-validator-{}", std::process::id()));
/// # std::fs::remove_dir_all(&folder).ok();
/// # let recorder = firstdiff::Recorder::create(&folder)?;
/// # recorder.tap("mel", &[1.0f32, 2.0], &[2])?;
/// # recorder.tap("logits", &[1.0f32, 2.0], &[1, 2])?;
/// # recorder.close()?;
/// use firstdiff::Validator;
///
/// let mut validator = Validator::open(&folder)?; // a trace, or a folder of .npy files
/// let mel = validator.load_golden("mel")?.to_f32()?; // feed a component with the reference's own input
/// println!("{}", validator.check("mel", &mel, &[2]));
/// println!("{}", validator.check("logits", &[1.0f32, f32::NAN], &[1, 2]));
/// assert!(!validator.all_passed());
/// assert_eq!(validator.summary().to_string(), "1 of 2 checks passed, 1 value mismatch (atol 0.0001, rtol 0.001)");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), firstdiff::Error>(())
/// ```
///
/// Floating-point elements may differ by `atol + rtol * |golden|`; whole numbers and bool must be equal. NaN and Inf, on
/// either side, are counted apart and never pass.
#[derive(Clone, Debug)]
pub struct Validator {
    golden: Golden,
    tolerance: Tolerance,
    verbose: bool,
    results: Vec<Check>,
}

/// What may differ: `atol + rtol * |golden|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub atol: f64,
    pub rtol: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { atol: 1e-4, rtol: 1e-3 }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "atol {}, rtol {}", self.atol, self.rtol)
    }
}

/// The result of one check; printed, it is one line, or more in a verbose validator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Check {
    /// The name that was checked.
    pub name: String,
    /// What came out.
    pub outcome: Outcome,
    /// The tolerance it was checked with.
    pub tolerance: Tolerance,
    /// The first differences, where the validator is verbose.
    pub first: Vec<Difference>,
}

/// What came out of a check.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Every element is within the tolerance.
    Pass(Differences),
    /// The shapes differ; no value was looked at.
    ShapeMismatch { candidate: Vec<usize>, golden: Vec<usize> },
    /// Some elements are beyond the tolerance, or not finite.
    ValueMismatch(Differences),
    /// Nothing could be compared, and why.
    Error(Error),
}

/// How far two tensors of one shape are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Differences {
    /// Elements in all.
    pub elements: usize,
    /// Finite elements beyond the tolerance.
    pub beyond: usize,
    /// Elements where either side is NaN or Inf.
    pub nonfinite: usize,
    /// NaN in the candidate and in the golden.
    pub nan: (usize, usize),
    /// Inf in the candidate and in the golden.
    pub inf: (usize, usize),
    /// The largest difference of finite elements.
    pub max: f64,
    /// The mean difference of finite elements.
    pub mean: f64,
}

/// One element that differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    pub index: Vec<usize>,
    pub candidate: f64,
    pub golden: f64,
}

/// How many checks came out how.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    pub passed: usize,
    pub shape_mismatches: usize,
    pub value_mismatches: usize,
    pub errors: usize,
    pub elements: usize,
    pub tolerance: Tolerance,
}

impl Validator {
    /// Validate against a trace, a folder of `.npy` files, or one such file.
    pub fn open(path: impl AsRef<Path>) -> Result<Validator> {
        Ok(Validator::new(Golden::open(path)?))
    }

    /// Validate against golden data that is open.
    pub fn new(golden: Golden) -> Validator {
        Validator { golden, tolerance: Tolerance::default(), verbose: false, results: Vec::new() }
    }

    /// Allow other differences from now on; an error for what is negative or no number.
    pub fn set_tolerance(&mut self, atol: f64, rtol: f64) -> Result<()> {
        if !(atol >= 0.0 && rtol >= 0.0 && atol.is_finite() && rtol.is_finite()) {
            return Err(Error::usage(format!("atol {atol}, rtol {rtol} is no tolerance; both take a number from 0")));
        }
        self.tolerance = Tolerance { atol, rtol };
        Ok(())
    }

    /// Print the first ten differences of every mismatch, too.
    pub fn set_verbose(&mut self, verbose: bool) {
        self.verbose = verbose;
    }

    /// What is validated against.
    pub fn golden(&self) -> &Golden {
        &self.golden
    }

    /// Read a golden tensor, to feed a component with the reference's own input.
    pub fn load_golden(&self, name: &str) -> Result<Tensor<'static>> {
        self.golden.load(name)
    }

    /// Check the values of a slice; the result is kept, too.
    pub fn check<T: Element>(&mut self, name: &str, values: &[T], shape: &[usize]) -> &Check {
        let outcome = match Tensor::new(values, shape) {
            Ok(tensor) => self.compare(name, &tensor),
            Err(error) => (Outcome::Error(error), Vec::new()),
        };
        self.keep(name, outcome)
    }

    /// Check a tensor; the result is kept, too.
    pub fn check_tensor(&mut self, name: &str, tensor: &Tensor<'_>) -> &Check {
        let outcome = self.compare(name, tensor);
        self.keep(name, outcome)
    }

    /// The results so far, in order.
    pub fn results(&self) -> &[Check] {
        &self.results
    }

    /// Whether something was compared and everything passed. Nothing validated is not a pass.
    pub fn all_passed(&self) -> bool {
        self.summary().all_passed()
    }

    /// Count the results so far.
    pub fn summary(&self) -> Summary {
        let (mut passed, mut shape_mismatches, mut value_mismatches, mut errors, mut elements) = (0, 0, 0, 0, 0);
        for check in &self.results {
            match &check.outcome {
                Outcome::Pass(differences) => {
                    passed += 1;
                    elements += differences.elements;
                }
                Outcome::ValueMismatch(differences) => {
                    value_mismatches += 1;
                    elements += differences.elements;
                }
                Outcome::ShapeMismatch { .. } => shape_mismatches += 1,
                Outcome::Error(_) => errors += 1,
            }
        }
        Summary { passed, shape_mismatches, value_mismatches, errors, elements, tolerance: self.tolerance }
    }

    fn keep(&mut self, name: &str, (outcome, first): (Outcome, Vec<Difference>)) -> &Check {
        let place = self.results.len();
        self.results.push(Check { name: name.to_string(), outcome, tolerance: self.tolerance, first });
        &self.results[place]
    }

    fn compare(&self, name: &str, tensor: &Tensor<'_>) -> (Outcome, Vec<Difference>) {
        let most = if self.verbose { FIRST_DIFFERENCES } else { 0 };
        match self.golden.load(name).and_then(|golden| compare(tensor, golden, self.tolerance, most)) {
            Ok(found) => found,
            Err(error) => (Outcome::Error(error), Vec::new()),
        }
    }
}

impl Check {
    /// Whether every element is within the tolerance.
    pub fn passed(&self) -> bool {
        matches!(self.outcome, Outcome::Pass(_))
    }
}

impl Summary {
    /// Whether something was compared and everything passed.
    pub fn all_passed(&self) -> bool {
        self.elements > 0 && self.shape_mismatches + self.value_mismatches + self.errors == 0
    }
}

fn compare(
    candidate: &Tensor<'_>,
    golden: Tensor<'static>,
    tolerance: Tolerance,
    most: usize,
) -> Result<(Outcome, Vec<Difference>)> {
    if candidate.shape() != golden.shape() {
        let shapes = (candidate.shape().to_vec(), golden.shape().to_vec());
        return Ok((Outcome::ShapeMismatch { candidate: shapes.0, golden: shapes.1 }, Vec::new()));
    }
    // bits of half-precision numbers lie in plain files as uint16
    let bits = matches!(candidate.dtype(), DType::BFloat16 | DType::Float16) && golden.dtype() == DType::UInt16;
    let golden = if bits { golden.with_dtype(candidate.dtype()) } else { golden };
    let mut found = Differences { elements: golden.len(), ..Differences::default() };
    let mut first = Vec::new();
    match (candidate.dtype().family(), golden.dtype().family()) {
        (Family::Float, Family::Float) => {
            for (flat, (a, b)) in candidate.floats()?.zip(golden.floats()?).enumerate() {
                let passes = found.add(a, b, (a - b).abs(), tolerance.atol + tolerance.rtol * b.abs());
                if !passes && first.len() < most {
                    first.push(Difference { index: unravel(flat, golden.shape()), candidate: a, golden: b });
                }
            }
        }
        (Family::Whole, Family::Whole) => {
            for (flat, (a, b)) in candidate.wholes()?.zip(golden.wholes()?).enumerate() {
                let passes = found.add(a as f64, b as f64, (a - b).abs() as f64, 0.0);
                if !passes && first.len() < most {
                    let index = unravel(flat, golden.shape());
                    first.push(Difference { index, candidate: a as f64, golden: b as f64 });
                }
            }
        }
        _ => {
            let types = format!("{} cannot be compared with a golden of {}", candidate.dtype(), golden.dtype());
            return Err(Error::usage(types));
        }
    }
    let compared = found.elements - found.nonfinite;
    found.mean /= compared.max(1) as f64;
    let passed = found.beyond == 0 && found.nonfinite == 0;
    Ok((if passed { Outcome::Pass(found) } else { Outcome::ValueMismatch(found) }, first))
}

impl Differences {
    /// Count one element; whether it passes.
    fn add(&mut self, candidate: f64, golden: f64, difference: f64, allowed: f64) -> bool {
        if !candidate.is_finite() || !golden.is_finite() {
            self.nonfinite += 1;
            self.nan.0 += usize::from(candidate.is_nan());
            self.nan.1 += usize::from(golden.is_nan());
            self.inf.0 += usize::from(candidate.is_infinite());
            self.inf.1 += usize::from(golden.is_infinite());
            return false;
        }
        self.max = self.max.max(difference);
        self.mean += difference;
        let passes = difference <= allowed;
        self.beyond += usize::from(!passes);
        passes
    }
}

/// The index of each axis of an element.
fn unravel(flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    let mut rest = flat;
    for axis in (0..shape.len()).rev() {
        index[axis] = rest % shape[axis];
        rest /= shape[axis];
    }
    index
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.outcome {
            Outcome::Pass(found) => {
                write!(f, "pass   {name}: {} elements, max difference {:.3e}", found.elements, found.max)?;
            }
            Outcome::ShapeMismatch { candidate, golden } => {
                write!(f, "SHAPE  {name}: shape {candidate:?} where the golden has {golden:?}")?;
            }
            Outcome::ValueMismatch(found) => {
                let Differences { elements, beyond, nan, inf, max, mean, .. } = found;
                write!(f, "VALUE  {name}: {beyond} of {elements} elements beyond the tolerance, ")?;
                write!(f, "max difference {max:.3e}, mean {mean:.3e}")?;
                for (word, (ours, golden)) in [("NaN", nan), ("Inf", inf)] {
                    if ours + golden > 0 {
                        write!(f, ", {word} {ours} (golden {golden})")?;
                    }
                }
            }
            Outcome::Error(error) => write!(f, "ERROR  {name}: {error}")?,
        }
        write!(f, " ({})", self.tolerance)?;
        for Difference { index, candidate, golden } in &self.first {
            write!(f, "\n         {index:?}: {candidate:e} where the golden has {golden:e}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.shape_mismatches, "shape mismatch"),
            (self.value_mismatches, "value mismatch"),
            (self.errors, "error"),
        ];
        let all = self.passed + counts.iter().map(|count| count.0).sum::<usize>();
        if self.elements == 0 && all == self.passed {
            write!(f, "nothing was validated")?;
        } else {
            write!(f, "{} of {all} checks passed", self.passed)?;
        }
        for (count, word) in counts.iter().filter(|count| count.0 > 0) {
            let plural = match (*count, *word) {
                (1, _) => "",
                (_, "error") => "s",
                _ => "es",
            };
            write!(f, ", {count} {word}{plural}")?;
        }
        write!(f, " ({})", self.tolerance)
    }
}
