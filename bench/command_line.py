"""What the benchmarks' command lines have in common."""

import argparse


def parser(about):
    """A parser whose help is a module's docstring, with what stands in it from `example:` on at the end as it is."""
    usage, _, examples = about.partition("example:")
    return argparse.ArgumentParser(
        description=usage,
        epilog="example:" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
