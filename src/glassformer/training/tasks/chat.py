"""Chat: a language model trained on conversations, with the loss on its replies only, evaluated by them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.data.conversations import Conversation, read_conversations
from glassformer.data.dialogues import dialogues
from glassformer.data.reply_batches import ReplyBatches
from glassformer.data.splitting import split
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import DataError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Fraction, Size, setting
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.text.chat_encoding import ChatTokens, encode_chat_prompts, encode_chats, reply_ends
from glassformer.text.chat_template import default_template
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import TINY_RECIPE, Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

REPLIES = Objective(inputs=("ids", "attention_mask"), targets="targets")
AT_ONCE = 256  # conversations of a batch in an evaluation, and replies written together
LONGER = 2  # a reply is written up to this many times as long as the longest reference


@dataclass(frozen=True, kw_only=True)
class ChatData(DataSettings):
    """Conversations: a .jsonl file with `messages` on each line, or the built-in dialogues."""

    path: FilePath = "dialogues"
    validation_fraction: Fraction = 0.04
    max_length: Size = setting(128, "Tokens of a conversation from which it is left out.", 512)
    batch_size: Size = setting(32, "Conversations in a batch.", 16)


@dataclass(frozen=True, kw_only=True)
class ChatSettings(Settings):
    """A language model that chats."""

    data: ChatData = ChatData()
    recipe: Recipe = TINY_RECIPE
    model: Config = GPTConfig(dim=128, layers=4, heads=4, context=128)


@dataclass(frozen=True, kw_only=True)
class ChatMetrics(Metrics):
    """A chat model on conversations: loss and perplexity on all replies, and its own last replies.

    `exact` is the fraction of conversations whose last reply, written greedily, equals the reference; `commonest` is
    what always giving the commonest of these replies would get.
    """

    perplexity: float
    exact: float
    commonest: float
    conversations: int
    tokens: int


@dataclass(frozen=True)
class ChatSet(EvaluationSet):
    """Conversations as token ids and as messages."""

    batches: ReplyBatches
    conversations: Sequence[Conversation]
    tokenizer: Tokenizer

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> ChatMetrics:
        """Loss on the replies of the data, and the last replies as the model writes them."""
        found = task.predict(model, self.batches, REPLIES, progress)
        wanted = [conversation.last_reply for conversation in self.conversations]
        written = self._written(model, generate, progress)
        if record is not None:
            for conversation, text in zip(self.conversations, written, strict=True):
                record({"messages": conversation.messages, "reply": text, "exact": text == conversation.last_reply})
        right = sum(text == reference for text, reference in zip(written, wanted, strict=True))
        return ChatMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            exact=right / len(wanted),
            commonest=Counter(wanted).most_common(1)[0][1] / len(wanted),
            conversations=len(wanted),
            tokens=len(found.losses),
        )

    def _written(self, model: Model, generate: task.Generate, progress: task.Progress) -> list[str]:
        """The last reply to each conversation, greedily."""
        prompts = encode_chat_prompts(self.tokenizer, [each.before_last_reply for each in self.conversations])
        longest = max(len(self.tokenizer.encode(each.last_reply)) for each in self.conversations)
        config = GenerationConfig(max_new_tokens=LONGER * longest + 1, stop=reply_ends(self.tokenizer))
        portions = [prompts[at : at + AT_ONCE] for at in range(0, len(prompts), AT_ONCE)]
        following = progress(iter(portions), f"of {len(portions):,} portions of replies written")
        return [one.text.strip() for part in following for one in generate(model, self.tokenizer, part, config)]


class ChatTask(Task[ChatSettings]):
    """Train a decoder to reply in conversations."""

    settings = ChatSettings
    protocol = CausalLM
    objective = REPLIES
    built_in = "dialogues"

    def read(self, settings: ChatSettings, part: task.Part) -> Iterator[Conversation]:
        """The conversations of a part of the data."""
        path = vars(settings.data)[part]
        return dialogues() if path == self.built_in else read_conversations(path)

    def prepare(self, settings: ChatSettings, context: DataContext) -> TaskData:
        """Split the conversations, encode them by the chat template, and leave out those that are too long."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        train = list(self.read(settings, "path"))
        validation = list(self.read(settings, "validation")) if data.validation else []
        if not validation:
            task.require_two(data.path, len(set(map(_content, train))), "different conversations")
            train, validation = split_conversations(train, data.validation_fraction, seed)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: _texts(train)).for_decoder()
        if tokenizer.use.chat_template is None:
            tokenizer = tokenizer.with_use(chat_template=default_template(tokenizer))

        def made(conversations: Sequence[Conversation], name: str) -> tuple[ReplyBatches, list[Conversation]]:
            """Batches of the conversations that are not too long, and these conversations."""
            rows = encode_chats(tokenizer, [each.messages for each in conversations])
            kept = [at for at, each in enumerate(rows) if all(len(row.ids) <= data.max_length for row in each)]
            if left_out := len(rows) - len(kept):
                limit = f"they have more than data.max_length ({data.max_length}) tokens"
                context.report(f"{left_out} of {len(rows)} {name} conversations are left out: {limit}")
            shard = context.shard(len(kept), name, "conversations")
            batches = reply_batches(tokenizer, [rows[at] for at in kept], data.batch_size, seed, *shard)
            return batches, [conversations[at] for at in kept]

        batches, conversations = made(validation, "validation")
        test = batches
        if data.test or context.process_group.world_size > 1:
            test, conversations = made(list(self.read(settings, "test")) if data.test else validation, "test")
        test_set = ChatSet(test, conversations, tokenizer)
        return TaskData(tokenizer, made(train, "training")[0], batches, test_set)

    def evaluation_set(self, evaluated: EvaluatedModel, settings: ChatSettings) -> ChatSet:
        """All conversations; one that is longer than the model can read is an error."""
        conversations, context = list(self.read(settings, "path")), evaluated.model.config.context
        if settings.data.path == self.built_in:
            conversations = split_conversations(conversations, settings.data.validation_fraction, settings.recipe.seed)[
                1
            ]
        rows = encode_chats(evaluated.required_tokenizer(), [each.messages for each in conversations])
        for conversation, each in zip(conversations, rows, strict=True):
            longest = max(len(row.ids) for row in each)
            if context is not None and longest > context:
                wanted = f"wanted at most {context}, the model's context"
                raise DataError(f"{conversation.source}: has {longest} tokens, {wanted}")
        batches = reply_batches(evaluated.required_tokenizer(), rows, evaluated.batch_size or AT_ONCE)
        return ChatSet(batches, conversations, evaluated.required_tokenizer())


def reply_batches(
    tokenizer: Tokenizer,
    conversations: Sequence[Sequence[ChatTokens]],
    batch_size: int,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
) -> ReplyBatches:
    """Batches of encoded conversations."""
    rows = [(row.ids, row.is_reply) for each in conversations for row in each]
    pad = 0 if tokenizer.pad is None else tokenizer.pad
    return ReplyBatches(rows, batch_size, pad, seed, rank, world)


def _content(conversation: Conversation) -> str:
    return json.dumps(conversation.messages)


def split_conversations(
    conversations: Sequence[Conversation], fraction: float, seed: int
) -> tuple[list[Conversation], list[Conversation]]:
    """Conversations for training and for validation; copies stay on one side."""
    held_out = set(split(list(map(_content, conversations)), fraction, seed)[1])
    train = [each for each in conversations if _content(each) not in held_out]
    return train, [each for each in conversations if _content(each) in held_out]


def _texts(conversations: Sequence[Conversation]) -> Iterator[str]:
    """The messages with their roles, for a tokenizer to be trained on."""
    return (f"{message['role']}\n{message['content']}" for each in conversations for message in each.messages)
