"""`firstdiff mcp`: the tools as a server that coding agents start."""

from __future__ import annotations

from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = """\
firstdiff compares the intermediate tensors of a reference run and a candidate run (a port, an export, a new engine),
names the first tensor that diverges and tests causes on the numbers. Work from the front of the pipeline: call validate
or compare, read the first divergence, look at it with tensor_slice and tensor_statistics, fix the candidate's code, and
call again until it passes. Never widen a tolerance to make it pass. Paths are relative to the project's folder.
"""


def mcp(
    project: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder tools may read; that of the nearest firstdiff.toml if left out."),
    ] = None,
) -> None:
    """Serve compare, explain, diagnose, slices and validate to coding agents, over standard input and output."""
    server(_root(project)).run("stdio")


def _root(stated: Path | None) -> Path:
    from firstdiff.errors import UsageError
    from firstdiff.workflows.project import find_project

    if stated is not None:
        if not stated.is_dir():
            raise UsageError(f"--project {stated} is not a folder")
        return stated.resolve()
    found = find_project()
    return found.parent if found else Path.cwd()


def server(root: Path) -> MCPServer:
    """Return the server of one project's folder; UsageError where the SDK is not installed."""
    from firstdiff import __version__
    from firstdiff.cli.agent_tools import READING, RUNNING, ProjectTools, check_arguments, guarded
    from firstdiff.errors import UsageError

    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
        from pydantic import ValidationError
    except ImportError as error:
        raise UsageError("mcp needs the official SDK, version 2: pip install 'firstdiff[mcp]'") from error
    tools = ProjectTools(root)

    class ToolServer(MCPServer):
        """Says in one sentence which arguments a call lacks or has too many; the SDK would ignore the latter."""

        async def call_tool(self, name: str, arguments: dict[str, Any], *args: Any, **more: Any) -> Any:
            if name in (*READING, *RUNNING):
                try:
                    check_arguments(getattr(tools, name), arguments)
                except UsageError as error:
                    raise ToolError(str(error)) from error
            try:
                return await super().call_tool(name, arguments, *args, **more)
            except ToolError as error:
                if not isinstance(error.__cause__, ValidationError):
                    raise
                wrong = error.__cause__.errors()[0]
                at = ".".join(str(part) for part in wrong["loc"])
                raise ToolError(f"{name}: {at} is {wrong['input']!r}: {wrong['msg']}") from error

    made = ToolServer("firstdiff", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    for name in (*READING, *RUNNING):
        reads = name in READING
        hints = ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=None if reads else False,
            idempotent_hint=True,
            open_world_hint=not reads,
        )
        tool = getattr(tools, name)
        made.add_tool(guarded(tool, ToolError), name=name, description=getdoc(tool), annotations=hints)
    return made
