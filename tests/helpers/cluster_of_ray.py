"""A Ray of two cores, for as long as standard input is open: prints its address. Run by scale/test_scale.py."""

import sys

import ray

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
         object_store_memory=128 << 20)  # fmt: skip
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
