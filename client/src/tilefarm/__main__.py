"""`python -m tilefarm` is `tilefarm`."""

import sys

from tilefarm.cli.main import main

sys.exit(main())
