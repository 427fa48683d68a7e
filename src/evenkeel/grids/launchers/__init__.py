"""Where runs are executed: in this process, in processes of their own, or on a Ray cluster."""

from evenkeel.errors import one_of
from evenkeel.grids.execution import Execution
from evenkeel.grids.launchers.base import Launcher
from evenkeel.grids.launchers.cluster import RayCluster
from evenkeel.grids.launchers.in_process import InProcess
from evenkeel.grids.launchers.processes import Processes

LAUNCHERS: dict[str, type[Launcher]] = {
    "in-process": InProcess,
    "processes": Processes,
    "ray": RayCluster,
}


def launcher_for(execution: Execution) -> type[Launcher]:
    """Return the launcher that is named or implied; raise SettingsError if there is none of that name."""
    one_of("launcher", execution.launcher_name, LAUNCHERS)
    return LAUNCHERS[execution.launcher_name]
