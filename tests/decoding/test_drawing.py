"""Drawing: only codes of pictures, the same with a cache and without, guidance, ranking, files, bad input."""

import dataclasses
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.cli.main import main
from glassformer.data.png import SIGNATURE, contact_sheet, png_bytes, write_png
from glassformer.decoding.drawing import DrawingConfig, best_first, draw, similarity_to_prompt
from glassformer.equations.sampling import classifier_free_guidance
from glassformer.errors import DataError, DecodingError
from glassformer.inference.picture_tokens import decode_pictures, encode_pictures
from glassformer.models.clip import CLIPConfig
from glassformer.models.dalle import DALLE
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer, with_last_eos
from glassformer.text.tokenizer import Tokenizer
from tests.models.zoo import PICTURES, ZOO

TEXTS = ["red heart", "a blue square", "red red square"]
GREEDY = DrawingConfig(top_k=1, guidance=1.0)


def words() -> Tokenizer:
    return learn_tokenizer(TEXTS, "words")


def artist(seed: int = 0) -> DALLE:
    picture = dataclasses.replace(PICTURES, channels=3, levels=(5, 4))
    vocab = words().vocab_size + picture.codes
    config = dataclasses.replace(ZOO["dalle"], autoencoder=picture, vocab=vocab, context=picture.tokens + 3)
    model = build(config, seed).eval()
    assert isinstance(model, DALLE)
    with torch.no_grad():  # so that a prompt matters
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gf.save(artist(), tmp_path / "artist", words())
    return tmp_path / "artist"


def codes_without_cache(model: DALLE, prompt: str, guidance: float) -> list[int]:
    """Greedy codes of a picture, all tokens read again at every step."""
    config, tokenizer = model.config, words()
    text = (tokenizer.encode(prompt) + [tokenizer.pad] * config.text_length)[: config.text_length]
    rows = [text, [tokenizer.pad] * config.text_length]
    found: list[int] = []
    for _ in range(config.autoencoder.tokens):
        ids = torch.tensor([row + [code + config.text_vocab for code in found] for row in rows])
        with torch.no_grad():
            logits, empty = model(ids)[:, -1].float()
        found.append(int(classifier_free_guidance(logits, empty, guidance)[config.text_vocab :].argmax()))
    return found


@pytest.mark.parametrize("guidance", [0.0, 1.0, 3.0])
def test_greedy_drawing_takes_the_most_likely_codes(guidance: float) -> None:
    model = artist()
    wanted = [codes_without_cache(model, text, guidance) for text in TEXTS]
    drawn = draw(model, words(), TEXTS, dataclasses.replace(GREEDY, guidance=guidance))
    assert np.array_equal(drawn, decode_pictures(model.autoencoder, torch.tensor(wanted)))
    assert drawn.dtype == np.uint8 and drawn.shape == (3, 4, 4, 3)


def test_the_prompt_matters_and_guidance_exaggerates_it() -> None:
    model = artist()
    drawn = {scale: [codes_without_cache(model, text, scale) for text in TEXTS] for scale in (0.0, 1.0, 9.0)}
    assert len({tuple(codes) for codes in drawn[1.0]}) > 1
    assert drawn[9.0] != drawn[1.0]
    assert len({tuple(codes) for codes in drawn[0.0]}) == 1


def test_a_picture_depends_on_its_prompt_seed_and_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = artist(), DrawingConfig(n=3, seed=5)
    together = draw(model, words(), TEXTS, config)
    alone = [draw(model, words(), [text], config) for text in TEXTS]
    assert np.array_equal(together, np.concatenate(alone))
    assert not np.array_equal(together[0], together[1])
    assert not np.array_equal(together, draw(model, words(), TEXTS, dataclasses.replace(config, seed=6)))
    monkeypatch.setattr("glassformer.decoding.drawing.AT_ONCE", 2)
    steps: list[tuple[int, int]] = []
    assert np.array_equal(together, draw(model, words(), TEXTS, config, lambda done, of: steps.append((done, of))))
    assert [done for done, _ in steps] == list(range(1, 21)) and steps[-1] == (20, 20)
    assert draw(model, words(), []).shape == (0, 4, 4, 3)


def test_a_long_prompt_is_cut_and_an_empty_one_is_refused() -> None:
    model = artist()
    long = draw(model, words(), ["red red square red heart"], GREEDY)
    assert np.array_equal(long, draw(model, words(), ["red red square"], GREEDY))
    for empty in ("", " \n"):
        with pytest.raises(DecodingError, match="the prompt is empty, wanted a text to draw"):
            draw(model, words(), ["red", empty], GREEDY)


