"""Chat: a conversation as the prompt of its next reply, within the model's context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glassformer.data.conversations import ASSISTANT, SYSTEM, USER, Message, checked_messages
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import DecodingError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.model import Model
from glassformer.text.chat_encoding import encode_chat_prompts, reply_ends
from glassformer.text.tokenizer import Tokenizer

RESERVED = 4  # a reply gets at least this part of the context, or `max_new_tokens` if that is less


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation as the token ids that a model continues with its reply.

    `dropped` is the number of messages, the oldest, that are left out so that the rest fits into the context.
    """

    ids: list[int]
    dropped: int = 0


def chat_prompt(model: Model, tokenizer: Tokenizer, messages: object, config: GenerationConfig) -> ChatPrompt:
    """The prompt for the next reply, with the oldest turns dropped if the context is too short; never the system's."""
    if not isinstance(model, CausalLM):
        raise DecodingError(f"{type(model).__name__} does not chat, wanted a language model, which continues a text")
    checked = checked_messages(messages, "the conversation")
    if checked[-1]["role"] == ASSISTANT:
        raise DecodingError("the conversation ends with a reply, wanted a message of the user to reply to")
    limit = None if model.reads_past_context else model.max_length
    most = None if limit is None else max(limit - min(config.max_new_tokens, limit // RESERVED), 1)
    (ids,) = encode_chat_prompts(tokenizer, [checked])
    if most is None or len(ids) <= most:
        return ChatPrompt(ids)
    shorter = _shorter(checked)
    found = encode_chat_prompts(tokenizer, shorter)
    for kept, ids in zip(shorter, found, strict=True):
        if len(ids) <= most:
            return ChatPrompt(ids, len(checked) - len(kept))
    least = f"{len((found or [ids])[-1])} tokens with what the template adds"
    raise DecodingError(f"the last message has {least}, wanted at most {most} of the model's context, {limit}")


def _shorter(messages: Sequence[Message]) -> list[list[Message]]:
    """The conversation without its oldest turns, one more each time, down to the last message."""
    first = [message for message in messages[:1] if message["role"] == SYSTEM]
    starts = [at for at, message in enumerate(messages) if message["role"] == USER and at > len(first)]
    return [[*first, *messages[start:]] for start in starts]


def with_reply_ends(tokenizer: Tokenizer, config: GenerationConfig) -> GenerationConfig:
    """The settings with the end token of the template among those that end a text."""
    if config.n > 1:
        raise DecodingError(f"n is {config.n}, wanted 1: a conversation goes on with one reply")
    return replace(config, stop=(*config.stop, *reply_ends(tokenizer)))
