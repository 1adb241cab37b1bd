"""The agent door: attune's verbs for an agent, over the Model Context Protocol."""
