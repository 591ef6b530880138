//! Damaged drive files, and input that is none.

use super::{bytes_of, live, read, small};
use sim::Seed;
use ssd::image::{self, ImageError, VERSION};
use ssd::{DriveConfig, Precondition};
use std::io::{self, Read};
use units::{Bytes, KIB};

/// The smallest possible drive.
fn tiny() -> DriveConfig {
    let mut config = small("block");
    config.flash.part = "slc".to_owned();
    config.geometry.channels = 1;
    config.geometry.planes = 1;
    config.geometry.blocks_per_plane = 14;
    config.geometry.pages_per_block = 3;
    config.geometry.page_bytes = 4096;
    config.geometry.pages_per_program = 1;
    config.controller.write_buffer = Bytes(16 * KIB);
    config.capacity = Bytes(8 * KIB);
    config.faults.factory_bad_blocks = 100_000;
    config
}

/// A file of [`tiny`] after some writes and a cut that left data in its buffer.
fn tiny_file() -> Vec<u8> {
    let config = tiny();
    let media = Precondition::Fresh.media(&config, Seed(3)).unwrap();
    bytes_of(&config, &live(&config, media, 3, 9, true))
}

/// The sections of a file, as kind and payload.
pub(super) fn cut(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut sections = Vec::new();
    let mut rest = &file[12..];
    while !rest.is_empty() {
        let kind = u32::from_le_bytes(rest[..4].try_into().unwrap());
        let length = u64::from_le_bytes(rest[4..12].try_into().unwrap()) as usize;
        sections.push((kind, rest[16..16 + length].to_vec()));
        rest = &rest[16 + length..];
    }
    sections
}

/// A file of these sections with valid checksums; sections of kind 5 are rebuilt.
pub(super) fn seal(sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"FLASHLM\0".to_vec();
    file.extend(VERSION.to_le_bytes());
    for (number, (kind, payload)) in sections.iter().enumerate() {
        let mut payload = payload.clone();
        if *kind == 5 {
            payload = (number as u64).to_le_bytes().to_vec();
            payload.extend(crc32c::crc32c(&file).to_le_bytes());
        }
        let mut head = kind.to_le_bytes().to_vec();
        head.extend((payload.len() as u64).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &payload);
        file.extend(head);
        file.extend(checksum.to_le_bytes());
        file.extend(payload);
    }
    file
}

/// The file with the payload of its sections `kind` changed, and resealed.
pub(super) fn changed(file: &[u8], kind: u32, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut sections = cut(file);
    for (found, payload) in &mut sections {
        if *found == kind {
            change(payload);
        }
    }
    seal(&sections)
}

#[track_caller]
pub(super) fn refusal(file: &[u8]) -> String {
    read(file).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn file_has_five_kinds_of_sections() {
    let file = tiny_file();
    let kinds: Vec<_> = cut(&file).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5]);
    assert_eq!(seal(&cut(&file)), file);
}

#[test]
fn large_contents_are_split_into_sections_of_a_mebibyte() {
    let config = small("block");
    let media = Precondition::Full.media(&config, Seed(1)).unwrap();
    let file = bytes_of(&config, &live(&config, media, 1, 1_000, false));
    let blocks: Vec<_> = cut(&file)
        .into_iter()
        .filter(|(kind, _)| *kind == 3)
        .collect();
    assert!(blocks.len() >= 2, "{}", blocks.len());
    assert!(
        blocks
            .iter()
            .rev()
            .skip(1)
            .all(|(_, payload)| payload.len() == 1 << 20)
    );
}

#[test]
fn file_with_any_byte_changed_is_rejected() {
    let mut file = tiny_file();
    for at in 0..file.len() {
        for change in [1, 0x80, 0xff] {
            file[at] ^= change;
            assert!(read(&file).is_err(), "byte {at} changed by {change}");
            file[at] ^= change;
        }
    }
}

