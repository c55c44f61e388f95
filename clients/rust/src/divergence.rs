//! The first checkpoint at which a run leaves its golden data.

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::validator::{Outcome, Validator};

/// Where a run leaves its golden data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// Every checkpoint that was looked at passes.
    None,
    /// The checkpoint at this place does not pass, and the one before it does.
    At { index: usize, name: String, last_match: Option<String> },
}

impl Validator {
    /// Check values that are at hand, in order, up to the first that does not pass.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("firstdiff-divergence-{}", std::process::id()));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # let recorder = firstdiff::Recorder::create(&folder)?;
    /// # for name in ["embed", "block", "logits"] { recorder.tap(name, &[1.0f32], &[1])?; }
    /// # recorder.close()?;
    /// # let mut validator = firstdiff::Validator::open(&folder)?;
    /// use firstdiff::{Divergence, Tensor};
    ///
    /// let (embed, block) = (Tensor::new(&[1.0f32], &[1])?, Tensor::new(&[1.5f32], &[1])?);
    /// let found = validator.find_divergence(&[("embed", embed), ("block", block)])?;
    /// let last_match = Some("embed".to_string());
    /// assert_eq!(found, Divergence::At { index: 1, name: "block".to_string(), last_match });
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), firstdiff::Error>(())
    /// ```
    ///
    /// An error for no checkpoints, and for one that cannot be compared: neither is a match.
    pub fn find_divergence(&mut self, checkpoints: &[(&str, Tensor<'_>)]) -> Result<Divergence> {
        if checkpoints.is_empty() {
            return Err(nothing_to_check());
        }
        for (index, (name, tensor)) in checkpoints.iter().enumerate() {
            if !self.passes(name, tensor)? {
                let last_match = index.checked_sub(1).map(|before| checkpoints[before].0.to_string());
                return Ok(Divergence::At { index, name: name.to_string(), last_match });
            }
        }
        Ok(Divergence::None)
    }

    /// Find it by bisection among checkpoints that are computed when they are asked for.
    ///
    /// A run that has left its golden data is taken to stay away from it, so that a few of many checkpoints are computed;
    /// the one that is returned does not pass, and the one before it was computed and does.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("firstdiff-bisection-{}", std::process::id()));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # let recorder = firstdiff::Recorder::create(&folder)?;
    /// # let names: Vec<String> = (0..100).map(|n| format!("layer.{n}")).collect();
    /// # for name in &names { recorder.tap(name, &[1.0f32], &[1])?; }
    /// # recorder.close()?;
    /// # let mut validator = firstdiff::Validator::open(&folder)?;
    /// use firstdiff::{Divergence, Tensor};
    ///
    /// let names: Vec<&str> = names.iter().map(String::as_str).collect();
    /// let found = validator.bisect_divergence(&names, |index| {
    ///     let value = if index < 42 { 1.0f32 } else { 2.0 };
    ///     Tensor::owned(vec![value], &[1])
    /// })?;
    /// assert!(matches!(found, Divergence::At { index: 42, .. }));
    /// assert!(validator.results().len() <= 8);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), firstdiff::Error>(())
    /// ```
    pub fn bisect_divergence<F>(&mut self, names: &[&str], mut compute: F) -> Result<Divergence>
    where
        F: FnMut(usize) -> Result<Tensor<'static>>,
    {
        let last = names.len().checked_sub(1).ok_or_else(nothing_to_check)?;
        let mut passes_at = |validator: &mut Validator, index: usize| {
            let tensor = compute(index)?;
            validator.passes(names[index], &tensor)
        };
        if passes_at(self, last)? {
            return Ok(Divergence::None);
        }
        // everything below `low` passes, `high` does not
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if passes_at(self, middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let last_match = high.checked_sub(1).map(|before| names[before].to_string());
        Ok(Divergence::At { index: high, name: names[high].to_string(), last_match })
    }

    fn passes(&mut self, name: &str, tensor: &Tensor<'_>) -> Result<bool> {
        let check = self.check_tensor(name, tensor);
        match &check.outcome {
            Outcome::Error(error) => Err(Error::new(error.kind(), format!("{name} cannot be compared: {error}"))),
            _ => Ok(check.passed()),
        }
    }
}

fn nothing_to_check() -> Error {
    Error::usage("there are no checkpoints to compare".to_string())
}
