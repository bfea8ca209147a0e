"""The templates in ``meta_template/``: what they are, which are meant, how they are listed and rewritten."""

from meta_eval.templates.folder import TemplateFolder, read_templates, read_yaml
from meta_eval.templates.spec import FunctionRef, PublishedMetric, TaskSpec, Template

__all__ = ["FunctionRef", "PublishedMetric", "TaskSpec", "Template", "TemplateFolder", "read_templates", "read_yaml"]
