"""Speed side by side: the library beside whichever peers are installed or given, in one process."""
