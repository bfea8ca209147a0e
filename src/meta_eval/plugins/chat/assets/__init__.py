"""Code that prepare copies into packs of chat tasks."""
