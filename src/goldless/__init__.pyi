# Made by tests/typing/stubs.py from the declarations of verbs and options.
from goldless._version import __version__ as __version__
from goldless.api import agree as agree
from goldless.api import bias as bias
from goldless.api import calibrate as calibrate
from goldless.api import compare as compare
from goldless.api import consistency as consistency
from goldless.api import cost as cost
from goldless.api import crash_test as crash_test
from goldless.api import evaluate as evaluate
from goldless.api import explain as explain
from goldless.api import export as export
from goldless.api import gate as gate
from goldless.api import load as load
from goldless.api import plan as plan
from goldless.api import review as review
from goldless.api import reward as reward
from goldless.api import select as select
from goldless.comparison.comparing import PairedComparison as PairedComparison
from goldless.comparison.gating import Gate as Gate
from goldless.errors import BudgetError as BudgetError
from goldless.errors import CallError as CallError
from goldless.errors import CanaryError as CanaryError
from goldless.errors import CapabilityError as CapabilityError
from goldless.errors import GoldlessError as GoldlessError
from goldless.errors import MetricError as MetricError
from goldless.errors import ModelError as ModelError
from goldless.errors import ModelSpecError as ModelSpecError
from goldless.errors import PrerequisiteError as PrerequisiteError
from goldless.errors import Problem as Problem
from goldless.errors import StudyError as StudyError
from goldless.errors import TextTooLongError as TextTooLongError
from goldless.errors import UserError as UserError
from goldless.errors import WaitingError as WaitingError
from goldless.meta_evaluation.agreement import Agreement as Agreement
from goldless.meta_evaluation.bias import BiasReport as BiasReport
from goldless.meta_evaluation.calibration import Calibration as Calibration
from goldless.meta_evaluation.consistency import Consistency as Consistency
from goldless.meta_evaluation.cost import CostReport as CostReport
from goldless.meta_evaluation.crash_test import CrashTest as CrashTest
from goldless.meta_evaluation.crash_test import save_crash_test as save_crash_test
from goldless.metrics.information_map import InformationMap as InformationMap
from goldless.models.catalogue import open_model as open_model
from goldless.models.scripted import ScriptedModel as ScriptedModel
from goldless.reports.leaderboard import Leaderboard as Leaderboard
from goldless.rewarding.reward import Reward as Reward
from goldless.runs.estimate import Plan as Plan
from goldless.runs.evaluation import Evaluation as Evaluation
from goldless.runs.review_outcome import Review as Review
from goldless.runs.store import save_review as save_review
from goldless.runs.store import save_run as save_run
from goldless.selection.selecting import Selection as Selection
from goldless.studies import Study as Study
from goldless.studies import import_study as import_study
from goldless.studies import read_study as read_study
from goldless.studies import sample_study as sample_study
from goldless.studies import study_from_frame as study_from_frame
from goldless.studies import write_study as write_study

__all__ = [
    'Agreement',
    'BiasReport',
    'BudgetError',
    'Calibration',
    'CallError',
    'CanaryError',
    'CapabilityError',
    'Consistency',
    'CostReport',
    'CrashTest',
    'Evaluation',
    'Gate',
    'GoldlessError',
    'InformationMap',
    'Leaderboard',
    'MetricError',
    'ModelError',
    'ModelSpecError',
    'PairedComparison',
    'Plan',
    'PrerequisiteError',
    'Problem',
    'Review',
    'Reward',
    'ScriptedModel',
    'Selection',
    'Study',
    'StudyError',
    'TextTooLongError',
    'UserError',
    'WaitingError',
    '__version__',
    'agree',
    'bias',
    'calibrate',
    'compare',
    'consistency',
    'cost',
    'crash_test',
    'evaluate',
    'explain',
    'export',
    'gate',
    'import_study',
    'load',
    'open_model',
    'plan',
    'read_study',
    'review',
    'reward',
    'sample_study',
    'save_crash_test',
    'save_review',
    'save_run',
    'select',
    'study_from_frame',
    'write_study',
]
