"""helm: runs of the harness HELM."""
