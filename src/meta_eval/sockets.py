"""The public surface for plug-ins: the sockets, and what a package of yours needs of the core to fill them.

A name is imported on first use (PEP 562), so that a plug-in that is not used costs nothing. ``sockets.pyi`` tells type
checkers the same names. A plug-in that is shipped may import rooms of the core, too: ``.importlinter`` says which.
"""

from importlib import import_module

# The names of each module of the core.
MODULES = {
    "ask.answer_files": "AnswerForm Export Holding",
    "ask.client": "Client explain_too_long",
    "ask.completions": "Forcing",
    "ask.connection": "Connection",
    "ask.model_tokens": "Encoder",
    "ask.request": "Request",
    "ask.request_kinds": "RequestKind",
    "ask.servers_client": "RefusedError ServersClient",
    "base.display": "plural",
    "base.errors": "ConfigError DataError PackError SourceError UserError locating",
    "base.inputs": "parse_json read_regular",
    "base.logs": "log",
    "base.verb_options": "Options option",
    "cli.console": "err show_result write_document",
    "cli.streams": "print_result",
    "cli.verb": "Verb",
    "doctor.check": "Check CheckedPack Finding failed not_checked passed",
    "harness.answer": "Answer SHORT",
    "harness.config_keys": "ConfigKeys",
    "harness.doc_results": "average_figures",
    "harness.settings": "RunSettings Settings",
    "judge.alarm_kinds": "AlarmKind AlarmOccurrence",
    "judge.evidence": "Evidence EvidenceCase Findings",
    "pack.backends.base": "Backend BackendError BackendReasons",
    "pack.backends.server": "ServerProgram",
    "pack.manifest": "Manifest read_manifest",
    "pack.prepared_task": "PrepareContext PreparedTask",
    "pack.records.format": ("GUESS Grader LIKELY Place Reading Record RecordFormat RecordedScore RecordedTask SURE"),
    "pack.records.log_entries": "LogEntry find_logs peek_log read_log",
    "pack.records.log_format": "LogFormat",
    "pack.records.log_record": "FoundLog LogRecord LoggedTask TextRecord make_task_name",
    "pack.records.recorded_docs": "RecordedDoc record_answer",
    "pack.records.task_groups": "GroupPart GroupScore TaskGroup TaskGroups",
    "pack.records.task_source": "CandidateTask TaskSource",
    "reports.document": "Column Document Item Listing Row Section Table",
    "reports.views": "View",
}
_HOMES = {name: f"meta_eval.{module}" for module, names in MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
