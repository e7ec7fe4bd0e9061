"""Programs started quickly: as forks of a process that has made the slow imports already."""
