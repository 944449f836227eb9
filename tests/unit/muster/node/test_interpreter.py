"""How a node configures the interpreter of its process."""

import gc
import subprocess
import sys

from muster.node.serve import GC_THRESHOLDS, SWITCH_INTERVAL_S

CONFIGURE = """
import gc, sys
from muster.node import serve
serve._configure_interpreter()
print(sys.getswitchinterval(), *gc.get_threshold(), gc.get_freeze_count() > 0)
"""


def test_other_threads_and_the_collector_leave_the_event_loop_its_time() -> None:
    printed = subprocess.run([sys.executable, "-c", CONFIGURE], check=True, capture_output=True, text=True).stdout
    assert printed.split() == [str(SWITCH_INTERVAL_S), *map(str, GC_THRESHOLDS), "True"]
    assert sys.getswitchinterval() > SWITCH_INTERVAL_S
    assert gc.get_threshold() != GC_THRESHOLDS
