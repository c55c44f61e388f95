//! What a validator says, and what it never says.

mod common;

use std::fs;

use common::Folder;
use firstdiff::{Bf16Bits, Divergence, Error, ErrorKind, F16Bits, Golden, Outcome, Recorder, Tensor, Validator};

/// A trace of a few tensors, and a validator for it.
fn golden(folder: &Folder) -> Validator {
    let recorder = Recorder::create(folder.join("t")).unwrap();
    recorder.tap("mel", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    recorder.tap("ids", &[50256i64, 7], &[2]).unwrap();
    recorder.tap("mask", &[true, false], &[2]).unwrap();
    recorder.tap("masked", &[0.0f32, f32::NEG_INFINITY], &[2]).unwrap();
    recorder.tap("empty", &[0.0f32; 0], &[0, 3]).unwrap();
    recorder.tap("bf16", Bf16Bits::slice(&[0x3f80, 0x4000]), &[2]).unwrap();
    recorder.close().unwrap();
    Validator::open(folder.join("t")).unwrap()
}

#[test]
fn equal_values_pass_and_say_the_tolerance() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    let check = validator.check("mel", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.004], &[2, 3]);
    assert!(check.passed());
    assert_eq!(check.to_string(), "pass   mel: 6 elements, max difference 4.000e-3 (atol 0.0001, rtol 0.001)");
    assert!(validator.check("mel", &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).passed());
    assert!(validator.all_passed());
    assert_eq!(validator.summary().to_string(), "2 of 2 checks passed (atol 0.0001, rtol 0.001)");
}

#[test]
fn a_value_mismatch_says_how_much_and_where() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    validator.set_verbose(true);
    let check = validator.check("mel", &[1.0f32, 2.0, 3.0, 4.5, 5.0, 7.0], &[2, 3]);
    assert_eq!(
        check.to_string(),
        "VALUE  mel: 2 of 6 elements beyond the tolerance, max difference 1.000e0, mean 2.500e-1 \
         (atol 0.0001, rtol 0.001)\n         [1, 0]: 4.5e0 where the golden has 4e0\
         \n         [1, 2]: 7e0 where the golden has 6e0"
    );
    let many = validator.check("mel", &[9.0f32; 6], &[2, 3]);
    assert_eq!(many.first.len(), 6);
    assert!(!validator.all_passed());
}

#[test]
fn nan_and_inf_never_pass_and_count_apart() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    let check = validator.check("mel", &[1.0f32, f32::NAN, 3.0, f32::INFINITY, 5.0, 6.0], &[2, 3]).clone();
    assert!(matches!(check.outcome, Outcome::ValueMismatch(found) if found.nonfinite == 2 && found.beyond == 0));
    assert!(
        check.to_string().contains("0 of 6 elements beyond the tolerance")
            && check.to_string().contains("NaN 1 (golden 0), Inf 1")
    );
    assert!(!validator.check("masked", &[0.0f32, f32::NEG_INFINITY], &[2]).passed());
    validator.set_tolerance(1e30, 1e30).unwrap();
    assert!(!validator.check("mel", &[f32::NAN; 6], &[2, 3]).passed());
}

#[test]
fn a_shape_mismatch_is_not_a_value_mismatch() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    let check = validator.check("mel", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    let line = "SHAPE  mel: shape [3, 2] where the golden has [2, 3] (atol 0.0001, rtol 0.001)";
    assert_eq!(check.to_string(), line);
    let check = validator.check("mel", &[1.0f32; 5], &[2, 3]);
    assert!(matches!(&check.outcome, Outcome::Error(error) if error.to_string().contains("does not fit 5 elements")));
    let summary = validator.summary().to_string();
    assert_eq!(summary, "0 of 2 checks passed, 1 shape mismatch, 1 error (atol 0.0001, rtol 0.001)");
}

#[test]
fn whole_numbers_are_compared_exactly() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    assert!(validator.check("ids", &[50256i32, 7], &[2]).passed());
    let check = validator.check("ids", &[50257i64, 7], &[2]);
    assert!(matches!(check.outcome, Outcome::ValueMismatch(found) if found.beyond == 1 && found.max == 1.0));
    assert!(validator.check("mask", &[true, false], &[2]).passed());
    assert!(!validator.check("mask", &[1u8, 1], &[2]).passed());
    let check = validator.check("ids", &[50256.0f32, 7.0], &[2]);
    assert!(check.to_string().starts_with("ERROR  ids: float32 cannot be compared with a golden of int64"));
}

#[test]
fn nothing_validated_is_not_a_pass() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    assert!(!validator.all_passed());
    assert_eq!(validator.summary().to_string(), "nothing was validated (atol 0.0001, rtol 0.001)");
    assert!(validator.check("empty", &[0.0f32; 0], &[0, 3]).passed());
    assert!(!validator.all_passed());
    validator.check("nope", &[0.0f32], &[1]);
    assert!(!validator.all_passed());
}

