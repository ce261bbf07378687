"""A chat template of unknown origin, rendered in a process of its own: little memory, little time, no files.

`text.chat_template` starts this file as a program. Jobs come on standard input as JSON, texts or an error go to
standard output. It imports nothing of this package, so that it starts quickly and holds nothing worth reaching for.
"""

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

import jinja2.debug  # noqa: F401 - what an error needs is read while files can still be opened
from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY = 2**29  # bytes that the process may have in all
CPU_SECONDS = 600  # should the process that started it be gone
OPEN_FILES = 3  # standard input, output and error; no other file can be opened
WARM_UP = "{% for c in 'a\\n' %}{{ c | tojson | trim }}{{ strftime_now('%Z') }}{% endfor %}" + " " * 99
BRIEF = 200  # characters of a message that comes from a template


class RefusalError(TemplateError):
    """What a template raises with `raise_exception`."""


def _refuse(message: object) -> None:
    raise RefusalError(str(message))


def _to_json(value: object, ensure_ascii: bool = False, indent: int | None = None, **more: object) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=bool(more.get("sort_keys")))


def sandbox() -> ImmutableSandboxedEnvironment:
    """The environment that `transformers` has for chat templates; it has no loader, so it knows no files."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def render(
    environment: ImmutableSandboxedEnvironment, template: str, jobs: Sequence[Mapping[str, object]], most: int
) -> list[str]:
    """The text of each job, of at most so many characters."""
    compiled = environment.from_string(template)
    texts = []
    for job in jobs:
        text = ""
        for part in compiled.generate(**job):
            text += part
            if len(text) > most:
                raise RefusalError(f"its text has more than {most:,} characters")
        texts.append(text)
    return texts


def fault(error: Exception) -> str:
    """What is wrong with a template, in one line."""
    said = " ".join(str(error).split())[:BRIEF]
    match error:
        case RefusalError():
            return f"refuses this conversation: {said}"
        case SecurityError():
            return f"reaches for what it may not have: {said}"
        case TemplateSyntaxError():
            return f"is not a Jinja template: line {error.lineno}: {said}"
        case UndefinedError():
            return f"uses what does not exist: {said}"
        case MemoryError():
            return f"needs more than {MEMORY // 2**20} MB of memory"
        case TypeError() if "no loader" in said:
            return "reaches for another file, and may not"
    return f"cannot be rendered: {said or type(error).__name__}"


def main() -> None:
    """Read the jobs, give up what a template must not have, then render."""
    given, environment = json.load(sys.stdin), sandbox()
    render(environment, WARM_UP, [{}], len(WARM_UP))  # what is read late is read while files can still be opened
    limits = {resource.RLIMIT_AS: MEMORY, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES}
    for kind, most in {**limits, resource.RLIMIT_CPU: CPU_SECONDS}.items():
        resource.setrlimit(kind, (most, most))
    try:
        found: dict[str, object] = {"texts": render(environment, given["template"], given["jobs"], given["most"])}
    except Exception as error:  # whatever a template does, one line is said about it
        found = {"error": fault(error)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
