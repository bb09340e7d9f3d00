"""The parts of tools/cluster; docs/cluster.md says how they fit together."""
