"""dagopt's own classes in the driver's JVM, for code that runs in the driver's Python."""

from __future__ import annotations

from typing import Any


def class_loader(jvm: Any) -> Any:
    """The class loader by which Spark finds plugins."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def jvm_class(jvm: Any, name: str) -> Any:
    """The class of that name as Spark would load it; py4j's own look-up sees fewer jars."""
    return jvm.java.lang.Class.forName(name, True, class_loader(jvm))


def call(context: Any, name: str, method: str, *arguments: Any) -> Any:
    """What a method of a Scala object gives that is not overloaded.

    Args:
        context: a SparkContext.
        name: the object's full name.
        method: the method's.
        *arguments: as py4j passes them.
    """
    jvm = context._jvm  # noqa: SLF001  py4j has no other door
    methods = jvm_class(jvm, name).getMethods()
    (found,) = (one for one in methods if one.getName() == method)
    passed = context._gateway.new_array(jvm.java.lang.Object, len(arguments))  # noqa: SLF001
    for index, argument in enumerate(arguments):
        passed[index] = argument
    return found.invoke(None, passed)
