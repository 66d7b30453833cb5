#!/usr/bin/env python3
"""Checks that tools/check_layers.py and tools/check_contract_names.py see what they are there to see."""
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


sys.path.insert(0, str(ROOT / "tools"))
import check_contract_names  # noqa: E402
import check_layers  # noqa: E402


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for top in ("include", "src", "apps", "bench", "fuzz"):
            shutil.copytree(ROOT / top, self.root / top)

    def append(self, path, text):
        with open(self.root / path, "a", encoding="utf-8") as file:
            file.write(text)

    def expect(self, tool, path, text, complaint):
        self.assertEqual(tool.complaints(self.root), [])
        self.append(path, text)
        self.assertEqual(tool.complaints(self.root), [complaint])


class Layers(Checks):
    def test_an_include_of_a_higher_layer_is_told(self):
        self.expect(check_layers, "src/ops/contract.hpp", '#include "model/model.hpp"\n',
                    "src/ops/contract.hpp includes src/model/model.hpp, and src/ops does not stand on src/model")

    def test_an_include_of_a_neighbour_is_told(self):
        self.expect(check_layers, "src/text/chat_template.cpp", '#include "checkpoint/config.hpp"\n',
                    "src/text/chat_template.cpp includes src/checkpoint/config.hpp, and src/text does not stand on src/checkpoint")

    def test_a_kernel_header_above_the_kernels_is_told(self):
        for path in ("src/server/served_model.cpp", "src/model/runner.hpp", "src/ops/transformer_ops.cpp", "apps/cli/main.cpp"):
            with self.subTest(path):
                before = (self.root / path).read_text(encoding="utf-8")
                self.expect(check_layers, path, '#include "kernels/cuda/runtime/memory.hpp"\n',
                            f"{path} includes src/kernels/cuda/runtime/memory.hpp, which only src/kernels/cuda itself "
                            "includes")
                (self.root / path).write_text(before, encoding="utf-8")

    def test_one_backend_does_not_include_another(self):
        self.expect(check_layers, "src/kernels/cpu/backend.cpp", '#include "kernels/cuda/sm_limits.hpp"\n',
                    "src/kernels/cpu/backend.cpp includes src/kernels/cuda/sm_limits.hpp, which only src/kernels/cuda "
                    "itself includes")

    def test_a_folder_without_a_place_is_told(self):
        (self.root / "src/attic").mkdir()
        self.expect(check_layers, "src/attic/old.cpp", '#include "base/check.hpp"\n',
                    "src/attic/old.cpp includes src/base/check.hpp, and one of the two is in a folder that "
                    "tools/check_layers.py gives no place")


class ContractNames(Checks):
    def test_a_compared_name_is_told(self):
        self.expect(check_contract_names, "src/model/model.cpp", 'bool f() { return name == "exact-1"; }\n',
                    self.told("src/model/model.cpp", "exact-1"))

    def test_a_list_of_baselines_is_told(self):
        self.expect(check_contract_names, "apps/cli/main.cpp", 'const char* kNames[] = {"layercast"};\n',
                    self.told("apps/cli/main.cpp", "layercast"))

    def test_bf16_is_told_where_it_is_no_data_type(self):
        self.append("apps/cli/main.cpp", 'bool g() { return weights == "bf16"; }\n')
        self.expect(check_contract_names, "apps/cli/main.cpp", 'bool f() { return numerics == "bf16"; }\n',
                    self.told("apps/cli/main.cpp", "bf16", 2))

    def told(self, path, name, more=1):
        lines = len((ROOT / path).read_text(encoding="utf-8").splitlines()) + more
        return f"{path}:{lines} names '{name}': ask the contract for a fact instead"


if __name__ == "__main__":
    unittest.main()
