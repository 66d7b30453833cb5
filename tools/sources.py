"""What the checks of sources look at: every file of some kinds in some folders, those of C++, C and CUDA unless told otherwise, in a fixed
order."""
import pathlib
import sys

ENDINGS = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".in"}


def texts(root, *folders, endings=frozenset(ENDINGS)):
    """Each file's path, as seen from the root, and its text."""
    files = sorted(path for folder in folders for path in (root / folder).rglob("*")
                   if path.suffix in endings and "node_modules" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def main(complaints):
    """Prints what complaints(ROOT) finds in the folder that the command line names, or here; the exit status."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = complaints(root)
    for line in found:
        print(line)
    return 1 if found else 0
