"""The built-in ways to relate two layouts, one file each."""