#[test]
fn truncated_file_is_rejected_with_its_length() {
    let file = tiny_file();
    for length in 0..file.len() {
        match read(&file[..length]) {
            Err(ImageError::Truncated { offset, .. }) => assert_eq!(offset, length as u64),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn reader_accepts_small_pieces_and_reports_input_errors() {
    /// A reader that returns one byte at a time, and is interrupted before each.
    struct Slow<'a>(&'a [u8], bool);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = out.len().min(1);
            self.0.read(&mut out[..piece])
        }
    }
    let file = tiny_file();
    let (config, media) = image::read(&mut Slow(&file, false)).unwrap();
    assert_eq!(bytes_of(&config, &media), file);

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("no disc"))
        }
    }
    let error = image::read(&mut file[..100].chain(Broken)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the drive file cannot be read at byte 100: no disc"
    );
}

#[test]
fn image_errors_describe_the_defect() {
    let file = tiny_file();
    assert_eq!(
        refusal(b"#!/bin/sh\n"),
        "not a drive file: it does not begin with FLASHLM"
    );
    assert_eq!(
        refusal(&file[..5]),
        "the drive file is cut short: it ends at byte 5, where the mark of a drive file was expected"
    );
    let mut newer = file.clone();
    newer[8] = 2;
    assert_eq!(
        refusal(&newer),
        "the drive file has version 2; version 1 can be read"
    );
    let mut damaged = file.clone();
    damaged[40] ^= 1;
    assert_eq!(
        refusal(&damaged),
        "the drive file is damaged: the section at byte 12 does not match its checksum"
    );
    let mut longer = file.clone();
    longer.push(0);
    assert!(refusal(&longer).contains("what follows the end is 0, expected none, or a change (6)"));
    let mut sections = cut(&file);
    sections.swap(2, 3);
    assert!(refusal(&seal(&sections)).contains("the kind of a section is 4, expected 3 (blocks)"));
    let impossible = changed(&file, 1, |text| {
        *text = String::from_utf8(text.clone())
            .unwrap()
            .replace("\"channels\":1", "\"channels\":0")
            .into_bytes();
    });
    assert_eq!(
        refusal(&impossible),
        "the drive file describes a drive that cannot be built: geometry: channels is 0; at least 1 \
         is needed"
    );
    let text = refusal(&changed(&file, 1, |text| text.truncate(9)));
    assert!(
        text.starts_with("the drive file's configuration cannot be understood"),
        "{text}"
    );
}

#[test]
fn file_without_any_section_is_rejected() {
    let config = small("block");
    let media = Precondition::Full.media(&config, Seed(1)).unwrap();
    let file = bytes_of(&config, &live(&config, media, 1, 1_000, true));
    let whole = cut(&file);
    for index in 0..whole.len() {
        let mut sections = whole.clone();
        sections.remove(index);
        assert!(
            read(&seal(&sections)).is_err(),
            "section {index} of {}",
            whole.len()
        );
    }
}

#[test]
fn section_length_is_checked_before_allocation() {
    let file = tiny_file();
    for length in [0, (1 << 20) + 1, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        let mut huge = file.clone();
        huge[16..24].copy_from_slice(&length.to_le_bytes());
        let expected = format!("the length of a section is {length}, expected 1 to 1048576");
        assert!(refusal(&huge).contains(&expected));
        // An endless input is rejected for that length too.
        let error = image::read(&mut huge[..].chain(io::repeat(7))).unwrap_err();
        assert!(error.to_string().contains(&expected));
    }
}

/// A change that puts `bytes` at offset `at` of a section's payload.
pub(super) fn put(at: usize, bytes: &'static [u8]) -> impl Fn(&mut Vec<u8>) {
    move |payload: &mut Vec<u8>| payload[at..at + bytes.len()].copy_from_slice(bytes)
}

