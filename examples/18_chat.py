"""Train a small chat model on conversations, talk to it, and see which tokens it learned from."""

import json
import tempfile
from pathlib import Path

import glassformer as gf
from glassformer.data.dialogues import dialogues
from glassformer.text.chat_encoding import encode_chats

with tempfile.TemporaryDirectory() as folder:
    # A conversation is a list of messages on a line of a .jsonl file.
    talks = Path(folder) / "talks.jsonl"
    talks.write_text("".join(json.dumps({"messages": each.messages}) + "\n" for each in dialogues(200)))

    settings = {
        "data.path": str(talks), "data.validation_fraction": 0.05, "model.dim": 32, "model.layers": 1, "model.heads": 2,
        "tokenizer.kind": "words", "recipe.steps": 20, "recipe.learning_rate": 0.01,
    }  # fmt: skip
    gf.train("chat", settings, out=Path(folder) / "run", size="tiny")
    model = gf.load(Path(folder) / "run")

    # The loss is on the replies and their end tokens only.
    tokenizer = model.required_tokenizer()
    conversation = next(dialogues(1))
    ((row,),) = encode_chats(tokenizer, [conversation.messages])
    for id, is_reply in zip(row.ids, row.is_reply, strict=True):
        print(f"[{tokenizer.token(id).strip()}]" if is_reply else tokenizer.token(id).strip(), end=" ")
    print()

    # A conversation goes on with its replies; 20 steps are too few to make sense of it.
    messages = [{"role": "user", "content": "Hi, my name is Anna."}]
    for question in ("What is my name?", None):
        reply = model.chat(messages, max_new_tokens=12)
        print("user:", messages[-1]["content"], "\nassistant:", reply.text)
        messages += [{"role": "assistant", "content": reply.text or "…"}]
        messages += [] if question is None else [{"role": "user", "content": question}]

    # The template is saved with the tokenizer, so that transformers reads the same ids.
    saved = json.loads((Path(folder) / "run" / "tokenizer_config.json").read_text())
    print(saved["chat_template"])
