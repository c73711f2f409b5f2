//! A small picture for the generated history.

use libdeflater::{CompressionLvl, Compressor, crc32};

/// The width and height of the picture.
const SIZE: usize = 160;

/// Draws a disc with a round notch in its edge, and returns it as a PNG file.
pub(super) fn draw([red, green, blue]: [u8; 3]) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..SIZE {
        rows.push(0);
        for x in 0..SIZE {
            let from =
                |cx: f64, cy: f64| ((x as f64 - cx).powi(2) + (y as f64 - cy).powi(2)).sqrt();
            let is_disc = from(80.0, 80.0) < 70.0 && from(118.0, 62.0) > 34.0;
            rows.extend(if is_disc { [red, green, blue, 255] } else { [0, 0, 0, 0] });
        }
    }
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut packed = vec![0; compressor.zlib_compress_bound(rows.len())];
    let length = compressor.zlib_compress(&rows, &mut packed).expect("the bound is large enough");
    packed.truncate(length);
    let side = (SIZE as u32).to_be_bytes();
    let head = [side.as_slice(), &side, &[8, 6, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", head.as_slice()), (b"IDAT", &packed), (b"IEND", &[])] {
        let content = [name.as_slice(), data].concat();
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(&content);
        file.extend(crc32(&content).to_be_bytes());
    }
    file
}
