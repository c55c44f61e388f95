//! `tts-port TEXT.txt VOICE.wav [OUT.wav]`: speak a text with a voice. Recorded where FIRSTDIFF_TRACE is set.

use std::path::{Path, PathBuf};

use tts_port::{files, Port, Result};

fn run(arguments: &[String]) -> Result<()> {
    let (text, voice) = match arguments {
        [text, voice] | [text, voice, _] => (Path::new(text), Path::new(voice)),
        _ => return Err("usage: tts-port TEXT.txt VOICE.wav [OUT.wav]".into()),
    };
    let model = std::env::var_os("TTS_MODEL").map_or_else(|| PathBuf::from("model"), PathBuf::from);
    let port = Port::load(&model)?;
    let sound = port.speak(&files::read_text(text)?, &files::read_wav(voice)?)?;
    port.close()?;
    if let Some(out) = arguments.get(2) {
        files::write_wav(Path::new(out), &sound.data)?;
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("{error}");
        std::process::exit(2);
    }
}
