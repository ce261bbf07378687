"""Pictures from image files: what is read, what is refused, and what is skipped."""

import importlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data import images
from glassformer.data.images import class_folders, read_image, read_image_folder
from glassformer.errors import DataError, MissingExtraError, PathError

GRADIENT = np.add.outer(np.arange(8) * 20, np.arange(6) * 3).astype(np.uint8)


def saved(path: Path, pixels: np.ndarray, **more: object) -> Path:
    Image.fromarray(pixels).save(path, **more)  # pyright: ignore[reportArgumentType]
    return path


def header_only(path: Path, width: int, height: int) -> Path:
    """A PNG of a few bytes whose header says that it is large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


def test_pixels_are_those_of_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "gray.png", GRADIENT)
    assert np.array_equal(read_image(path, None, 1), GRADIENT[..., None])
    assert np.array_equal(read_image(path, None, 3), np.repeat(GRADIENT[..., None], 3, -1))
    color = np.stack([GRADIENT, GRADIENT[::-1], 255 - GRADIENT], -1)
    assert np.array_equal(read_image(saved(tmp_path / "color.bmp", color), None, 3), color)


@pytest.mark.parametrize("fit", ["stretch", "crop"])
def test_a_picture_is_resized(tmp_path: Path, fit: images.Fit) -> None:
    path = saved(tmp_path / "wide.png", np.tile(np.arange(40, dtype=np.uint8) * 6, (20, 1)))
    found = read_image(path, 10, 1, fit=fit)
    assert found.shape == (10, 10, 1)
    edges = (int(found[5, 0, 0]), int(found[5, -1, 0]))
    assert edges[0] < 20 and edges[1] > 220 if fit == "stretch" else edges[0] > 50 and edges[1] < 185
    assert read_image(path, (4, 7), 3).shape == (4, 7, 3)


def test_odd_modes_are_converted(tmp_path: Path) -> None:
    clear = np.zeros((4, 4, 4), dtype=np.uint8)  # black and fully transparent
    assert (read_image(saved(tmp_path / "clear.png", clear), None, 3) == 255).all(), "transparency is white"
    deep = np.array([[0, 257 * 7], [65535, 257 * 100]], dtype=np.uint16)
    assert read_image(saved(tmp_path / "deep.png", deep), None, 1)[..., 0].tolist() == [[0, 7], [255, 100]]
    Image.fromarray(GRADIENT).convert("P").save(tmp_path / "palette.gif")
    Image.fromarray(np.stack([GRADIENT] * 4, -1), mode="CMYK").save(tmp_path / "print.tiff")
    Image.fromarray(GRADIENT > 50).save(tmp_path / "bits.png")
    for name in ("palette.gif", "print.tiff", "bits.png"):
        assert read_image(tmp_path / name, 5, 3).shape == (5, 5, 3)


def test_a_turned_photograph_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    path = saved(tmp_path / "turned.png", GRADIENT, exif=exif.tobytes())
    assert read_image(path, None, 1).shape == (6, 8, 1)


def test_what_is_not_a_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "page.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")
    for name in ("text.png", "empty.png", "page.eps"):
        with pytest.raises(DataError, match=f"{name}: is not an image"):
            read_image(tmp_path / name, 8, 3)
    with pytest.raises(PathError, match="no such file"):
        read_image(tmp_path / "missing.png", 8, 3)
    with pytest.raises(PathError, match="not a plain file"):
        read_image(tmp_path, 8, 3)
    with pytest.raises(DataError, match="channels is 2"):
        read_image(saved(tmp_path / "a.png", GRADIENT), 8, 2)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "bmp"])
def test_a_truncated_file_is_refused(tmp_path: Path, ending: str) -> None:
    path = saved(tmp_path / f"cut.{ending}", np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=rf"cut\.{ending}: "):
        read_image(path, 8, 3)


def test_random_damage_never_shows_a_traceback(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for ending in ("png", "jpg", "gif", "tiff"):
        whole = saved(tmp_path / f"whole.{ending}", np.tile(GRADIENT, (4, 4))).read_bytes()
        for number in range(30):
            data = bytearray(whole)
            for at in random.integers(0, len(data), 5):
                data[at] = random.integers(256)
            path = tmp_path / f"{number}.{ending}"
            path.write_bytes(data)
            try:
                assert read_image(path, 8, 3).shape == (8, 8, 3)
            except DataError as error:
                assert path.name in str(error)


@pytest.mark.parametrize("side", [9_000, 11_000, 60_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    path = header_only(tmp_path / "bomb.png", side, side)
    with pytest.raises(DataError, match=r"bomb\.png: has .*pixels, wanted at most"):
        read_image(path, 8, 3)


def test_a_folder_gives_classes_and_skips_what_is_broken(tmp_path: Path) -> None:
    for label in ("dog", "cat"):
        (tmp_path / label).mkdir()
        for number in range(3):
            saved(tmp_path / label / f"{number}.png", GRADIENT)
    (tmp_path / "cat" / "1.png").write_bytes(b"broken")
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden").mkdir()
    said: list[str] = []
    found = read_image_folder(tmp_path, 8, 1, said.append)
    assert found.labels == ("cat", "cat", "dog", "dog", "dog") and found.pixels.shape == (5, 8, 8, 1)
    assert found.sources[1].endswith("cat/2.png")
    assert any("1.png: is not an image" in line for line in said)
    assert said[-1] == "1 of 6 pictures cannot be read and are skipped"
    assert found.select([4, 0]).labels == ("dog", "cat")


def test_one_line_for_each_of_the_first_broken_files_and_their_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(20):
        (tmp_path / "a" / f"{number}.png").write_bytes(b"broken")
    saved(tmp_path / "a" / "good.png", GRADIENT)
    said: list[str] = []
    assert len(read_image_folder(tmp_path, 8, 1, said.append)) == 1
    assert len(said) == images.SHOWN_BROKEN + 1 and said[-1].startswith("20 of 21")
    (tmp_path / "a" / "good.png").unlink()
    with pytest.raises(DataError, match="none of its 20 pictures can be read"):
        read_image_folder(tmp_path, 8, 1, said.append)


def test_folders_without_classes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="holds no pictures"):
        class_folders(tmp_path)
    saved(tmp_path / "a.png", GRADIENT)
    with pytest.raises(PathError, match="without a class"):
        class_folders(tmp_path)


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r'needs pillow: pip install "glassformer\[vision\]"'):
        read_image(tmp_path / "a.png", 8, 3)
