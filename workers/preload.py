"""Imported by the worker's fork server before it forks: what a measuring child needs is then there already.

Importing it is its whole effect, one build to start the compiler included; it starts no thread. Where TVM
comes without its compiler, children only load and time what others built.
"""

from tuner.tvm_light import has_compiler, load_tvm

load_tvm()

import numpy.ma  # noqa: E402, F401 - TVM's evaluator asks for a median, which loads it: 30 ms on the device

if has_compiler():
    from workers.warm_up import warm_up

    warm_up()
