"""PR_SET_PDEATHSIG: the kernel ends a child when the process that started it dies, however it dies."""

#: Put before a command line; setpriv is part of util-linux, which every Debian and Ubuntu has.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
