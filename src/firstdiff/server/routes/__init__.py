"""The routes under /api, one module for each resource."""
