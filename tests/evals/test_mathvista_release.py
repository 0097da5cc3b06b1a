"""MathVista's release as it lies on disk: images in folders and archives, texts as upstream cleans them."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.suites.mathvista_release import Images, Release, clean_caption, clean_ocr
from tests.evals.mathvista_made import FOUND, github, picture


def test_images_stand_in_folders_or_archives(tmp_path: Path) -> None:
    for name, zipped in (("folder", False), ("archive", True)):
        images = Release.of(github(tmp_path / name, zipped=zipped)).images
        assert images.read("1", "images/1.jpg") == picture(1)
        assert images.read("9", "images/9.jpg") is None
    (tmp_path / "outside.jpg").write_bytes(b"x")
    assert Images((), (tmp_path / "folder",)).read("1", "../outside.jpg") is None
    (tmp_path / "folder" / "images.zip").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ConfigurationError, match=r"images\.zip"):
        Images((), (tmp_path / "folder",)).read("9", "images/9.jpg")


def test_a_folder_without_table_says_what_to_get(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match="of the former; pass the path with --data"):
            Release.of(path)
    github(tmp_path)
    (tmp_path / "texts" / "captions_bard.json").write_text("[1]")
    with pytest.raises(ConfigurationError, match="'texts' by problem"):
        Release.of(tmp_path)


@pytest.mark.parametrize(
    ("caption", "cleaned"),
    [
        ("Sure. Bars.\n\nI hope this is helpful!", "Bars."),
        ("Sure, I can do that.  A clock.", "A clock."),
        ("Sorry, I can't help with images of people yet.", ""),
        ("", ""),
        (None, ""),
        (3, ""),
    ],
)
def test_captions_are_cleaned(caption: object, cleaned: str) -> None:
    assert clean_caption(caption) == cleaned


@pytest.mark.parametrize(
    ("ocr", "cleaned"),
    [
        (FOUND, "[([5, 3], 'ENTRY'), ([10, 3], '12')]"),
        ('[([[1, 2], [3, 2]], "it\'s", 0.9)]', '[([1, 2], "it\'s")]'),
        ("[]", ""),
        ("", ""),
        (None, ""),
        ("__import__('os')", ""),
        ("[(1, 2)]", ""),
        ("(" * 5_000, ""),
    ],
)
def test_detected_text_is_cleaned(ocr: object, cleaned: str) -> None:
    assert clean_ocr(ocr) == cleaned
