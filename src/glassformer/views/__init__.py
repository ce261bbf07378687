"""Views of traces and of the equation catalog: terminal, HTML, notebook and files."""
