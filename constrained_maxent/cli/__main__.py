"""``python -m constrained_maxent.cli``."""

import sys

from constrained_maxent.cli import main

sys.exit(main())
