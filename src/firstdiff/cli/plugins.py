"""`firstdiff plugins`: what each hook holds."""

from __future__ import annotations


def plugins() -> None:
    """List the readers, reports and other parts that are installed, and the package each came with."""
    from firstdiff.cli.console import say
    from firstdiff.measure import describe_library
    from firstdiff.plugins import HOOKS, PluginError, listed
    from firstdiff.reports.terminal import columns

    rows = [("hook", "name", "package", "state")]
    for hook in HOOKS:
        for plugin in listed(hook):
            try:
                plugin.load()
                state = "loads"
            except PluginError as error:
                state = str(error)
            rows.append((hook, plugin.name, plugin.package, state))
    rows.append(("kernel", "measure", "firstdiff", describe_library()))
    for line in columns(rows):
        say(line)
