"""The names of the tasks, for help that is shown without loading torch."""

import pkgutil

from glassformer.training import tasks

TASK_NAMES = ", ".join(sorted(file.name.replace("_", "-") for file in pkgutil.iter_modules(tasks.__path__)))
