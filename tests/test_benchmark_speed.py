"""The arithmetic of the speed table: a wrong one would be a wrong claim in the documentation."""

import pytest

from benchmarks.speed.loops import Clock
from benchmarks.speed.where import kind_of


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("triton_red_fused__scaled_dot_product_flash_attention_native_layer_norm_3", "compiled"),
        ("triton_poi_fused_convolution_silu_7", "compiled"),
        ("void pytorch_flash::flash_fwd_kernel<...>", "attention"),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16", "convolution"),
        ("nvjet_tst_192x192_64x4", "matrix product"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("void at::native::vectorized_elementwise_kernel<4, ...>", "other elementwise"),
    ],
)
def test_kernels_are_counted_by_what_they_are(kernel, kind):
    """Catches compiled code counted as attention or convolution, as its name lists all that is fused in it."""
    assert kind_of(kernel) == kind


def test_a_pass_pays_for_no_end_of_run(monkeypatch):
    """Catches the closing of the files divided over few passes, and the first passes counted."""
    clock = Clock(started=0.0, ends=[10.0, 20.0, 20.5, 21.0])
    monkeypatch.setattr("benchmarks.speed.loops.time.perf_counter", lambda: 24.0)
    timed = clock.stop()
    assert (timed.ms, timed.closing_ms, timed.first_s) == (500, 3000, 20)
