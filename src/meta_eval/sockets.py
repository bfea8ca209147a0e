"""The public surface for plug-ins: the sockets, and what a plug-in needs of the core.

A plug-in imports from here and from itself, whether it is shipped in ``meta_eval.plugins`` or a package of yours. Each
name is imported on first use, so that a plug-in that is not used costs nothing.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

# Not typing's own, as in ``meta_eval/__init__.py``. Below is the list of names.
TYPE_CHECKING = False
if TYPE_CHECKING:
    # base: errors, messages, files
    # the package
    from meta_eval import api as api
    from meta_eval import stats as stats
    from meta_eval.ask.answer_files import AnswerForm as AnswerForm

    # ask: requests and answers
    from meta_eval.ask.answer_files import Answers as Answers
    from meta_eval.ask.answer_files import Export as Export
    from meta_eval.ask.answer_files import Holding as Holding
    from meta_eval.ask.answer_files import read_answers as read_answers
    from meta_eval.ask.answer_files import read_bound_answers as read_bound_answers
    from meta_eval.ask.ask_options import RunOptions as RunOptions
    from meta_eval.ask.canary import change_bos as change_bos
    from meta_eval.ask.canary import check_token_counts as check_token_counts
    from meta_eval.ask.canary import measure_gain as measure_gain
    from meta_eval.ask.canary import spread_docs as spread_docs
    from meta_eval.ask.client import TOO_LONG as TOO_LONG
    from meta_eval.ask.client import Client as Client
    from meta_eval.ask.client import ask_in_rounds as ask_in_rounds
    from meta_eval.ask.client import check_scores as check_scores
    from meta_eval.ask.client import describe_refusal as describe_refusal
    from meta_eval.ask.client import describe_start as describe_start
    from meta_eval.ask.client import explain_too_long as explain_too_long
    from meta_eval.ask.client import find_client as find_client
    from meta_eval.ask.client import find_refusals as find_refusals
    from meta_eval.ask.completions import CompletionsConnection as CompletionsConnection
    from meta_eval.ask.completions import Forcing as Forcing
    from meta_eval.ask.completions import Send as Send
    from meta_eval.ask.completions import ServerClient as ServerClient
    from meta_eval.ask.completions import read_choice as read_choice
    from meta_eval.ask.connection import Connection as Connection
    from meta_eval.ask.connection import OpenAIConnection as OpenAIConnection
    from meta_eval.ask.grading import Grading as Grading
    from meta_eval.ask.grading import Problems as Problems
    from meta_eval.ask.grading import match_answers as match_answers
    from meta_eval.ask.grading import note_unknown_answers as note_unknown_answers
    from meta_eval.ask.journal import Journal as Journal
    from meta_eval.ask.journal import check_shard as check_shard
    from meta_eval.ask.journal import read_earlier_answers as read_earlier_answers
    from meta_eval.ask.model_tokens import Encoder as Encoder
    from meta_eval.ask.model_tokens import ModelTokens as ModelTokens
    from meta_eval.ask.model_tokens import tokens_of as tokens_of
    from meta_eval.ask.pipeline import Interrupted as Interrupted
    from meta_eval.ask.pipeline import collect_identity as collect_identity
    from meta_eval.ask.pipeline import find_pack as find_pack
    from meta_eval.ask.pipeline import prepare_pack as prepare_pack
    from meta_eval.ask.pipeline import settings_of as settings_of
    from meta_eval.ask.recorded_answers import Recordings as Recordings
    from meta_eval.ask.recorded_answers import make_scoring_request as make_scoring_request
    from meta_eval.ask.request import Key as Key
    from meta_eval.ask.request import Request as Request
    from meta_eval.ask.request import choose_docs as choose_docs
    from meta_eval.ask.request import read_conversation as read_conversation
    from meta_eval.ask.request_kinds import Recorded as Recorded
    from meta_eval.ask.request_kinds import RequestKind as RequestKind
    from meta_eval.ask.request_kinds import build_requests as build_requests
    from meta_eval.ask.request_kinds import choose_tasks_to_ask as choose_tasks_to_ask
    from meta_eval.ask.request_kinds import cut_at_stop as cut_at_stop
    from meta_eval.ask.request_kinds import encode_requests as encode_requests
    from meta_eval.ask.request_kinds import find_request_kind as find_request_kind
    from meta_eval.ask.request_loop import Pace as Pace
    from meta_eval.ask.served import HOST as HOST
    from meta_eval.ask.served import Served as Served
    from meta_eval.ask.served import counting_saved as counting_saved
    from meta_eval.ask.served import diagnose_engine as diagnose_engine
    from meta_eval.ask.served import start_server as start_server
    from meta_eval.ask.servers_client import RefusedError as RefusedError
    from meta_eval.ask.servers_client import ServersClient as ServersClient
    from meta_eval.ask.transport import CutError as CutError
    from meta_eval.ask.transport import Failed as Failed
    from meta_eval.ask.transport import GarbledError as GarbledError
    from meta_eval.ask.transport import Json as Json
    from meta_eval.ask.transport import Reply as Reply
    from meta_eval.ask.transport import draw_backoff as draw_backoff
    from meta_eval.base import assets as assets
    from meta_eval.base.apart import apart as apart

    # the package
    from meta_eval.base.assets.details.details_scoring import lighteval_choices as lighteval_choices
    from meta_eval.base.assets.details.details_scoring import truthfulqa_mc as truthfulqa_mc
    from meta_eval.base.display import one_line as one_line
    from meta_eval.base.display import plural as plural
    from meta_eval.base.display import quoted as quoted
    from meta_eval.base.errors import ConfigError as ConfigError
    from meta_eval.base.errors import DataError as DataError
    from meta_eval.base.errors import JoinError as JoinError
    from meta_eval.base.errors import PackError as PackError
    from meta_eval.base.errors import SourceError as SourceError
    from meta_eval.base.errors import TemplateError as TemplateError
    from meta_eval.base.errors import UnreachableError as UnreachableError
    from meta_eval.base.errors import UserError as UserError
    from meta_eval.base.errors import describe_wrong_value as describe_wrong_value
    from meta_eval.base.errors import documented as documented
    from meta_eval.base.errors import locating as locating
    from meta_eval.base.errors import suggest_name as suggest_name
    from meta_eval.base.hashing import hash_bytes as hash_bytes
    from meta_eval.base.hashing import hash_file as hash_file
    from meta_eval.base.hashing import hash_json as hash_json
    from meta_eval.base.hashing import hash_text as hash_text
    from meta_eval.base.hashing import normalise_url as normalise_url
    from meta_eval.base.inputs import MAX_DEPTH as MAX_DEPTH
    from meta_eval.base.inputs import MAX_FILE as MAX_FILE
    from meta_eval.base.inputs import PointerError as PointerError
    from meta_eval.base.inputs import describe_error as describe_error
    from meta_eval.base.inputs import describe_form as describe_form
    from meta_eval.base.inputs import expand_home as expand_home
    from meta_eval.base.inputs import format_json as format_json
    from meta_eval.base.inputs import is_deep as is_deep
    from meta_eval.base.inputs import is_packed as is_packed
    from meta_eval.base.inputs import open_data as open_data
    from meta_eval.base.inputs import open_parquet as open_parquet
    from meta_eval.base.inputs import open_regular as open_regular
    from meta_eval.base.inputs import parse_json as parse_json
    from meta_eval.base.inputs import parse_loose_json as parse_loose_json
    from meta_eval.base.inputs import read_regular as read_regular
    from meta_eval.base.inputs import read_table as read_table
    from meta_eval.base.inputs import read_text as read_text
    from meta_eval.base.inputs import suggest_path as suggest_path
    from meta_eval.base.isolation import isolate_code as isolate_code
    from meta_eval.base.logs import Progress as Progress
    from meta_eval.base.logs import display_logs as display_logs
    from meta_eval.base.logs import log as log
    from meta_eval.base.logs import report_progress as report_progress
    from meta_eval.base.outputs import OutputError as OutputError
    from meta_eval.base.outputs import check_outputs as check_outputs
    from meta_eval.base.outputs import replace_file as replace_file
    from meta_eval.base.ownership import check_folder as check_folder
    from meta_eval.base.ownership import replace_folder as replace_folder
    from meta_eval.base.pack_names import RULE as RULE
    from meta_eval.base.pack_names import expand_patterns as expand_patterns
    from meta_eval.base.pack_names import is_name as is_name
    from meta_eval.base.pack_names import join_names as join_names
    from meta_eval.base.pack_names import split_excluded as split_excluded
    from meta_eval.base.secrets import holds_secret as holds_secret
    from meta_eval.base.sigterm import interrupt_on_sigterm as interrupt_on_sigterm
    from meta_eval.base.thresholds import LEVEL as LEVEL
    from meta_eval.base.thresholds import MARGIN as MARGIN
    from meta_eval.base.thresholds import MAX_GEN_TOKS as MAX_GEN_TOKS
    from meta_eval.base.thresholds import NAMED as NAMED
    from meta_eval.base.thresholds import PLANNED_FLIPS as PLANNED_FLIPS
    from meta_eval.base.thresholds import POWER as POWER
    from meta_eval.base.thresholds import SAMENESS_MIN_DOCS as SAMENESS_MIN_DOCS
    from meta_eval.base.thresholds import percent as percent
    from meta_eval.base.verb_options import Options as Options
    from meta_eval.base.verb_options import option as option
    from meta_eval.base.verb_options import option_of as option_of

    # the package
    from meta_eval.base.version import __version__ as __version__
    from meta_eval.base.yaml_files import YamlError as YamlError
    from meta_eval.base.yaml_files import parse_yaml as parse_yaml
    from meta_eval.base.yaml_files import read_yaml as read_yaml

    # cli: verbs
    from meta_eval.cli import options as options
    from meta_eval.cli.console import err as err
    from meta_eval.cli.console import make_result_console as make_result_console
    from meta_eval.cli.console import show_progress as show_progress
    from meta_eval.cli.console import show_result as show_result
    from meta_eval.cli.console import warn as warn
    from meta_eval.cli.console import write_document as write_document
    from meta_eval.cli.run import Log as Log
    from meta_eval.cli.streams import print_result as print_result
    from meta_eval.cli.verb import Verb as Verb

    # doctor: checks
    from meta_eval.doctor.check import Check as Check
    from meta_eval.doctor.check import CheckedPack as CheckedPack
    from meta_eval.doctor.check import Finding as Finding
    from meta_eval.doctor.check import failed as failed
    from meta_eval.doctor.check import not_checked as not_checked
    from meta_eval.doctor.check import passed as passed
    from meta_eval.doctor.lm_eval_probe import find_lm_eval as find_lm_eval

    # harness: what lm-eval reads and writes
    from meta_eval.harness.answer import SHORT as SHORT
    from meta_eval.harness.answer import Answer as Answer
    from meta_eval.harness.answer import AnswersError as AnswersError
    from meta_eval.harness.answer import make_chat_answer as make_chat_answer
    from meta_eval.harness.chat_completion import LONGEST as LONGEST
    from meta_eval.harness.chat_completion import ChatChoice as ChatChoice
    from meta_eval.harness.chat_completion import ChatCompletion as ChatCompletion
    from meta_eval.harness.chat_completion import read_chat_completion as read_chat_completion
    from meta_eval.harness.chat_messages import make_conversation as make_conversation
    from meta_eval.harness.chat_messages import offers_tools as offers_tools
    from meta_eval.harness.config_keys import ConfigKeys as ConfigKeys
    from meta_eval.harness.config_keys import make_visible as make_visible
    from meta_eval.harness.config_keys import refuse_secret as refuse_secret
    from meta_eval.harness.doc_results import average_figures as average_figures
    from meta_eval.harness.evaluator import Evaluator as Evaluator
    from meta_eval.harness.families import list_bos_tokens as list_bos_tokens
    from meta_eval.harness.families import list_families as list_families
    from meta_eval.harness.families import remove_bos as remove_bos
    from meta_eval.harness.lm_eval_run import Run as Run
    from meta_eval.harness.lm_eval_run import TaskRun as TaskRun
    from meta_eval.harness.output_index import RESTORE_NAME as RESTORE_NAME
    from meta_eval.harness.output_index import TaskOutput as TaskOutput
    from meta_eval.harness.output_index import explain_wrong_time as explain_wrong_time
    from meta_eval.harness.output_index import parse_time as parse_time
    from meta_eval.harness.provenance import CUT_EARLY as CUT_EARLY
    from meta_eval.harness.provenance import TOOLS_LOST as TOOLS_LOST
    from meta_eval.harness.sample_files import read_raw_samples as read_raw_samples
    from meta_eval.harness.sample_parser import FILTERED as FILTERED
    from meta_eval.harness.scores import compute_scores as compute_scores
    from meta_eval.harness.settings import RunSettings as RunSettings
    from meta_eval.harness.settings import Settings as Settings
    from meta_eval.harness.settings import read_model_args as read_model_args
    from meta_eval.harness.token_logprobs import LOWEST as LOWEST
    from meta_eval.harness.token_logprobs import TokenLogprobs as TokenLogprobs
    from meta_eval.harness.token_logprobs import TokenPlace as TokenPlace
    from meta_eval.harness.token_logprobs import collect_tokens as collect_tokens
    from meta_eval.judge.decide import SAMENESS_CODES as SAMENESS_CODES
    from meta_eval.judge.decide import Sameness as Sameness
    from meta_eval.judge.decision import Alarm as Alarm
    from meta_eval.judge.decision import AlarmKind as AlarmKind
    from meta_eval.judge.decision import AlarmOccurrence as AlarmOccurrence
    from meta_eval.judge.decision import DocsAbove as DocsAbove
    from meta_eval.judge.evidence import Evidence as Evidence
    from meta_eval.judge.evidence import EvidenceCase as EvidenceCase
    from meta_eval.judge.evidence import Findings as Findings

    # judge: pairs of docs, alarms, the decision
    from meta_eval.judge.gate import Condition as Condition
    from meta_eval.judge.gate import Gate as Gate
    from meta_eval.judge.gate import read_gate as read_gate
    from meta_eval.judge.judging_options import JudgingOptions as JudgingOptions
    from meta_eval.judge.pair import find_verdict_metric as find_verdict_metric
    from meta_eval.judge.token_table import BATCH as BATCH
    from meta_eval.judge.token_table import PROBES as PROBES
    from meta_eval.judge.token_table import TABLES as TABLES
    from meta_eval.judge.token_table import Choices as Choices
    from meta_eval.judge.token_table import Floats as Floats
    from meta_eval.judge.token_table import Forced as Forced
    from meta_eval.judge.token_table import Header as Header
    from meta_eval.judge.token_table import Ints as Ints
    from meta_eval.judge.token_table import Schema as Schema
    from meta_eval.judge.token_table import Tokens as Tokens
    from meta_eval.judge.token_table import check_logprobs as check_logprobs
    from meta_eval.judge.token_table import find_choices_path as find_choices_path
    from meta_eval.judge.token_table import find_table as find_table
    from meta_eval.judge.token_table import find_texts_path as find_texts_path
    from meta_eval.judge.token_table import make_damage_error as make_damage_error
    from meta_eval.judge.token_table import path_beside as path_beside
    from meta_eval.judge.token_table import read_any_header as read_any_header
    from meta_eval.judge.token_table import read_batches as read_batches
    from meta_eval.judge.token_table import read_choices as read_choices
    from meta_eval.judge.token_table import read_header as read_header
    from meta_eval.judge.token_table import read_tokens as read_tokens
    from meta_eval.judge.token_table import read_whole_tables as read_whole_tables
    from meta_eval.judge.token_table import write_choices as write_choices
    from meta_eval.judge.token_table import write_table as write_table
    from meta_eval.judge.token_table import write_tokens as write_tokens
    from meta_eval.pack import hub as hub

    # pack: configuration, records, manifest
    from meta_eval.pack.backends.base import AddedBos as AddedBos
    from meta_eval.pack.backends.base import Backend as Backend
    from meta_eval.pack.backends.base import BackendError as BackendError
    from meta_eval.pack.backends.base import BackendReasons as BackendReasons
    from meta_eval.pack.backends.base import describe_missing as describe_missing
    from meta_eval.pack.backends.base import load_class as load_class
    from meta_eval.pack.backends.registry import backend_of as backend_of
    from meta_eval.pack.backends.registry import find_backend as find_backend
    from meta_eval.pack.backends.server import DEFAULT_URL as DEFAULT_URL
    from meta_eval.pack.backends.server import OF_CLIENT as OF_CLIENT
    from meta_eval.pack.backends.server import LmEvalBackend as LmEvalBackend
    from meta_eval.pack.backends.server import Server as Server
    from meta_eval.pack.backends.server import ServerProgram as ServerProgram
    from meta_eval.pack.backends.server import find_program as find_program
    from meta_eval.pack.chat_rendering import ChatTemplate as ChatTemplate
    from meta_eval.pack.chat_rendering import fetch_chat_template as fetch_chat_template
    from meta_eval.pack.chat_rendering import find_chat_template as find_chat_template
    from meta_eval.pack.chat_rendering import render_conversation as render_conversation
    from meta_eval.pack.config import Config as Config
    from meta_eval.pack.config import ValuePlace as ValuePlace
    from meta_eval.pack.config import open_config as open_config
    from meta_eval.pack.config import override_settings as override_settings
    from meta_eval.pack.doc_table import begin_parquet as begin_parquet
    from meta_eval.pack.doc_table import encode_parquet as encode_parquet
    from meta_eval.pack.doc_table import have_one_layout as have_one_layout
    from meta_eval.pack.doc_table import make_column as make_column
    from meta_eval.pack.doc_table import make_table as make_table
    from meta_eval.pack.hub import DataFile as DataFile
    from meta_eval.pack.hub import Repository as Repository
    from meta_eval.pack.integrity import check_unchanged as check_unchanged
    from meta_eval.pack.manifest import MANIFEST as MANIFEST
    from meta_eval.pack.manifest import JoinEntry as JoinEntry
    from meta_eval.pack.manifest import KnownGapEntry as KnownGapEntry
    from meta_eval.pack.manifest import Manifest as Manifest
    from meta_eval.pack.manifest import OriginalEntry as OriginalEntry
    from meta_eval.pack.manifest import RecordEntry as RecordEntry
    from meta_eval.pack.manifest import ReferenceScoreEntry as ReferenceScoreEntry
    from meta_eval.pack.manifest import TaskEntry as TaskEntry
    from meta_eval.pack.manifest import TextDifferenceEntry as TextDifferenceEntry
    from meta_eval.pack.manifest import Trust as Trust
    from meta_eval.pack.manifest import read_manifest as read_manifest

    # the package
    from meta_eval.pack.pack_options import DEFAULT_CONFIG as DEFAULT_CONFIG
    from meta_eval.pack.pack_options import OVERRIDE as OVERRIDE
    from meta_eval.pack.pack_options import TEMPLATES as TEMPLATES
    from meta_eval.pack.pack_options import ScoringOptions as ScoringOptions
    from meta_eval.pack.pack_options import TaskOptions as TaskOptions
    from meta_eval.pack.prepared_task import PrepareContext as PrepareContext
    from meta_eval.pack.prepared_task import PreparedTask as PreparedTask
    from meta_eval.pack.prepared_task import measure_length as measure_length
    from meta_eval.pack.prompt_lengths import find_tokenizer as find_tokenizer
    from meta_eval.pack.prompt_lengths import find_tokenizer_file as find_tokenizer_file
    from meta_eval.pack.prompt_lengths import make_token_counter as make_token_counter
    from meta_eval.pack.punkt import INSTRUCTIONS as INSTRUCTIONS
    from meta_eval.pack.punkt import need_punkt as need_punkt
    from meta_eval.pack.records.format import GUESS as GUESS
    from meta_eval.pack.records.format import LIKELY as LIKELY
    from meta_eval.pack.records.format import SURE as SURE
    from meta_eval.pack.records.format import Grader as Grader
    from meta_eval.pack.records.format import Place as Place
    from meta_eval.pack.records.format import Reading as Reading
    from meta_eval.pack.records.format import Record as Record
    from meta_eval.pack.records.format import RecordedScore as RecordedScore
    from meta_eval.pack.records.format import RecordedTask as RecordedTask
    from meta_eval.pack.records.format import RecordFormat as RecordFormat
    from meta_eval.pack.records.format import TextAnswer as TextAnswer
    from meta_eval.pack.records.format import TextRecord as TextRecord
    from meta_eval.pack.records.format_registry import explain_unreadable as explain_unreadable
    from meta_eval.pack.records.format_registry import find_format as find_format
    from meta_eval.pack.records.log_entries import LogEntry as LogEntry
    from meta_eval.pack.records.log_entries import find_logs as find_logs
    from meta_eval.pack.records.log_entries import parse_log as parse_log
    from meta_eval.pack.records.log_entries import peek_log as peek_log
    from meta_eval.pack.records.log_entries import read_log as read_log
    from meta_eval.pack.records.log_entries import read_log_lines as read_log_lines
    from meta_eval.pack.records.log_entries import to_number as to_number
    from meta_eval.pack.records.log_record import LoggedAnswer as LoggedAnswer
    from meta_eval.pack.records.log_record import LoggedTask as LoggedTask
    from meta_eval.pack.records.log_record import LogRecord as LogRecord
    from meta_eval.pack.records.log_record import make_task_name as make_task_name
    from meta_eval.pack.records.next_token import score_by_next_token as score_by_next_token
    from meta_eval.pack.records.record_runs import read_any_run as read_any_run
    from meta_eval.pack.records.recorded_docs import WARNING_TEXTS as WARNING_TEXTS
    from meta_eval.pack.records.recorded_docs import RecordedDoc as RecordedDoc
    from meta_eval.pack.records.recorded_docs import RecordedDocs as RecordedDocs
    from meta_eval.pack.records.recorded_docs import format_chat_body as format_chat_body
    from meta_eval.pack.records.recorded_docs import format_doc as format_doc
    from meta_eval.pack.records.run_selection import choose_runs as choose_runs
    from meta_eval.pack.records.run_selection import make_config_name as make_config_name
    from meta_eval.pack.records.run_selection import normalise_time as normalise_time
    from meta_eval.pack.records.task_code import has_task as has_task
    from meta_eval.pack.records.task_code import list_group_members as list_group_members
    from meta_eval.pack.records.task_code import make_grader_code as make_grader_code
    from meta_eval.pack.records.task_groups import ALL as ALL
    from meta_eval.pack.records.task_groups import GroupPart as GroupPart
    from meta_eval.pack.records.task_groups import GroupScore as GroupScore
    from meta_eval.pack.records.task_groups import TaskGroup as TaskGroup
    from meta_eval.pack.records.task_groups import TaskGroups as TaskGroups
    from meta_eval.pack.records.task_source import CandidateTask as CandidateTask
    from meta_eval.pack.records.task_source import TaskSource as TaskSource
    from meta_eval.pack.templates import task_yaml as task_yaml
    from meta_eval.pack.templates.checks import check_functions as check_functions
    from meta_eval.pack.templates.recipe_folder import find_recipe as find_recipe
    from meta_eval.pack.templates.spec import ClusterRule as ClusterRule
    from meta_eval.pack.templates.spec import PublishedMetric as PublishedMetric
    from meta_eval.pack.templates.spec import Template as Template
    from meta_eval.pack.templates.spec import Variant as Variant
    from meta_eval.pack.templates.template_folder import TemplateFolder as TemplateFolder
    from meta_eval.pack.templates.template_folder import locate_file as locate_file
    from meta_eval.pack.templates.template_folder import read_templates as read_templates

    # report: documents and views
    from meta_eval.reports import text as text
    from meta_eval.reports.candidates import CandidatesReport as CandidatesReport
    from meta_eval.reports.document import Cell as Cell
    from meta_eval.reports.document import Column as Column
    from meta_eval.reports.document import Document as Document
    from meta_eval.reports.document import Fact as Fact
    from meta_eval.reports.document import Figure as Figure
    from meta_eval.reports.document import Item as Item
    from meta_eval.reports.document import Listing as Listing
    from meta_eval.reports.document import Row as Row
    from meta_eval.reports.document import RunProvenance as RunProvenance
    from meta_eval.reports.document import Section as Section
    from meta_eval.reports.document import Table as Table
    from meta_eval.reports.document import Verdict as Verdict
    from meta_eval.reports.plot import Mark as Mark
    from meta_eval.reports.plot import Plot as Plot
    from meta_eval.reports.plot import Tick as Tick
    from meta_eval.reports.report import Report as Report
    from meta_eval.reports.text import NONE as NONE
    from meta_eval.reports.text import format_count as format_count
    from meta_eval.reports.text import format_nats as format_nats
    from meta_eval.reports.text import format_percent as format_percent
    from meta_eval.reports.text import name_task as name_task
    from meta_eval.reports.views import TextView as TextView
    from meta_eval.reports.views import View as View
    from meta_eval.reports.views import choose_views as choose_views

    # stats: numbers in, numbers out
    from meta_eval.stats import Interval as Interval
    from meta_eval.stats import correct_by_holm as correct_by_holm
    from meta_eval.stats import mean as mean
    from meta_eval.stats import score_interval as score_interval
    from meta_eval.stats.first_divergence import FirstDivergence as FirstDivergence
    from meta_eval.stats.first_divergence import measure_divergence as measure_divergence
    from meta_eval.stats.identical import chance_of_change as chance_of_change
    from meta_eval.stats.ratio import Mean as Mean
    from meta_eval.stats.ratio import bound_unseen as bound_unseen
    from meta_eval.stats.ratio import count_for_unseen as count_for_unseen
    from meta_eval.stats.ratio import mean_of_tokens as mean_of_tokens
    from meta_eval.stats.ratio import ratio_of_means as ratio_of_means


@cache
def _read_homes() -> dict[str, tuple[str, str]]:
    """By public name: the module of the core, and the name there. Read from the imports above, a line each."""
    lines = re.findall(r"^    from (\S+) import (\w+) as (\w+)$", Path(__file__).read_text("utf-8"), re.MULTILINE)
    return {name: (module, original) for module, original, name in lines}


def __getattr__(name: str) -> Any:
    homes = {} if name.startswith("__") and name != "__version__" else _read_homes()
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = homes[name]
    home = import_module(module)
    value = getattr(home, original) if hasattr(home, original) else import_module(f"{module}.{original}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_read_homes())
