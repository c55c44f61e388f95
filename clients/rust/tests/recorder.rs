//! What a recorder leaves on disk, whatever happens.

mod common;

use std::fs;
use std::process::Command;

use common::Folder;
use firstdiff::{Bf16Bits, DType, ErrorKind, Golden, Recorder, Role, Tensor};

fn keys(folder: &Folder) -> Vec<String> {
    Golden::open(folder.join("t")).unwrap().entries().iter().map(|entry| entry.key()).collect()
}

fn text(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.join("t").join(file)).unwrap()
}

#[test]
fn a_closed_trace_holds_every_tensor() {
    let folder = Folder::new();
    let recorder = Recorder::options().seed(3).metadata("vocab_size", 320).producer("my port").create(folder.join("t")).unwrap();
    recorder.tap("mel", &[1.0f32, 2.0], &[2]).unwrap();
    recorder.tap("mel", &[true, false], &[1, 2]).unwrap();
    recorder.tap("bits", Bf16Bits::slice(&[0x3f80]), &[1]).unwrap();
    recorder.close().unwrap();
    let golden = Golden::open(folder.join("t")).unwrap();
    assert_eq!(golden.is_complete(), Some(true));
    assert_eq!(golden.load("mel@1").unwrap().to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(golden.load("bits").unwrap().dtype(), DType::BFloat16);
    let header = text(&folder, "trace.json");
    assert!(
        header.contains("\"metadata\": {\"vocab_size\": 320},")
            && header.contains("\"seed\": 3") && header.contains("\"name\": \"my port\"") && header.contains("\"tensors\": 3")
    );
}

#[test]
fn everything_said_of_a_tensor_is_in_its_line() {
    let folder = Folder::new();
    let recorder = Recorder::options().rank(1, 4).create(folder.join("t")).unwrap();
    let tensor = recorder.tensor("layers.0").role(Role::Input).slot("a@b").step(2).op("LayerNorm").parent("layers");
    let tensor = tensor.dims("b h").attr("eps", 1e-5).attr("bad", f64::NAN).attr("kind", "rms").attr("on", true);
    tensor.attr("groups", 4).write(&[0u8; 2], &[1, 2]).unwrap();
    recorder.close().unwrap();
    assert_eq!(
        text(&folder, "tensors.jsonl"),
        "{\"name\": \"layers.0\", \"role\": \"input\", \"slot\": \"a_b\", \"step\": 2, \"seq\": 0, \"op\": \"LayerNorm\", \
         \"attrs\": {\"eps\": 1e-5, \"bad\": \"nan\", \"kind\": \"rms\", \"on\": true, \"groups\": 4}, \
         \"parent\": \"layers\", \"rank\": 1, \"world\": 4, \"dims\": \"b h\", \"file\": \"000000.npy\", \
         \"dtype\": \"uint8\", \"shape\": [1, 2]}\n"
    );
}

#[test]
fn names_never_become_paths() {
    let folder = Folder::new();
    let names =
        ["../../escape", "..", "/absolute", "a/b", "000000.npy", "trace.json", "", "C:\\x", "nul\0byte", "日本"];
    let recorder = Recorder::create(folder.join("t")).unwrap();
    for name in names {
        recorder.tap(name, &[1.0f64], &[]).unwrap();
    }
    recorder.close().unwrap();
    let golden = Golden::open(folder.join("t")).unwrap();
    let read: Vec<&str> = golden.entries().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(read, names);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.join("t")).unwrap().count(), names.len() + 2);
}

#[test]
fn the_values_are_those_of_the_moment() {
    let folder = Folder::new();
    let mut buffer = vec![1.0f32; 3];
    let recorder = Recorder::create(folder.join("t")).unwrap();
    recorder.tap("x", &buffer, &[3]).unwrap();
    buffer.fill(5.0);
    recorder.tap("x", &buffer, &[3]).unwrap();
    recorder.close().unwrap();
    let golden = Golden::open(folder.join("t")).unwrap();
    assert_eq!(golden.load("x").unwrap().to_f32().unwrap(), [1.0; 3]);
    assert_eq!(golden.load("x@1").unwrap().to_f32().unwrap(), [5.0; 3]);
}

#[test]
fn nan_payloads_are_kept() {
    let folder = Folder::new();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    recorder.tap("x", &[f32::from_bits(0x7fc0_1234), f32::from_bits(0xff80_0001)], &[2]).unwrap();
    recorder.close().unwrap();
    let read = Golden::open(folder.join("t")).unwrap().load("x").unwrap();
    assert_eq!(read.bytes(), [0x34, 0x12, 0xc0, 0x7f, 0x01, 0x00, 0x80, 0xff]);
}

