"""attune finds the Megatron layout that trains a large model fastest on your cluster."""

__version__ = "0.1.0"
