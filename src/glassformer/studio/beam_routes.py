"""The route of beam search: a text in, the tree of the search out."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.decoding.beam_listener import BeamListener
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import listen
from glassformer.studio.answers import answer, read_body, sessions_of
from glassformer.studio.beam import BeamRequest, BeamTree, beam_tree


async def beam(request: Request) -> Response:
    """Search for the best translation or continuation of a text."""
    wanted, sessions = await read_body(request, BeamRequest), sessions_of(request)

    def searched() -> BeamTree:
        loaded = sessions.model(wanted.model)
        model, tokenizer = loaded.model, loaded.required_tokenizer()

        def search(config: GenerationConfig, listener: BeamListener) -> list[Completion]:
            return listen(model, tokenizer, wanted.text, config, listener)

        with sessions.computing:
            return beam_tree(search, tokenizer, wanted)

    return answer(await run_in_threadpool(searched))


routes = [Route("/beam", beam, methods=["POST"])]
