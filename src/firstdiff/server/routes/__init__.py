"""The routes under /api, a module for each thing they are about."""
