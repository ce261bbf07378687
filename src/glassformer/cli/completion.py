"""`glassformer completion`: a script that completes commands and options in a shell."""

from typing import Literal

from glassformer.cli.report import write


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options in a shell.

    For bash, `source <(glassformer completion bash)` in ~/.bashrc; for zsh, write it to a file called _glassformer in
    a folder of $fpath; for fish, to ~/.config/fish/completions/glassformer.fish.

    Parameters
    ----------
    shell
        The shell that reads the script.
    """
    from glassformer.cli.main import app

    write(app.generate_completion(shell=shell).rstrip("\n"))
