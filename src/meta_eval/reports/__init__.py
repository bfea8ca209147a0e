"""A report: its data in ``model`` and `meta_eval.judging.judgement`, put together in ``build``; a module for each view.

Views read nothing else, so that terminal, Markdown, JSON and HTML cannot say different things.
"""
