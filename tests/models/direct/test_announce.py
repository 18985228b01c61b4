"""What a compiled profile says before it begins."""

import logging

from dltb.models.direct.engine import _announce
from dltb.models.report import ProfileReport


def test_compiling_is_said_once_and_torch_is_calm(capsys, caplog):
    """Catches a silent minute, a line for every prompt, and a filter that drops more than the one false line."""
    report = ProfileReport("fast", "direct")
    _announce(report)
    report.say("unet", "compiled", 1.0)
    _announce(report)
    assert capsys.readouterr().err == "compiling for --profile fast; the first passes are slow ...\n"
    log = logging.getLogger("torch.utils.cpp_extension")
    log.addHandler(caplog.handler)
    try:
        log.warning("No CUDA runtime is found, using CUDA_HOME='%s'", "/usr/local/cuda")
        log.warning("another")
    finally:
        log.removeHandler(caplog.handler)
    assert {record.getMessage() for record in caplog.records} == {"another"}
