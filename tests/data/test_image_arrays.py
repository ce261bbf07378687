"""Pictures from IDX and .npz files, honest and hostile, and the built-in digits; none of it needs Pillow."""

import gzip
import importlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from glassformer.data.image_arrays import digits, is_idx, read_idx, read_idx_images, read_npz_images
from glassformer.errors import DataError, MissingExtraError, PathError

PIXELS = np.arange(5 * 3 * 4, dtype=np.uint8).reshape(5, 3, 4)


def idx_bytes(values: np.ndarray, kind: int = 8) -> bytes:
    sizes = b"".join(int(size).to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, kind, values.ndim]) + sizes + values.tobytes()


def mnist(folder: Path, ending: str = "") -> Path:
    opened = gzip.open if ending else open
    for name, values in (("images-idx3", PIXELS), ("labels-idx1", np.array([3, 1, 4, 1, 5], dtype=np.uint8))):
        with opened(folder / f"train-{name}-ubyte{ending}", "wb") as file:
            file.write(idx_bytes(values))
    return folder / f"train-images-idx3-ubyte{ending}"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files_are_read(tmp_path: Path, ending: str) -> None:
    path = mnist(tmp_path, ending)
    assert is_idx(path) and np.array_equal(read_idx(path), PIXELS)
    found = read_idx_images(path)
    assert found.labels == ("3", "1", "4", "1", "5") and np.array_equal(found.pixels[..., 0], PIXELS)
    labels = tmp_path / f"train-labels-idx1-ubyte{ending}"
    assert read_idx_images(f"{path}, {labels}").labels == found.labels


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin like an IDX file"),
        (b"\0\0\x08", "does not begin like an IDX file"),
        (b"\x89PNG....", "does not begin like an IDX file"),
        (idx_bytes(PIXELS.astype(np.float32), 13), "does not begin like an IDX file"),
        (b"\0\0\x08\x03\0\0", "ends within its header"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "wanted at most"),
        (idx_bytes(PIXELS)[:-1], "its header says 60 bytes and it holds 59"),
        (idx_bytes(PIXELS) + b"x", "its header says 60 bytes and it holds more"),
    ],
)
def test_hostile_idx_headers_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a-images-idx3-ubyte").write_bytes(data)
    with pytest.raises(DataError, match=said):
        read_idx(tmp_path / "a-images-idx3-ubyte")


def test_damaged_gz_and_missing_labels_are_refused(tmp_path: Path) -> None:
    path = mnist(tmp_path, ".gz")
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(path)
    path = mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(PathError, match="labels-idx1-ubyte: no such file"):
        read_idx_images(path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(4, dtype=np.uint8)))
    with pytest.raises(DataError, match="has 5 pictures and 4 labels"):
        read_idx_images(path)
    with pytest.raises(PathError, match="does not say where the labels are"):
        read_idx_images(tmp_path / "numbers.idx")


def test_npz_files_are_read(tmp_path: Path) -> None:
    color = np.zeros((5, 3, 4, 3), dtype=np.uint8)
    np.savez_compressed(tmp_path / "a.npz", images=color, labels=np.array(["x", "y", "x", "y", "z"]))
    found = read_npz_images(tmp_path / "a.npz")
    assert found.pixels.shape == (5, 3, 4, 3) and found.labels == ("x", "y", "x", "y", "z")
    np.savez(tmp_path / "b.npz", x=np.asfortranarray(PIXELS), y=np.arange(5))
    found = read_npz_images(tmp_path / "b.npz")
    assert np.array_equal(found.pixels[..., 0], PIXELS) and found.labels == ("0", "1", "2", "3", "4")


def test_hostile_npz_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for arrays, said in (
        ({"images": PIXELS}, "has no array labels"),
        ({"labels": np.arange(5)}, "has no array images"),
        ({"images": PIXELS.astype(np.float32), "labels": np.arange(5)}, "pictures are float32"),
        ({"images": PIXELS[..., None].repeat(2, -1), "labels": np.arange(5)}, "wanted 1 or 3 channels"),
        ({"images": PIXELS, "labels": np.arange(4)}, "has 5 pictures and 4 labels"),
        ({"images": PIXELS, "labels": np.arange(10).reshape(5, 2)}, "wanted one number or text each"),
        ({"images": PIXELS[:0], "labels": np.arange(0)}, "is empty"),
        ({"images": np.array([print], dtype=object), "labels": np.arange(1)}, "holds Python objects"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=said):
            read_npz_images(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 8, 8)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", head.getvalue() + b"few")
    with pytest.raises(DataError, match="more than the file holds"):
        read_npz_images(path)
    path.write_bytes(b"not a zip")
    with pytest.raises(DataError, match="cannot be read"):
        read_npz_images(path)


def test_digits_are_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    found = digits()
    assert found.pixels.shape == (1797, 8, 8, 1) and set(found.labels) == set("0123456789")
    assert found.pixels.max() == 255 and found.pixels.min() == 0

    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r'pip install "glassformer\[vision\]"'):
        digits()


def test_arrays_need_no_pillow(tmp_path: Path) -> None:
    path = mnist(tmp_path)
    code = f"""
import sys
sys.modules["PIL"] = None
from glassformer.data.image_arrays import digits, read_idx_images
assert len(read_idx_images({str(path)!r})) == 5 and len(digits()) == 1797
"""
    subprocess.run([sys.executable, "-c", code], check=True)
