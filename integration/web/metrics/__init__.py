"""Prometheus metrics of the product. docs/metrics.md lists them."""
