"""Rules by class of Hugging Face configs, as data, and what reads a config by them."""
