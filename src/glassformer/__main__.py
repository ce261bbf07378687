"""Run the command line as `python -m glassformer`."""

import sys

from glassformer.cli.main import main

sys.exit(main())
