"""Adapters to a live Spark: configuration, jar, sessions. The only package that knows pyspark."""