def test_a_saved_model_draws_the_same(folder: Path, tmp_path: Path) -> None:
    loaded = gf.load(folder)
    drawn = loaded.draw(TEXTS[0], n=2, seed=1)
    loaded.save(tmp_path / "copy")
    assert np.array_equal(gf.load(tmp_path / "copy").draw(TEXTS[0], n=2, seed=1), drawn)
    several = loaded.draw(TEXTS, n=2, seed=1)
    assert len(several) == 3 and np.array_equal(several[0], drawn)


def clip() -> tuple[torch.nn.Module, Tokenizer]:
    tokenizer = with_last_eos(learn_tokenizer(TEXTS, "words"))
    towers = {"text_dim": 8, "text_layers": 1, "text_heads": 1, "image_dim": 8, "image_layers": 1, "image_heads": 1}
    config = CLIPConfig(**towers, vocab=tokenizer.vocab_size, context=8, image_size=8, patch_size=4, embedding_dim=4)
    return build(dataclasses.replace(config, eos=tokenizer.eos)).eval(), tokenizer


def test_a_clip_ranks_the_drawings(tmp_path: Path, folder: Path) -> None:
    model, tokenizer = clip()
    gf.save(model, tmp_path / "clip", tokenizer)
    loaded = gf.load(folder)
    drawn = loaded.draw(TEXTS[0], n=6)
    scores = similarity_to_prompt(model, tokenizer, TEXTS[0], drawn)
    assert scores.shape == (6,) and len(set(scores.tolist())) > 1
    ranked = loaded.draw(TEXTS[0], n=6, rerank=gf.load(tmp_path / "clip"))
    again = similarity_to_prompt(model, tokenizer, TEXTS[0], ranked)
    assert sorted(again.tolist(), reverse=True) == again.tolist()
    assert np.array_equal(ranked, drawn[best_first(scores)])
    assert best_first(np.array([0.1, 0.3, 0.3, 0.2])) == [1, 2, 3, 0]


def test_tokens_of_pictures_and_back(tmp_path: Path) -> None:
    model = artist().autoencoder
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    codes = encode_pictures(model, pixels)
    with torch.no_grad():
        values = model(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255).clamp(0, 1)
    wanted = (255 * values).round().byte().permute(0, 2, 3, 1).numpy()
    assert np.abs(decode_pictures(model, torch.from_numpy(codes)).astype(int) - wanted).max() <= 1
    assert np.array_equal(encode_pictures(model, pixels, "light", 3), encode_pictures(model, pixels, "light", 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n is 0, wanted a whole number, at least 1"),
        ({"guidance": -1.0}, "guidance is -1.0, wanted a number of at least 0"),
        ({"guidance": float("nan")}, "guidance is nan"),
        ({"temperature": 0.0}, "temperature is 0.0, wanted a number above 0: top_k=1 is greedy"),
        ({"top_k": 21}, "top_k is 21, wanted at most 20, the codes of pictures"),
        ({"top_p": 2.0}, "top_p is 2.0"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"num": 3}, "there is no drawing setting 'num'"),
        ({"rerank": "clip"}, "rerank is of the type str, wanted a CLIP that gf.load returned"),
    ],
)
def test_bad_settings_are_named(settings: dict, message: str, folder: Path) -> None:
    with pytest.raises(DecodingError) as caught:
        gf.load(folder).draw(TEXTS[0], **settings)
    assert message in str(caught.value)


def test_a_model_that_does_not_draw_says_so(folder: Path) -> None:
    gpt = build(dataclasses.replace(ZOO["gpt"], vocab=words().vocab_size))
    with pytest.raises(DecodingError, match="GPT does not draw: `glassformer train dalle` makes models that do"):
        draw(gpt, words(), TEXTS)
    with pytest.raises(DecodingError, match="DALLE does not compare pictures and texts, wanted a CLIP"):
        gf.load(folder).draw(TEXTS[0], rerank=gf.load(folder))
    with pytest.raises(DecodingError, match="a prompt is of the type int"):
        draw(artist(), words(), [3])  # pyright: ignore