#[test]
fn block_fields_are_checked_against_the_geometry() {
    let file = tiny_file();
    // The blocks section: number of blocks, then index, state, pages, erases, label and base stamp
    // of the first one.
    for (at, bytes, expected) in [
        (
            0,
            &[255; 4][..],
            "used blocks is 4294967295, expected at most 14",
        ),
        (
            4,
            &[255; 4],
            "index of a block is 4294967295, expected 0 to 13",
        ),
        (8, &[4], "state of a block is 4, expected 0 to 3"),
        (8, &[0], "block is Erased with"),
        (
            9,
            &[255; 4],
            "pages written is 4294967295, expected at most 3",
        ),
        (
            25,
            &[255; 8],
            "a stamp is 18446744073709551615, expected less than",
        ),
    ] {
        let text = refusal(&changed(&file, 3, put(at, bytes)));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn saved_buffer_fields_are_checked_against_the_configuration() {
    let file = tiny_file();
    // The saved buffer: its mark, the number of writes, then page, origin, frontier and first run
    // of the first write.
    for (at, bytes, expected) in [
        (0, &[2][..], "mark of a saved buffer is 2"),
        (
            1,
            &[255; 4],
            "saved writes is 4294967295, expected at most 4",
        ),
        (
            5,
            &[255; 4],
            "page of a saved write is 4294967295, expected less than 2",
        ),
        (9, &[255; 2], "origin of a saved write is 65535"),
        (
            11,
            &[255; 2],
            "frontier of a saved write is 65535, expected less than 1",
        ),
        (13, &[9], "kind of a run is 9"),
        (
            14,
            &[255; 4],
            "length of a run is 4294967295, expected at most 1",
        ),
        (14, &[0; 4], "length of a run is 0, expected at least 1"),
    ] {
        let text = refusal(&changed(&file, 4, put(at, bytes)));
        assert!(text.contains(expected), "{text}");
    }
    let trims = changed(&file, 4, |payload| {
        *payload = vec![1, 0, 0, 0, 0];
        payload.extend(u64::MAX.to_le_bytes());
    });
    assert!(refusal(&trims).contains("kind of a section is 5"));
}

#[test]
fn too_many_blocks_are_rejected_before_allocation() {
    let file = changed(&tiny_file(), 1, |text| {
        let huge = String::from_utf8(text.clone()).unwrap();
        let huge = huge.replace("\"blocks_per_plane\":14", "\"blocks_per_plane\":500000000");
        *text = huge.into_bytes();
    });
    assert!(refusal(&file).contains("number of blocks is 500000000, expected at most 33554432"));
}

#[test]
fn media_of_another_drive_are_rejected() {
    let media = Precondition::Fresh.media(&tiny(), Seed(1)).unwrap();
    let error = image::write(&small("block"), &media, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn random_bytes_are_rejected_without_panic() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        assert!(read(bytes).is_err());
        let mut file = tiny_file();
        file.truncate(12);
        file.extend_from_slice(bytes);
        assert!(read(&file).is_err());
    });
}

/// Damaged payloads under valid checksums, which only malice produces.
#[test]
fn sealed_random_payload_is_rejected_or_consistent() {
    let sections = cut(&tiny_file());
    bolero::check!()
        .with_type::<Vec<(u8, u16, u8)>>()
        .for_each(|edits| {
            let mut sections = sections.clone();
            for &(section, at, byte) in edits {
                let payload = &mut sections[usize::from(section) % 4].1;
                let at = usize::from(at) % payload.len();
                payload[at] = byte;
            }
            if let Ok((config, media)) = read(&seal(&sections)) {
                let again = read(&bytes_of(&config, &media)).unwrap();
                assert_eq!(again.0, config);
                assert_eq!(bytes_of(&config, &again.1), bytes_of(&config, &media));
            }
        });
}

#[test]
fn extreme_configuration_numbers_do_not_panic() {
    let file = tiny_file();
    let text = String::from_utf8(cut(&file)[0].1.clone()).unwrap();
    let numbers: Vec<_> = text
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|(at, _)| at)
        .collect();
    for at in numbers {
        if text.as_bytes()[at - 1].is_ascii_digit() {
            continue;
        }
        let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
        for extreme in [
            "0",
            "255",
            "65535",
            "2147483647",
            "4294967295",
            "18446744073709551615",
        ] {
            let sealed = changed(&file, 1, |config| {
                *config = format!("{}{extreme}{}", &text[..at], &text[end..]).into_bytes();
            });
            // Any result is fine; the reader must not panic.
            let _ = read(&sealed);
        }
    }
}
