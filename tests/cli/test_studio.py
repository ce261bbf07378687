"""`glassformer studio` as a user starts it: an address that answers, one that is taken, and Ctrl-C."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from glassformer.checkpoints.save import save
from tests.decoding.tiny_generators import words, writer

pytestmark = [pytest.mark.enable_socket, pytest.mark.xdist_group("studio")]
COMMAND = [sys.executable, "-m", "glassformer", "studio"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gpt"
    save(writer("gpt"), folder, words())
    return folder


@pytest.fixture(scope="module")
def running(model: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    started = subprocess.Popen([*COMMAND, str(model), "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    said = next(line for line in started.stderr if "http" in line)
    yield started, said.split("at ")[1].strip()
    started.kill()
    started.wait()
    started.stderr.close()


def ask(address: str, path: str, token: str, body: object = None) -> object:
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(address + path, data, {"x-glassformer-token": token})
    with urllib.request.urlopen(request) as answer:
        return msgspec.json.decode(answer.read())


def test_the_address_answers_with_its_token_and_ctrl_c_stops_it(
    running: tuple[subprocess.Popen[str], str], model: Path
) -> None:
    process, said = running
    address, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", said).groups()
    found = ask(address, "/runs", token, {"text": "one two"})
    assert found["model"] == str(model) and found["data"]["steps"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(address, "/models", "wrong")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130


def test_a_port_that_is_taken_is_said(model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run([*COMMAND, str(model), "--port", port], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} cannot be used" in done.stderr and "--port" in done.stderr
