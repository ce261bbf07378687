"""What the methods of a loaded model are given: texts, pictures, conversations and settings, brought into one form."""

from dataclasses import replace
from types import NoneType

from glassformer.asking.retrieval import Picture
from glassformer.decoding.config import GenerationConfig, require_known_settings
from glassformer.decoding.drawing import DrawingConfig
from glassformer.errors import DecodingError, ModelError, require_type

Texts = list[str] | tuple[str, ...]
Pictures = list[str | Picture] | tuple[str | Picture, ...]
Candidates = Texts | Pictures


def generation_config(config: GenerationConfig | None, settings: dict[str, object]) -> GenerationConfig:
    """A config with the settings that are given as keywords replaced."""
    require_known_settings(settings)
    require_type(DecodingError, "config", config, (GenerationConfig, NoneType), "a GenerationConfig")
    return replace(config or GenerationConfig(), **settings)  # pyright: ignore[reportArgumentType] - checks itself


def drawing_config(config: DrawingConfig | None, settings: dict[str, object]) -> DrawingConfig:
    """A config with the settings that are given as keywords replaced."""
    require_known_settings(settings, DrawingConfig, "drawing")
    require_type(DecodingError, "config", config, (DrawingConfig, NoneType), "a DrawingConfig")
    return replace(config or DrawingConfig(), **settings)  # pyright: ignore[reportArgumentType] - checks itself


def as_messages(messages: object) -> object:
    """A conversation, or the one that a single text of the user begins."""
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def listed(items: str | Texts | Picture | Pictures) -> list[str | Picture]:
    """One text or picture, or several, as a list."""
    return list(items) if isinstance(items, list | tuple) else [items]


def as_texts(texts: str | Texts | list[str | Picture]) -> list[str]:
    """The texts as a list, if they are texts."""
    found = list(texts) if isinstance(texts, list | tuple) else [texts]
    if wrong := [type(text).__name__ for text in found if not isinstance(text, str)]:
        raise ModelError(f"a text is of the type {wrong[0]}, wanted a text or a list of texts")
    return [text for text in found if isinstance(text, str)]