#[test]
fn a_shape_that_does_not_fit_writes_nothing_and_stops_nothing() {
    let folder = Folder::new();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    let error = recorder.tap("x", &[1.0f32; 3], &[2, 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(error.to_string(), "x cannot be recorded: shape [2, 2] does not fit 3 elements of float32");
    assert!(recorder.tap("deep", &[1u8], &[1; 65]).unwrap_err().to_string().contains("65 axes"));
    recorder.tap("y", &[1.0f32], &[1]).unwrap();
    recorder.close().unwrap();
    assert_eq!(keys(&folder), ["y"]);
}

#[test]
fn one_folder_has_one_writer_and_is_replaced_only_on_request() {
    let folder = Folder::new();
    let first = Recorder::create(folder.join("t")).unwrap();
    let error = Recorder::options().overwrite(true).create(folder.join("t")).unwrap_err();
    assert!(cfg!(not(unix)) || error.to_string().contains("another process is writing a trace"), "{error}");
    first.tap("old", &[1i64; 2], &[2]).unwrap();
    first.tap("old", &[1i64; 2], &[2]).unwrap();
    first.close().unwrap();
    fs::write(folder.join("t").join("notes.npy"), "mine").unwrap();
    let error = Recorder::create(folder.join("t")).unwrap_err();
    assert!(error.to_string().contains("holds a trace already"), "{error}");
    assert_eq!(keys(&folder), ["old", "old@1"]);
    let second = Recorder::options().overwrite(true).create(folder.join("t")).unwrap();
    second.tap("new", &[1i64], &[1]).unwrap();
    second.close().unwrap();
    assert_eq!(keys(&folder), ["new"]);
    assert!(!folder.join("t").join("000001.npy").exists());
    assert!(folder.join("t").join("notes.npy").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    fs::write(folder.join("file"), "").unwrap();
    let error = Recorder::create(folder.join("file").join("t")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Write);
    assert!(error.to_string().starts_with("cannot write a trace to "), "{error}");
    #[cfg(target_os = "linux")]
    assert_eq!(Recorder::create("/proc/no-such-place/t").unwrap_err().kind(), ErrorKind::Write);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_leaves_the_tensors_before_it() {
    use std::os::unix::fs::symlink;

    let folder = Folder::new();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    recorder.tap("before", &[1.0f32], &[1]).unwrap();
    symlink("/dev/full", folder.join("t").join("000001.npy")).unwrap();
    let error = recorder.tap("full", &[1.0f32], &[1]).unwrap_err();
    assert!(
        error.to_string().contains("cannot write full to") && error.to_string().contains("No space left"),
        "{error}"
    );
    let later = recorder.tap("later", &[1.0f32], &[1]).unwrap_err();
    assert!(later.to_string().contains("an earlier tensor could not be written"), "{later}");
    assert_eq!(recorder.close().unwrap_err().kind(), ErrorKind::Write);
    let golden = Golden::open(folder.join("t")).unwrap();
    assert_eq!(golden.is_complete(), Some(false));
    assert_eq!(keys(&folder), ["before"]);
    assert!(!folder.join("t").join("000001.npy").exists());
    assert!(text(&folder, "trace.json").contains("could not be written"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_line_that_cannot_be_written_takes_its_values_with_it() {
    let folder = Folder::new();
    fs::create_dir(folder.join("t")).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("t").join("tensors.jsonl")).unwrap();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    assert!(recorder.tap("x", &[1.0f32], &[1]).is_err());
    assert!(!folder.join("t").join("000000.npy").exists());
    assert!(recorder.close().is_err());
}

#[test]
fn a_recorder_that_is_dropped_is_not_complete() {
    let folder = Folder::new();
    {
        let recorder = Recorder::create(folder.join("t")).unwrap();
        recorder.tap("x", &[1.0f32], &[1]).unwrap();
    }
    assert_eq!(Golden::open(folder.join("t")).unwrap().is_complete(), Some(false));
    assert!(text(&folder, "trace.json").contains("dropped before it was closed"));
    let recorder = Recorder::create(folder.join("u")).unwrap();
    recorder.abandon("no \"input\"").unwrap();
    assert!(fs::read_to_string(folder.join("u").join("trace.json")).unwrap().contains("no \\\"input\\\""));
}

#[test]
fn threads_may_tap_at_the_same_time() {
    let folder = Folder::new();
    let recorder = Recorder::create(folder.join("t")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let recorder = &recorder;
            scope.spawn(move || {
                for n in 0..25 {
                    recorder.tap(&format!("thread{thread}"), &[thread * 100 + n; 50], &[50]).unwrap();
                }
            });
        }
    });
    recorder.close().unwrap();
    let golden = Golden::open(folder.join("t")).unwrap();
    assert_eq!(golden.entries().len(), 100);
    for entry in golden.entries() {
        let values = golden.read(entry).unwrap().to_vec::<u32>().unwrap();
        assert_eq!(entry.name, format!("thread{}", values[0] / 100));
        assert_eq!(u64::from(values[0] % 100), entry.call);
        assert!(values.iter().all(|value| *value == values[0]));
    }
}

#[test]
fn a_disabled_recorder_does_nothing_whatever_it_is_given() {
    let recorder = Recorder::disabled();
    assert!(!recorder.is_enabled());
    recorder.tap("x", &[1.0f32], &[7, 7]).unwrap();
    recorder.tensor("x").write_tensor(&Tensor::new(&[1.0f32], &[1]).unwrap()).unwrap();
    recorder.close().unwrap();
}

/// Runs one of the ignored tests below in a process with an environment of its own.
fn in_a_process(test: &str, variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test]).env_remove("FIRSTDIFF_TRACE").env_remove("FIRSTDIFF_ONLY");
    command.envs(variables.iter().copied()).output().unwrap().status.success()
}

#[test]
#[ignore = "run by the_environment_says_what_is_recorded"]
fn records_as_the_environment_says() {
    let recorder = Recorder::from_env().unwrap();
    for name in ["mel.log", "ids", "x"] {
        recorder.tap(name, &[1.0f32], &[1]).unwrap();
    }
    recorder.close().unwrap();
    if std::env::var_os("FIRSTDIFF_INPUT").is_some() {
        assert!(Golden::input_from_env().unwrap().is_some());
    }
}

#[test]
#[ignore = "run by taps_from_anywhere_are_recorded"]
fn taps_from_anywhere() {
    firstdiff::tap("a", &[1.0f32], &[1]).unwrap();
    firstdiff::tap("b", &[1u8, 2], &[2]).unwrap();
    firstdiff::close().unwrap();
    firstdiff::tap("late", &[1.0f32], &[1]).unwrap();
}

#[test]
#[ignore = "run by a_process_that_dies_loses_nothing_that_was_tapped"]
fn dies_while_recording() {
    firstdiff::tap("a", &[1.0f32], &[1]).unwrap();
    std::process::abort();
}

#[test]
fn the_environment_says_what_is_recorded() {
    let folder = Folder::new();
    let trace = folder.join("t").to_string_lossy().into_owned();
    assert!(in_a_process("records_as_the_environment_says", &[]));
    assert!(in_a_process("records_as_the_environment_says", &[("FIRSTDIFF_TRACE", "")]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(in_a_process(
        "records_as_the_environment_says",
        &[("FIRSTDIFF_TRACE", &trace), ("FIRSTDIFF_ONLY", "mel.*, ids")]
    ));
    assert_eq!(keys(&folder), ["mel.log", "ids"]);
    let other = folder.join("u").to_string_lossy().into_owned();
    assert!(in_a_process(
        "records_as_the_environment_says",
        &[("FIRSTDIFF_TRACE", &other), ("FIRSTDIFF_INPUT", &trace)]
    ));
    assert!(fs::read_to_string(folder.join("u").join("trace.json")).unwrap().contains("\"input\": "));
}

#[test]
fn taps_from_anywhere_are_recorded() {
    let folder = Folder::new();
    let trace = folder.join("t").to_string_lossy().into_owned();
    assert!(in_a_process("taps_from_anywhere", &[]));
    assert!(in_a_process("taps_from_anywhere", &[("FIRSTDIFF_TRACE", &trace)]));
    assert_eq!(keys(&folder), ["a", "b"]);
    assert_eq!(Golden::open(folder.join("t")).unwrap().is_complete(), Some(true));
}

#[test]
fn a_process_that_dies_loses_nothing_that_was_tapped() {
    let folder = Folder::new();
    let trace = folder.join("t").to_string_lossy().into_owned();
    assert!(!in_a_process("dies_while_recording", &[("FIRSTDIFF_TRACE", &trace)]));
    assert_eq!(keys(&folder), ["a"]);
    assert_eq!(Golden::open(folder.join("t")).unwrap().is_complete(), Some(false));
}
