"""Templates (``meta_template/``): reading, selecting, listing and rewriting."""

from meta_eval.pack.templates.spec import FunctionRef, PublishedMetric, TaskSpec, Template
from meta_eval.pack.templates.template_folder import TemplateFolder, read_template_yaml, read_templates

__all__ = [
    "FunctionRef",
    "PublishedMetric",
    "TaskSpec",
    "Template",
    "TemplateFolder",
    "read_template_yaml",
    "read_templates",
]
