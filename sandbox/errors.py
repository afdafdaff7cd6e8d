"""The sandbox's error tree.

SandboxError
├── ForkServerDied      the server process ended; its children ended with it
├── SpawnRefused        the server lives but could not make a child
├── ChannelError        a frame is malformed or larger than allowed
├── ChildDied           the child ended without the answer that was waited for
└── ChildTimeout        the child did not answer in time; it still lives
"""


class SandboxError(Exception):
    """Root of everything that the sandbox raises."""


class ForkServerDied(SandboxError):  # noqa: N818 - named for what happened
    """The fork server process ended; the next spawn starts a new one."""


class SpawnRefused(SandboxError):  # noqa: N818 - named for what happened
    """The fork server could not make a child."""


class ChannelError(SandboxError):
    """A frame is malformed, or larger than allowed."""


class ChildDied(SandboxError):  # noqa: N818 - named for what happened
    """The child ended without the answer that was waited for."""

    def __init__(
        self, *, reason: str, signal: int | None = None, exit_code: int | None = None, stderr: str = ""
    ) -> None:
        super().__init__(reason)
        #: One line: a signal's name, an exit code, or the exception that left the entry function.
        self.reason = reason
        self.signal = signal
        self.exit_code = exit_code
        #: The end of what the child wrote to its standard error.
        self.stderr = stderr


class ChildTimeout(SandboxError):  # noqa: N818 - named for what happened
    """The child did not answer in time; it still lives and wants to be killed."""
