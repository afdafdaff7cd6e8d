"""The exit codes of `tilefarm`, as its help prints them."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    #: The job failed or was cancelled; a check of `doctor` failed; `export` or `import` left some out.
    FAILED = 1
    #: The command line, a file on it, or the configuration does not read.
    USAGE = 2
    #: The service cannot be reached, or did not answer in time.
    UNREACHABLE = 3
    #: The service refused: a problem with the request, or the token.
    REFUSED = 4
    #: `lookup` found no record, `best` none yet, `lock --require-all` not for all.
    NO_RECORD = 5
    #: What came back is not what this client understands.
    BAD_ANSWER = 6
    INTERRUPTED = 130


HELP = """exit codes:
  0  ok
  1  the job failed or was cancelled; a check of doctor failed; export or import left records out
  2  the command line, a file, or the configuration does not read
  3  the service cannot be reached, or did not answer in time
  4  the service refused the request or the token
  5  no record (lookup, best, lock --require-all, coverage --min-percent)
  6  the service answered something that this client does not understand
  130  interrupted
"""
