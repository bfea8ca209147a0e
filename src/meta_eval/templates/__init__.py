"""The templates in ``meta_template/``: reading, selecting, listing and rewriting them."""

from meta_eval.templates.folder import TemplateFolder, read_templates, read_yaml
from meta_eval.templates.spec import FunctionRef, PublishedMetric, TaskSpec, Template

__all__ = ["FunctionRef", "PublishedMetric", "TaskSpec", "Template", "TemplateFolder", "read_templates", "read_yaml"]
