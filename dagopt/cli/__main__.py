"""``python -m dagopt.cli`` is the command ``dagopt`` without its script."""

from __future__ import annotations

import sys

from dagopt.cli.main import main

sys.exit(main())