#[test]
fn missing_and_cut_off_goldens_are_errors() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    let error = validator.load_golden("decoder.mel").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(error.to_string().ends_with("has no tensor decoder.mel (did you mean mel?)"), "{error}");
    let file = folder.join("t").join("000000.npy");
    let bytes = fs::read(&file).unwrap();
    for (length, finding) in
        [(bytes.len() - 1, "was it cut off?"), (60, "ends inside its header"), (0, "does not start")]
    {
        fs::write(&file, &bytes[..length]).unwrap();
        let check = validator.check("mel", &[0.0f32; 6], &[2, 3]);
        assert!(matches!(&check.outcome, Outcome::Error(error) if error.to_string().contains(finding)), "{check}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(validator.load_golden("mel").unwrap_err().kind(), ErrorKind::Read);
    assert_eq!(Validator::open(folder.join("nowhere")).unwrap_err().kind(), ErrorKind::Read);
    fs::create_dir(folder.join("void")).unwrap();
    assert!(Validator::open(folder.join("void")).unwrap_err().to_string().contains("neither a trace nor .npy files"));
}

#[test]
fn a_damaged_line_spoils_only_itself() {
    let folder = Folder::new();
    golden(&folder);
    let lines = folder.join("t").join("tensors.jsonl");
    let text = fs::read_to_string(&lines).unwrap();
    let damaged = text.replacen("\"ids\"", "\"ids", 1).replace("000002.npy", "../t/000002.npy");
    fs::write(&lines, damaged + "{\"name\": \"torn\", \"fi").unwrap();
    let golden = Golden::open(folder.join("t")).unwrap();
    assert_eq!(golden.entries().len(), 6);
    assert!(golden.load("mel").is_ok());
    assert!(golden.load("line 2").unwrap_err().to_string().contains("cannot be read"));
    assert!(golden.load("mask").unwrap_err().to_string().contains("is not in the trace"));
    fs::write(folder.join("t").join("trace.json"), "{\"version\": 2}").unwrap();
    assert!(Golden::open(folder.join("t")).unwrap_err().to_string().contains("version 2"));
}

#[test]
fn plain_folders_are_golden_data() {
    let folder = Folder::new();
    golden(&folder);
    for (file, name) in
        [("000000.npy", "decoder/0/mel.npy"), ("000005.npy", "decoder/bits.npy"), ("000001.npy", "ids.npy")]
    {
        let target = folder.join("plain").join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(folder.join("t").join(file), target).unwrap();
    }
    let mut validator = Validator::open(folder.join("plain")).unwrap();
    let mel = validator.load_golden("decoder/0/mel").unwrap().to_f32().unwrap();
    assert!(validator.check("mel", &mel, &[2, 3]).passed());
    assert!(validator.check("decoder/bits", Bf16Bits::slice(&[0x3f80, 0x4000]), &[2]).passed());
    assert!(!validator.check("bits", Bf16Bits::slice(&[0x3f80, 0x7fc0]), &[2]).passed());
    assert!(validator.check("bits", F16Bits::slice(&[0x3f80, 0x4000]), &[2]).passed());
    fs::copy(folder.join("t").join("000001.npy"), folder.join("plain").join("decoder").join("ids.npy")).unwrap();
    let single = Validator::open(folder.join("plain").join("ids.npy")).unwrap();
    assert_eq!(single.load_golden("ids").unwrap().to_vec::<i64>().unwrap(), [50256, 7]);
}

#[test]
fn tolerances_that_are_none_are_refused() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    for (atol, rtol) in [(-1.0, 0.0), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
        assert!(validator.set_tolerance(atol, rtol).is_err());
    }
    validator.set_tolerance(0.0, 0.0).unwrap();
    assert!(validator
        .check("mel", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])
        .to_string()
        .ends_with("(atol 0, rtol 0)"));
}

#[test]
fn the_first_divergence_is_found_in_order_and_by_bisection() {
    let folder = Folder::new();
    let names: Vec<String> = (0..50).map(|n| format!("layer.{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    for name in &names {
        recorder.tap(name, &[1.0f32], &[1]).unwrap();
    }
    recorder.close().unwrap();
    for wrong in [0, 1, 17, 48, 49, 50] {
        let value = |n: usize| Tensor::owned(vec![if n < wrong { 1.0f32 } else { f32::NAN }], &[1]);
        let expected = if wrong == 50 {
            Divergence::None
        } else {
            let last_match = wrong.checked_sub(1).map(|n| names[n].to_string());
            Divergence::At { index: wrong, name: names[wrong].to_string(), last_match }
        };
        let checkpoints: Vec<_> = names.iter().enumerate().map(|(n, name)| (*name, value(n).unwrap())).collect();
        let mut validator = Validator::open(folder.join("t")).unwrap();
        assert_eq!(validator.find_divergence(&checkpoints).unwrap(), expected);
        let mut validator = Validator::open(folder.join("t")).unwrap();
        assert_eq!(validator.bisect_divergence(&names, value).unwrap(), expected);
        assert!(validator.results().len() <= 7);
    }
}

#[test]
fn a_divergence_is_not_made_of_errors() {
    let folder = Folder::new();
    let mut validator = golden(&folder);
    assert!(validator.find_divergence(&[]).is_err());
    assert!(validator.bisect_divergence(&[], |_| Tensor::owned(vec![0.0f32], &[1])).is_err());
    let error = validator.bisect_divergence(&["nope"], |_| Tensor::owned(vec![0.0f32], &[1])).unwrap_err();
    assert!(error.to_string().starts_with("nope cannot be compared"), "{error}");
    let failed = validator.bisect_divergence(&["mel"], |_| Err(Error::new(ErrorKind::Usage, "out of memory")));
    assert_eq!(failed.unwrap_err().to_string(), "out of memory");
}
