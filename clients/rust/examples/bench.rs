//! Recording beside writing the same values to plain files; `make bench` runs and times it.
//!
//! `bench record|plain FOLDER COUNT ELEMENTS` writes so many tensors of so many float32.

use std::error::Error;
use std::path::Path;

use firstdiff::Recorder;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, folder, count, elements] = <[String; 4]>::try_from(arguments).map_err(|_| "four arguments")?;
    let (count, elements): (usize, usize) = (count.parse()?, elements.parse()?);
    let values: Vec<f32> = (0..elements).map(|n| n as f32).collect();
    if mode == "record" {
        let recorder = Recorder::create(&folder)?;
        for n in 0..count {
            recorder.tap(&format!("layers.{n}.out"), &values, &[elements])?;
        }
        return Ok(recorder.close()?);
    }
    let mut bytes = vec![0u8; 128]; // as many as the header of a .npy file has
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::create_dir(&folder)?;
    for n in 0..count {
        std::fs::write(Path::new(&folder).join(format!("{n:06}.bin")), &bytes)?;
    }
    Ok(())
}
