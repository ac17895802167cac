"""`banyan demo`: train on the documentation that comes with Python, then search it by meaning."""

from banyan.demo.demo import run_demo

__all__ = ["run_demo"]
