//! Check the port against golden data from inside: `check GOLDEN [TEXT.txt VOICE.wav]`. Prints one line for each
//! checkpoint up to the first that does not pass, and where the port leaves the reference.

use std::path::{Path, PathBuf};

use firstdiff::{Divergence, Golden, Tensor, Validator};
use tts_port::{files, Port, Result};

/// One checkpoint at the end of each stage, in the order of the pipeline.
const CHECKPOINTS: [&str; 7] = ["mel", "speaker", "semantic", "gpt.head", "gpt.latents", "flow.cut", "vocoder"];

/// Let the port speak, and return what it has at each checkpoint.
fn record(model: &Path, text: &Path, voice: &Path, folder: &Path) -> Result<Vec<(&'static str, Tensor<'static>)>> {
    let port = Port::load_recording(model, folder)?;
    port.speak(&files::read_text(text)?, &files::read_wav(voice)?)?;
    port.close()?;
    let mine = Golden::open(folder)?;
    let mut checkpoints = Vec::new();
    for name in CHECKPOINTS {
        checkpoints.push((name, mine.load(name)?));
    }
    Ok(checkpoints)
}

fn run(arguments: &[String]) -> Result<bool> {
    let golden = arguments.first().ok_or("usage: check GOLDEN [TEXT.txt VOICE.wav]")?;
    let text = arguments.get(1).map_or("inputs/short.txt", String::as_str);
    let voice = arguments.get(2).map_or("model/voice.wav", String::as_str);
    let model = std::env::var_os("TTS_MODEL").map_or_else(|| PathBuf::from("model"), PathBuf::from);

    let mut validator = Validator::open(golden)?;
    let folder = std::env::temp_dir().join(format!("tts-port-check-{}", std::process::id()));
    let recorded = record(&model, Path::new(text), Path::new(voice), &folder);
    std::fs::remove_dir_all(&folder).ok();
    let found = validator.find_divergence(&recorded?)?;
    for check in validator.results() {
        println!("{check}");
    }
    match found {
        Divergence::None => println!("the port matches at every checkpoint"),
        Divergence::At { name, last_match, .. } => {
            let after = last_match.map_or(String::new(), |last| format!(", after {last}, which matches"));
            println!("the port leaves the reference at {name}{after}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(matches) => std::process::exit(i32::from(!matches)),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