def decoded(data: bytes) -> np.ndarray:
    """The pixels of a PNG file without filters, by the letter of the format."""
    assert data.startswith(SIGNATURE)
    at, chunks = len(SIGNATURE), {}
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert int.from_bytes(data[at + 8 + size : at + 12 + size]) == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + size
    width, height = int.from_bytes(chunks[b"IHDR"][:4]), int.from_bytes(chunks[b"IHDR"][4:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, -1)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_file_holds_the_picture(channels: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    write_png(tmp_path / "a.png", pixels)
    assert np.array_equal(decoded((tmp_path / "a.png").read_bytes()), pixels)
    image = pytest.importorskip("PIL.Image").open(tmp_path / "a.png")
    assert np.array_equal(np.asarray(image).reshape(pixels.shape), pixels)


def test_a_sheet_has_every_picture_in_its_place() -> None:
    pixels = np.arange(5, dtype=np.uint8)[:, None, None, None].repeat(2, 1).repeat(3, 2).repeat(3, 3)
    sheet = contact_sheet(pixels, 3, scale=2, gap=1)
    assert sheet.shape == (2 * 5 + 1, 3 * 7 + 1, 3)
    for number in range(5):
        y, x = 1 + number // 3 * 5, 1 + number % 3 * 7
        assert (sheet[y : y + 4, x : x + 6] == number).all()
    assert (sheet[:1] == 255).all() and (sheet[6:, 15:] == 255).all()
    with pytest.raises(DataError, match="wanted at least one of each"):
        contact_sheet(pixels[:0], 3)
    with pytest.raises(DataError, match=r"the picture is float64 \[2, 2, 3\], wanted uint8"):
        png_bytes(np.zeros((2, 2, 3)))


def test_the_command_writes_a_picture_or_a_sheet(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.png"
    command = ["generate", str(folder), TEXTS[0], "--device", "cpu", "--image", str(out)]
    assert main([*command, "--scale", "2"]) == 0
    drawn = gf.load(folder).draw(TEXTS[0])[0]
    assert np.array_equal(decoded(out.read_bytes()), drawn.repeat(2, 0).repeat(2, 1))
    assert main([*command, "--n", "3", "--json"]) == 0  # a file of its own is replaced
    report = json.loads(capsys.readouterr().out)
    assert report["pictures"] == [{"prompt": TEXTS[0], "similarity": None}] * 3 and report["columns"] == 3
    assert decoded(out.read_bytes()).shape == (4 * 4 + 2 * 8, 3 * 16 + 4 * 8, 3)
    model, tokenizer = clip()
    gf.save(model, tmp_path / "clip", tokenizer)
    assert main([*command, "--n", "2", "--rerank", str(tmp_path / "clip"), "--json"]) == 0
    first, second = (one["similarity"] for one in json.loads(capsys.readouterr().out)["pictures"])
    assert first >= second
    (tmp_path / "prompts.txt").write_text("\n".join(TEXTS))
    listed = ["generate", str(folder), "--file", str(tmp_path / "prompts.txt"), "--n", "2", "--image", str(out)]
    assert main([*listed, "--device", "cpu"]) == 0
    assert decoded(out.read_bytes()).shape == (3 * 16 + 4 * 8, 2 * 16 + 3 * 8, 3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--guidance", "2"], "--guidance, --rerank and --scale are for pictures: give --image too"),
        (["--image", "a.jpg"], "wanted a file that ends in .png"),
        (["--image", "a.png", "--stream"], "--stream prints text while it is generated"),
        (["--image", "a.png", "--num-beams", "2"], "--num-beams is for text: leave it out with --image"),
        (["--image", "a.png", "--scale", "0"], "--scale is 0, wanted 1 to 32"),
        (["--image", "a.png", "--scale", "3000"], "--scale is 3000, wanted 1 to 32"),
        (["--image", "taken.png"], "already exists and was not written by this command"),
        (["--image", "none/a.png"], "No such file or directory"),
        (["--image", "a.png", "--rerank", "nowhere"], "nowhere"),
        ([], "draws pictures: give --image and the name of a .png file"),
        (["--n", "2"], "--n is 2, wanted a --temperature above 0"),
    ],
)
def test_the_command_refuses(
    more: list[str], message: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("taken.png").write_bytes(b"a holiday")
    assert main(["generate", str(folder), TEXTS[0], "--device", "cpu", *more]) != 0
    assert message in capsys.readouterr().err
    assert Path("taken.png").read_bytes() == b"a holiday" and not Path("a.png").exists()
